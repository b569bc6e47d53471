"""Bessel functions: values against scipy in units of the last place, edges, dtypes, derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import DTypeError

RNG = np.random.default_rng(0)
X = np.r_[RNG.normal(0, 15, 2000), 10 ** RNG.uniform(-8, 8, 500), 0, 8, -8, 700, -700]
CASES = [(lax.bessel_i0e, sp.i0e), (lax.bessel_i1e, sp.i1e)]


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_values(ours, theirs):
    np.testing.assert_allclose(ours(X), theirs(X), rtol=3e-15)
    narrow = X.astype("float32")
    actual = ours(narrow)
    assert actual.dtype == "float32"
    np.testing.assert_allclose(actual, theirs(narrow.astype("float64")), rtol=5e-7)
    for dtype in ("bfloat16", "float16"):
        half = tnp.asarray(X[:99], dtype)
        actual = tfn.jit(ours)(half)
        assert actual.dtype == dtype
        expected = theirs(np.asarray(half, "float64"))
        np.testing.assert_allclose(np.asarray(actual, "float64"), expected, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(dtype):
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_array_equal(lax.bessel_i0e(x), [1, 1, 0, 0, np.nan])
    actual = np.asarray(lax.bessel_i1e(x))
    np.testing.assert_array_equal(actual, [0, 0, 0, 0, np.nan])
    np.testing.assert_array_equal(np.signbit(actual[:4]), [False, True, False, True])
    assert lax.bessel_i0e(np.zeros((0, 3), dtype)).shape == (0, 3)
    with pytest.raises(DTypeError, match="floating"):
        lax.bessel_i0e(np.ones(3, "int32"))


def test_derivatives():
    x = X[np.abs(X) < 700]
    by_zero, by_one = (tfn.grad(lambda v, f=f: f(v).sum())(x) for f, _ in CASES)
    np.testing.assert_allclose(by_zero, sp.i1e(x) - np.sign(x) * sp.i0e(x), rtol=1e-9, atol=1e-14)
    over = np.where(x == 0, 0.5, sp.i1e(x) / np.where(x == 0, 1, x))
    expected = sp.i0e(x) - np.sign(x) * sp.i1e(x) - over
    np.testing.assert_allclose(by_one, expected, rtol=1e-9, atol=1e-14)
    assert float(tfn.grad(lax.bessel_i1e)(0.0)) == 0.5
