"""Integrals of samples."""

import numpy as np
import scipy.integrate

from tfn.scipy import integrate


def test_trapezoids_are_those_of_scipy():
    y, x = np.random.default_rng(0).standard_normal((3, 5)), np.float64([0, 1, 3, 4, 9])
    for args in ((y,), (y, x), (y, None, 0.5), (y, None, 1.0, 0)):
        np.testing.assert_allclose(integrate.trapezoid(*args), scipy.integrate.trapezoid(*args))
