"""Exponential integrals, held against SciPy."""

import numpy as np
import pytest
import scipy.special

import tfn
from tfn.scipy.exponential_integrals import exp1, expi

POINTS = [-600, -50, -20, -5, -1.5, -1, -0.9, -1e-3, 1e-8, 0.1, 1, 2.7, 10, 39, 40, 41, 80, 0]


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-6), ("float64", 1e-14)])
def test_equal_to_scipy(dtype, rtol):
    x = np.array(POINTS, dtype)
    np.testing.assert_allclose(tfn.jit(expi)(x), scipy.special.expi(x), rtol=rtol)
    positive = x[x > 0]
    np.testing.assert_allclose(exp1(positive), scipy.special.exp1(positive), rtol=rtol)
    assert np.isnan(exp1(-1.0))


def test_derivative():
    assert float(tfn.grad(expi)(np.float64(2))) == pytest.approx(np.exp(2) / 2)
