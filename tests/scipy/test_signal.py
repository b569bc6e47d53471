"""Convolutions, trends and spectra against SciPy."""

import warnings

import numpy as np
import pytest
import scipy.signal

import tfn
from tests.covering import cover, in_turn
from tests.numpy.values import sample
from tfn import numpy as jnp
from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.scipy import signal
from tfn.scipy.signal.convolution import _fast
from tfn.scipy.signal.spectra import _added
from tfn.scipy.signal.windows import COSINES, window

MODES = ["full", "same", "valid"]
PAIRS = [
    ((7,), (3,)),
    ((4,), (6,)),
    ((1,), (1,)),
    ((5, 6), (3, 2)),
    ((3, 2), (6, 5)),
    ((4, 4), (4, 4)),
    ((4, 5, 3), (2, 3, 3)),
    ((2, 1, 4, 3), (1, 1, 2, 3)),
]


def values(name, shape, seed=0):
    """Random numbers of a dtype, the complex ones with two parts."""
    x = sample(name, shape, seed, special=False)
    return (
        x + (1j * sample("float32", shape, seed + 9, special=False)).astype(name)
        if (name.startswith("complex"))
        else x
    )


def near(got, want, ulps=64):
    """Equal at the precision of the dtype, by the size of the largest."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    eps = float(tfn.dtypes.finfo(got.dtype).eps)
    wide = complex if got.dtype.kind == "c" else float
    size = max(1e-9, float(np.abs(want).max(initial=0)))
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), atol=ulps * eps * size, rtol=0)


@pytest.mark.parametrize("name", ["float64", "complex128"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shapes", in_turn(3, PAIRS), ids=str)
def test_sums_of_products(shapes, mode, name):
    x, y = (values(name, shape, i) for i, shape in enumerate(shapes))
    for method in ("direct", "fft"):
        near(signal.convolve(x, y, mode, method), scipy.signal.convolve(x, y, mode, "direct"))
        near(signal.correlate(x, y, mode, method), scipy.signal.correlate(x, y, mode, "direct"))
    near(signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
    if x.ndim == 2:
        near(signal.convolve2d(x, y, mode), scipy.signal.convolve2d(x, y, mode))
        near(signal.correlate2d(x, y, mode), scipy.signal.correlate2d(x, y, mode))


def test_shapes_of_which_neither_contains_the_other():
    x, y = values("float64", (3, 7)), values("float64", (5, 2), 1)
    for mode in ("full", "same"):
        near(signal.convolve(x, y, mode), scipy.signal.convolve(x, y, mode, "direct"))
        near(signal.fftconvolve(x, y, mode), scipy.signal.fftconvolve(x, y, mode))
    near(signal.convolve(np.float32(3), np.float32(4)), np.float32(12))
    near(signal.fftconvolve(np.float32(3), np.float32(4)), np.float32(12))


@pytest.mark.parametrize(
    "name", ["int32", "uint8", "bool", "float16", "bfloat16", "float32", "complex64"]
)
def test_dtypes(name):
    x, y = values(name, (6, 7)), values(name, (3, 2), 1)
    wide = complex if name == "complex64" else float
    for function in (signal.convolve, signal.correlate, signal.fftconvolve, signal.correlate2d):
        got = function(x, y, "same")
        assert got.dtype == (np.float32 if x.dtype.kind in "biu" else x.dtype)
        near(got, function(x.astype(wide), y.astype(wide), "same"))
    assert signal.convolve(np.ones(3, np.float32), np.ones(2, np.complex64)).dtype == np.complex64


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axes", [0, -1, (1, 0)])
def test_frequencies_along_some_axes(axes, mode):
    x, y = values("float64", (6, 5)), values("float64", (6, 5), 1)
    along = [axis % 2 for axis in np.atleast_1d(axes).astype(int)]
    y = y[: 3 if 0 in along else 6, : 2 if 1 in along else 1]
    near(signal.fftconvolve(x, y, mode, axes), scipy.signal.fftconvolve(x, y, mode, axes))
    near(signal.fftconvolve(x, x, mode, ()), x * x)


def test_lengths_that_are_fast():
    for n in (1, 2, 7, 11, 13, 68, 127, 1021, 4159):
        assert _fast(n) == scipy.fft.next_fast_len(n, real=True)


@pytest.mark.parametrize(
    "name", ["convolve", "correlate", "fftconvolve", "convolve2d", "correlate2d"]
)
def test_transforms_of_convolutions(name):
    xs, ys = values("float64", (3, 6, 5)), values("float64", (3, 3, 2), 1)
    for mode in MODES:

        def f(x, y):
            return getattr(signal, name)(x, y, mode)  # noqa: B023

        each = np.stack([np.asarray(f(x, y)) for x, y in zip(xs, ys)])
        near(tfn.vmap(f)(xs, ys), each)
        near(tfn.jit(f)(xs[0], ys[0]), each[0])
        got, back = tfn.vjp(f, xs[1], ys[0])
        slopes = back(jnp.asarray(each[0]))
        near((slopes[0] * xs[1]).sum(), (each[0] * got).sum())
        near((slopes[1] * ys[0]).sum(), (each[0] * got).sum())


@pytest.mark.parametrize("kind", ["linear", "constant"])
@pytest.mark.parametrize("shape, axis", [((13,), -1), ((4, 9), 0), ((2, 3, 5), 1), ((1,), 0)])
def test_trends(shape, axis, kind):
    x = values("float64", shape)
    want = scipy.signal.detrend(x, axis, kind)
    near(1 + signal.detrend(x, axis, kind), 1 + want)
    near(1 + tfn.jit(lambda x: signal.detrend(x, axis, kind))(x), 1 + want)
    near(1 + tfn.vmap(lambda x: signal.detrend(x, axis, kind))(x[None])[0], 1 + want)
    once = signal.detrend(values("complex128", shape), axis, kind)
    near(1 + signal.detrend(once, axis, kind), 1 + np.asarray(once))
    assert signal.detrend(np.arange(5), type=kind).dtype == np.float32
    assert signal.detrend(np.ones(5, jnp.bfloat16), type=kind).dtype == jnp.bfloat16


@pytest.mark.parametrize("breaks", [0, 4, [3], [7, 2], [0, 12], [5, 5, 11]])
def test_trends_that_break(breaks):
    x = values("float64", (2, 12))
    near(1 + signal.detrend(x, bp=breaks), 1 + scipy.signal.detrend(x, bp=breaks))


def test_gradient_of_a_trend():
    x, ct = values("float64", (9,)), values("float64", (9,), 1)
    slope = tfn.grad(lambda x: (signal.detrend(x, bp=[4]) * ct).sum())(x)
    near(slope, signal.detrend(ct, bp=[4]))  # a projection is its own transpose


@pytest.mark.parametrize(
    "name",
    [
        *COSINES,
        "bartlett",
        "cosine",
        ("kaiser", 3.5),
        ("gaussian", 2.0),
        ("tukey", 0.4),
        ("tukey", 0.0),
        ("tukey", 1.0),
    ],
    ids=str,
)
def test_windows(name):
    for size in (1, 2, 5, 8, 13):
        near(window(name, size), scipy.signal.get_window(name, size))


CUTS = [
    {},
    {"nperseg": 17},
    {"nperseg": 16, "noverlap": 0},
    {"nperseg": 2},
    {"nperseg": 1},
    {"nperseg": 16, "noverlap": 13, "nfft": 25},
    {"nperseg": 16, "detrend": "linear"},
    {"nperseg": 16, "detrend": "constant", "return_onesided": False},
    {"nperseg": 16, "fs": 10.0, "window": ("kaiser", 4.0)},
    {"nperseg": 12, "window": np.hanning(14)[1:-1]},
]
SIGNALS = [((80,), -1, "float64"), ((3, 40, 2), 1, "float64"), ((50,), 0, "complex128")]


def theirs(function, *args, **kwargs):
    """The result of SciPy, without the warnings that its documentation announces."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


ENDS = [("zeros", 1), ("even", 0), ("odd", 1), ("constant", 0), (None, 1), (None, 0)]


@pytest.mark.parametrize(
    "cut, given, ends",
    in_turn(3, cover(CUTS, SIGNALS, ENDS, pairs=[(0, 1), (0, 2)])),
    ids=str,
)
def test_transforms_of_segments(cut, given, ends):
    (shape, axis, name), (boundary, padded) = given, ends
    x = values(name, shape)
    more = {"axis": axis, "boundary": boundary, "padded": bool(padded), **cut}
    got, want = signal.stft(x, **more), theirs(scipy.signal.stft, x, **more)
    for ours, other in zip(got, want):
        near(ours, other)


@pytest.mark.parametrize("shape, axis, name", SIGNALS)
@pytest.mark.parametrize("cut", in_turn(3, CUTS), ids=str)
def test_powers(cut, shape, axis, name):
    x, y = values(name, shape), values(name, shape, 5)
    cut = {"nperseg": 40, **cut}
    for scaling, average in (("density", "mean"), ("spectrum", "median")):
        more = {"axis": axis, "scaling": scaling, "average": average, **cut}
        for got, want in zip(signal.welch(x, **more), theirs(scipy.signal.welch, x, **more)):
            near(1 + got, 1 + want)
        for got, want in zip(signal.csd(x, y, **more), theirs(scipy.signal.csd, x, y, **more)):
            near(1 + got, 1 + want)


def test_powers_of_signals_of_different_lengths():
    x, y = values("float64", (50,)), values("float64", (3, 40))
    got = signal.csd(x[None], y, nperseg=16)[1]
    near(got, theirs(scipy.signal.csd, np.stack([x] * 3), y, nperseg=16)[1])
    near(signal.csd(y, x[None], nperseg=16)[1], np.conj(got))
    assert signal.csd(x, x)[1].dtype == np.complex128
    assert signal.csd(x, None)[1].dtype == signal.welch(x.astype(np.float64))[1].dtype == np.float64
    assert signal.welch(x)[0].shape == (26,), "as jax: one segment, unless nperseg says otherwise"


@pytest.mark.parametrize("shape, axis, name", in_turn(2, SIGNALS))
@pytest.mark.parametrize(
    "cut",
    [
        {},
        {"nperseg": 16},
        {"nperseg": 17},
        {"nperseg": 16, "nfft": 25},
        {"nperseg": 16, "noverlap": 11},
        {"nperseg": 7, "noverlap": 6},
        {"nperseg": 2, "noverlap": 0, "window": "boxcar"},
        {"nperseg": 16, "window": "hamming", "fs": 8.0},
    ],
)
def test_the_way_back(cut, shape, axis, name):
    x = values(name, shape)
    one = name == "float64"
    z = np.asarray(signal.stft(x, axis=axis, return_onesided=one, **cut)[2])
    if "nfft" not in cut:
        cut = {**cut, "nperseg": min(cut.get("nperseg", 256), shape[axis])}
    more = {"input_onesided": one, "freq_axis": axis if len(shape) == 3 else -2, **cut}
    times, got = signal.istft(z, **more)
    near(got, theirs(scipy.signal.istft, z, **more)[1])
    near(got[..., : shape[axis]], np.moveaxis(x, axis, -1), 512)
    near(times, np.arange(got.shape[-1]) / cut.get("fs", 1.0))
    more = {**more, "boundary": False}
    near(signal.istft(z, **more)[1], theirs(scipy.signal.istft, z, **more)[1], 512)


def test_segments_are_added():
    for count, size, step in ((1, 1, 1), (4, 5, 2), (3, 2, 5), (5, 6, 6), (7, 4, 1)):
        x = values("float64", (2, count, size))
        want = np.zeros((2, (count - 1) * step + size))
        for i in range(count):
            want[:, i * step : i * step + size] += x[:, i]
        near(_added(jnp.asarray(x), step), want)


def test_trends_that_are_functions():
    x = values("float64", (3, 40))

    def halved(segments):
        assert segments.shape[-1] == 16
        return segments / 2

    near(signal.stft(x, nperseg=16, detrend=halved)[2], signal.stft(x / 2, nperseg=16)[2])


def test_transforms_of_spectra():
    xs, cts = values("float64", (3, 40)), values("float64", (3, 40), 1)

    def there_and_back(x):
        return signal.istft(signal.stft(x, nperseg=8, noverlap=5)[2], nperseg=8, noverlap=5)[1]

    def power(x):
        return signal.welch(x, nperseg=8)[1]

    for f in (there_and_back, power):
        each = np.stack([np.asarray(f(x)) for x in xs])
        near(tfn.vmap(f)(xs), each)
        near(tfn.jit(f)(xs[0]), each[0])
    length = there_and_back(xs[0]).shape[0]
    slope = tfn.grad(lambda x: there_and_back(x)[:40] @ cts[0][:length])(xs[0])
    near(slope, cts[0], 512)
    slope = tfn.grad(lambda x: power(x).sum())(xs[0])
    ends = [power(xs[0] + h * cts[0]).sum().item() for h in (-1e-6, 1e-6)]
    near((slope * cts[0]).sum(), (ends[1] - ends[0]) / 2e-6, 2**25)
    assert np.isfinite(np.asarray(tfn.grad(lambda x: power(x).sum())(np.zeros(40)))).all()


@pytest.mark.parametrize("name", ["int32", "float16", "float32", "complex64"])
def test_dtypes_of_spectra(name):
    x = values(name, (40,))
    frequencies, times, z = signal.stft(x, nperseg=16)
    assert (frequencies.dtype, times.dtype, z.dtype) == (np.float32, np.float32, np.complex64)
    assert signal.welch(x, nperseg=16)[1].dtype == np.float32
    assert signal.istft(z, input_onesided=name != "complex64")[1].dtype == (
        np.complex64 if name == "complex64" else np.float32
    )


ONES, PAIR = np.ones(8), np.ones((2, 8))


@pytest.mark.parametrize(
    "error, words, call",
    [
        (ArgumentError, "needs mode", lambda: signal.convolve(ONES, ONES, "best")),
        (ArgumentError, "needs method", lambda: signal.convolve(ONES, ONES, method="best")),
        (ShapeError, "as many axes", lambda: signal.convolve(ONES, ONES[None])),
        (ShapeError, "with elements", lambda: signal.fftconvolve(ONES, ONES[:0])),
        (ShapeError, "valid sums", lambda: signal.convolve(ONES[None], ONES[:, None], "valid")),
        (ShapeError, "needs matrices", lambda: signal.convolve2d(ONES, ONES)),
        (ArgumentError, "fills with 0", lambda: signal.convolve2d(ONES, ONES, boundary="wrap")),
        (ArgumentError, "fills with 0", lambda: signal.correlate2d(ONES, ONES, fillvalue=1)),
        (ShapeError, "broadcast", lambda: signal.fftconvolve(PAIR, np.ones((3, 8)), axes=1)),
        (AxisError, "axis 1", lambda: signal.fftconvolve(ONES, ONES, axes=1)),
        (ArgumentError, "needs type", lambda: signal.detrend(ONES, type="cubic")),
        (ArgumentError, "breaks within", lambda: signal.detrend(ONES, bp=[9])),
        (ArgumentError, "cannot change", lambda: signal.detrend(ONES, overwrite_data=True)),
        (ShapeError, "along its axis", lambda: signal.detrend(ONES[:0])),
        (AxisError, "axis 2", lambda: signal.detrend(ONES, 2)),
        (ArgumentError, "no window", lambda: signal.stft(ONES, window="best")),
        (ArgumentError, "no window", lambda: signal.stft(ONES, window=("kaiser", 1, 2))),
        (ShapeError, "a vector", lambda: signal.stft(ONES, window=np.ones((2, 2)))),
        (ArgumentError, "no longer than", lambda: signal.stft(ONES, window=np.ones(9))),
        (ArgumentError, "share less", lambda: signal.stft(ONES, nperseg=4, noverlap=4)),
        (ArgumentError, "no longer than", lambda: signal.stft(ONES, nperseg=4, nfft=3)),
        (ArgumentError, "no longer than", lambda: signal.stft(ONES, nperseg=0)),
        (ArgumentError, "no such boundary", lambda: signal.stft(ONES, boundary="best")),
        (ArgumentError, "a trend is", lambda: signal.stft(ONES, detrend=3)),
        (ArgumentError, "needs type", lambda: signal.stft(ONES, detrend="cubic")),
        (ArgumentError, "needs scaling", lambda: signal.welch(ONES, scaling="best")),
        (ArgumentError, "needs scaling", lambda: signal.welch(ONES, average="best")),
        (ShapeError, "with samples", lambda: signal.welch(ONES[:0])),
        (ShapeError, "as many axes", lambda: signal.csd(ONES, ONES[None])),
        (ShapeError, "broadcast", lambda: signal.csd(PAIR, np.ones((3, 8)))),
        (AxisError, "two axes", lambda: signal.istft(np.ones((3, 3)), freq_axis=1)),
        (AxisError, "axis", lambda: signal.istft(np.ones(3))),
    ],
)
def test_errors(error, words, call):
    with pytest.raises(error, match=words):
        call()
