"""Fourier transforms: values of NumPy over all sizes and norms, adjoints, lanes, loops."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.config import config
from tfn.errors import ArgumentError, AxisError, DTypeError, ShapeError

RNG = np.random.default_rng(8)
COMPLEX = ["fft", "ifft", "fftn", "ifftn"]
REAL = ["rfft", "rfftn", "ihfft"]
HALVED = ["irfft", "irfftn", "hfft"]
NORMS = [None, "backward", "ortho", "forward"]


def sample(shape, name, dtype="float64"):
    x = RNG.normal(size=shape)
    x = x if name in REAL else x + 1j * RNG.normal(size=shape)
    return x.astype(dtype if name in REAL else np.result_type(dtype, "complex64"))


def close(got, want, digits=1e-12):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=digits, atol=digits * 10)


@pytest.mark.parametrize(
    "shape", [(1,), (2,), (5,), (8,), (13,), (3, 1), (3, 7), (2, 6, 4)], ids=str
)
@pytest.mark.parametrize("name", in_turn(2, COMPLEX + REAL + HALVED))
def test_values(name, shape):
    if name in HALVED and shape[-1] == 1:
        with pytest.raises(ArgumentError, match="lengths of 1 and more"):
            getattr(tnp.fft, name)(sample(shape, name))
        return
    x = sample(shape, name)
    for norm in NORMS:
        close(getattr(tnp.fft, name)(x, norm=norm), getattr(np.fft, name)(x, norm=norm))
    single = sample(shape, name, "float32")
    close(getattr(tnp.fft, name)(single), getattr(np.fft, name)(single), 1e-5)


@pytest.mark.parametrize("n", [1, 3, 8, 11])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_and_axes(name, n):
    x = sample((4, 6), name)
    for axis in (0, 1, -1):
        close(getattr(tnp.fft, name)(x, n, axis), getattr(np.fft, name)(x, n, axis))


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "rfftn", "irfftn"])
def test_several_axes(name):
    x = sample((3, 4, 5), "rfftn" if name.startswith("r") else name)
    ours, theirs = getattr(tnp.fft, name), getattr(np.fft, name)
    close(ours(x, axes=(0, 2)), theirs(x, axes=(0, 2)))
    close(ours(x, axes=(2, 0)), theirs(x, axes=(2, 0)))
    close(ours(x, s=(6, 3), axes=(1, 0)), theirs(x, s=(6, 3), axes=(1, 0)))
    close(
        ours(x, s=(-1, 7), axes=(0, 1), norm="ortho"),
        theirs(x, s=(-1, 7), axes=(0, 1), norm="ortho"),
    )


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_lengths_without_axes_are_those_of_the_last_ones(name):
    x = sample((3, 4, 5), name)
    ours, theirs = getattr(tnp.fft, name), getattr(np.fft, name)
    close(ours(x, s=(6, 3)), theirs(x, s=(6, 3), axes=(-2, -1)))


def test_dtypes():
    for dtype, expected in (
        ("int32", "complex64"),
        ("bool", "complex64"),
        ("bfloat16", "complex64"),
        ("float64", "complex128"),
        ("complex64", "complex64"),
    ):
        x = tnp.ones(4, dtype)
        assert tnp.fft.fft(x).dtype == expected
        assert tnp.fft.irfft(x).dtype == {"complex128": "float64"}.get(expected, "float32")
    assert tnp.fft.fft(tnp.ones((0, 4))).shape == (0, 4)
    assert tnp.fft.fftn(tnp.array(2.0), axes=()).tolist() == 2


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n):
    for name in ("fftfreq", "rfftfreq"):
        got = getattr(tnp.fft, name)(n, 0.25)
        close(got, getattr(np.fft, name)(n, 0.25).astype("float32"), 1e-6)
        assert getattr(tnp.fft, name)(n, dtype="float64").dtype == np.float64
    x = RNG.normal(size=(n, 3))
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (1,), (0, 1)):
            close(getattr(tnp.fft, name)(x, axes), getattr(np.fft, name)(x, axes))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_the_transpose_is_the_adjoint(name):
    x = tnp.array(sample((3, 5), name))
    f = getattr(tnp.fft, name)
    y, pull = tfn.vjp(f, x)
    ct = tnp.array(sample(y.shape, "rfft" if y.dtype.kind == "f" else "fft", "float64"))
    (back,) = pull(ct)
    dx = tnp.array(sample(x.shape, name))
    _, dy = tfn.jvp(f, (x,), (dx,))
    assert back.dtype == x.dtype
    # The pairing is Re(sum ct * dy): cotangents are not conjugated.
    np.testing.assert_allclose((ct * dy).sum().real, (back * dx).sum().real, rtol=1e-12)


def test_gradients():
    x = RNG.normal(size=9)
    weights = RNG.normal(size=5)

    def power(x):
        return (abs(tnp.fft.rfft(x)) ** 2 * weights).sum()

    step, slope = 1e-6, tfn.grad(power)(x)
    for i in range(9):
        moved = step * np.eye(9)[i]
        difference = (power(x + moved) - power(x - moved)) / (2 * step)
        np.testing.assert_allclose(slope[i], difference, rtol=1e-6, atol=1e-6)
    close(
        tfn.grad(lambda x: (tnp.fft.ifft(tnp.fft.fft(x)).real * weights[0]).sum())(x),
        np.full(9, weights[0]),
    )
    second = tfn.hessian(power)(x)
    close(second, second.T)


def test_lanes_and_loops():
    x = RNG.normal(size=(4, 6))
    close(tfn.vmap(tnp.fft.fft)(x), np.fft.fft(x))
    close(tfn.vmap(tnp.fft.fft, in_axes=1, out_axes=1)(x), np.fft.fft(x, axis=0))
    back = tfn.jit(lambda x: tnp.fft.irfft(tnp.fft.rfft(x) * 2))
    close(back(x), 2 * x)

    def step(total, row):
        spectrum = tnp.fft.fft(row)
        return total + spectrum, tnp.fft.ifft(spectrum).real

    last, rows = tfn.jit(lambda x: tfn.lax.scan(step, tnp.zeros(6, "complex128"), x))(x)
    close(last, np.fft.fft(x).sum(0))
    close(rows, x)


def test_refused():
    x = tnp.ones((2, 4))
    with pytest.raises(ArgumentError, match="fft knows no norm 'half'"):
        tnp.fft.fft(x, norm="half")
    with pytest.raises(ArgumentError, match="fft needs n >= 1"):
        tnp.fft.fft(x, 0)
    with pytest.raises(DTypeError, match="rfft transforms real values"):
        tnp.fft.rfft(x * 1j)
    with pytest.raises(AxisError):
        tnp.fft.fft(x, axis=2)
    with pytest.raises(AxisError, match="same axis twice"):
        tnp.fft.fftn(x, axes=(0, 0))
    with pytest.raises(ArgumentError, match="a length for each axis"):
        tnp.fft.fftn(x, s=(3,), axes=(0, 1))
    with pytest.raises(ArgumentError, match="fftfreq needs n >= 1"):
        tnp.fft.fftfreq(0)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_the_distance_of_samples_may_be_an_array(name):
    f, x = getattr(tnp.fft, name), tnp.linspace(0.0, 1.0, 9)
    want = getattr(np.fft, name)(7, 0.125)
    for got in (f(7, x[1] - x[0]), tfn.jit(lambda d: f(7, d))(x[1] - x[0])):
        assert got.dtype == "float32"
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert f(4, tnp.array(2.0), dtype="float16").dtype == "float16"
    with pytest.raises(ShapeError, match="a scalar as d"):
        f(7, x)


def test_slopes_that_depend_on_no_argument_are_written(monkeypatch):
    """On a device whose new memory holds no zeros: they are computed once, and are results."""
    monkeypatch.setattr(config, "device", "cpu-debug")
    loss = tfn.jit(tfn.value_and_grad(lambda x: (tnp.fft.fft(x).real * 2).sum()))
    want = [18.0] + [0.0] * 8
    np.testing.assert_allclose(loss(np.arange(9.0))[1], want, atol=1e-12)
