"""Interpolation, integrals, polynomials, covariance against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, DTypeError, ShapeError

Y = sample("float64", (3, 5), 1, special=False)


def test_interp():
    xp, fp = np.float64([0, 1, 3, 4]), np.float64([1, -1, 5, 5])
    x = np.float64([[-1, 0, 0.25], [1, 2.9, 7]])
    close(tnp.interp(x, xp, fp), np.interp(x, xp, fp), 8)
    assert tfn.grad(lambda x: tnp.interp(x, xp, fp))(2.0) == 3
    jump, steps = np.float64([0, 0, 1, 1]), np.float64([5, 6, 7, 8])
    x = np.float64([-1, 0, 0.5, 1, 2])
    close(tnp.interp(x, jump, steps), np.interp(x, jump, steps))
    half = tfn.jit(lambda x: tnp.interp(*[x.astype("bfloat16")] * 3))
    close(half(np.float16([0, 1, 2])), np.float32([0, 1, 2]).astype(half(x).dtype))
    with pytest.raises(ShapeError, match="two points at least"):
        tnp.interp(x, xp[:1], fp[:1])


def test_trapezoid():
    x = np.float64([0, 1, 3, 4, 10])
    for axis in (0, 1):
        close(tnp.trapezoid(Y, dx=0.5, axis=axis), np.trapezoid(Y, dx=0.5, axis=axis), 32)
    close(tnp.trapezoid(Y, x), np.trapezoid(Y, x), 32)
    close(tnp.trapezoid(Y, Y * Y), np.trapezoid(Y, Y * Y), 64)
    close(tnp.trapezoid(Y[:, :0]), np.zeros(3))
    with pytest.raises(ShapeError, match="trapezoid needs places"):
        tnp.trapezoid(Y, x[:3])


def test_polyval():
    for p in (np.float64([2, -1, 3]), np.float64([5]), np.zeros(0)):
        close(tnp.polyval(p, Y), np.polyval(p, Y), 8)
    close(tnp.polyval(np.int32([1, 2]), 3), np.int32(5))
    several = np.arange(6.0).reshape(2, 3)
    close(tnp.polyval(several, Y[:, :3]), several[0] * Y[:, :3] + several[1], 8)
    close(tnp.polyval(several, 2.0), 2 * several[0] + several[1])
    with pytest.raises(ShapeError, match="of coefficients"):
        tnp.polyval(np.float32(1), 1.0)
    with pytest.raises(ShapeError, match="broadcast"):
        tnp.polyval(several, Y[:, :2])


def test_covariance():
    close(tnp.cov(Y), np.cov(Y), 64)
    close(tnp.cov(Y, rowvar=False, ddof=0), np.cov(Y, rowvar=False, ddof=0), 64)
    close(tnp.cov(Y[0]), np.cov(Y[0]), 64)


def test_interp_outside_of_the_points_is_that_of_numpy():
    xp, fp = np.float64([1, 2, 4, 5]), np.float64([3, 1, 0, 7])
    x = np.linspace(-2, 9, 31)
    np.testing.assert_allclose(tnp.interp(x, xp, fp, -5, 9), np.interp(x, xp, fp, -5, 9))
    want = np.interp(x, xp, fp, period=4.5)
    np.testing.assert_allclose(tnp.interp(x, xp, fp, period=4.5), want)
    line = tnp.interp(np.float64([-1, 7]), xp, fp, left="extrapolate", right="extrapolate")
    np.testing.assert_allclose(line, [7, 21])
    with pytest.raises(ArgumentError):
        tnp.interp(x, xp, fp, left="other")


def test_covariances_have_the_dtype_that_is_asked_for():
    x = np.float32([[1, 2, 4], [0, 3, 1]])
    assert tnp.cov(x, dtype="float64").dtype == tnp.corrcoef(x, dtype="float64").dtype == "float64"


def test_frequencies_of_samples_are_integers():
    with pytest.raises(DTypeError, match="cov needs integers as fweights"):
        tnp.cov(np.ones((2, 3)), fweights=np.ones(3))
