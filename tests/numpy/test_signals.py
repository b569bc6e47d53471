"""Convolutions, slopes, phases, windows, correlations against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.test_linalg import near
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 3), (3, 7), (4, 6), (5, 5), (6, 1)])
def test_convolutions(mode, sizes):
    a, v = (sample("float64", (n,), i, special=False) for i, n in enumerate(sizes))
    for x, y in ((a, v), (a + 1j * a[::-1], v - 2j)):
        near(tnp.convolve(x, y, mode), np.convolve(x, y, mode))
        near(tnp.correlate(x, y, mode), np.correlate(x, y, mode))
    x, y = a.astype("int32"), v.astype("int32")
    close(tnp.convolve(x, y, mode), np.convolve(x, y, mode))


def test_errors_and_gradients_of_convolutions():
    a, v = np.float64([1, 2, 3]), np.float64([4, 5])
    close(tfn.grad(lambda a: tnp.convolve(a, v)[1])(a), np.float64([5, 4, 0]))
    close(tfn.vmap(lambda a: tnp.convolve(a, v))(a[:, None]), np.outer(a, v))
    with pytest.raises(ShapeError, match="vectors with elements"):
        tnp.convolve(a, v[:0])
    with pytest.raises(ArgumentError, match="knows no mode 'other'"):
        tnp.convolve(a, v, "other")


def test_slopes():
    x = sample("float64", (4, 5), 3, special=False)
    places = np.float64([0, 1, 1.5, 4, 6])
    near(tnp.gradient(x, axis=1), np.gradient(x, axis=1))
    near(tnp.gradient(x, places, axis=1), np.gradient(x, places, axis=1))
    for got, want in zip(tnp.gradient(x, 0.5, 2.0), np.gradient(x, 0.5, 2.0), strict=True):
        near(got, want)
    for got, want in zip(tnp.gradient(x, 3.0), np.gradient(x, 3.0), strict=True):
        near(got, want)
    assert tnp.gradient(np.int32([1, 4, 9])).dtype == np.float32
    with np.errstate(invalid="ignore"):
        y = np.float64([0, np.inf, 1, -np.inf, 5])
        near(tnp.gradient(y), np.gradient(y))
    with pytest.raises(ShapeError, match="2 elements"):
        tnp.gradient(np.ones(1))


def test_phases():
    x = np.cumsum(sample("float64", (3, 20), 4, special=False), 1)
    wrapped = np.angle(np.exp(1j * x))
    near(tnp.unwrap(wrapped), np.unwrap(wrapped))
    near(tnp.unwrap(wrapped, axis=0), np.unwrap(wrapped, axis=0))
    near(tnp.unwrap(wrapped, 4.0), np.unwrap(wrapped, 4.0))
    close(
        tnp.unwrap(np.int32([0, 1, 2, -1, 0]), period=4),
        np.unwrap(np.int32([0, 1, 2, -1, 0]), period=4).astype("int32"),
    )


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman", "bartlett"])
@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_windows(name, size):
    np.testing.assert_allclose(getattr(tnp, name)(size), getattr(np, name)(size), atol=1e-6)
    np.testing.assert_allclose(tnp.kaiser(size, 8.6), np.kaiser(size, 8.6), rtol=1e-5)


def test_bessel():
    x = np.float64([-30, -1, 0, 0.5, 8, 100, 700])
    np.testing.assert_allclose(tnp.i0(x), np.i0(x), rtol=1e-12)


def test_correlations():
    x, y = sample("float64", (3, 8), 5, special=False), sample("float64", (2, 8), 6, special=False)
    near(tnp.corrcoef(x), np.corrcoef(x))
    near(tnp.corrcoef(x, y), np.corrcoef(x, y))
    near(tnp.corrcoef(x.T, rowvar=False), np.corrcoef(x.T, rowvar=False))
    near(tnp.cov(x, y), np.cov(x, y))
    often, much = np.arange(1, 9), np.linspace(0.5, 2, 8)
    for options in (
        {"fweights": often},
        {"aweights": much},
        {"bias": True},
        {"ddof": 0},
        {"fweights": often, "aweights": much, "ddof": 2},
    ):
        near(tnp.cov(x, **options), np.cov(x, **options))
    near(tnp.cov(x + 1j * x[::-1]), np.cov(x + 1j * x[::-1]))


def test_the_period_of_phases_is_a_number():
    x = tnp.array([0.0, 3.0, 6.0, 9.0]) % 4
    close(tnp.unwrap(x, period=tnp.array(4.0)), np.unwrap(np.asarray(x), period=4))
    with pytest.raises(ArgumentError, match="unwrap needs arrays or numbers"):
        tnp.unwrap(x, period=None)
