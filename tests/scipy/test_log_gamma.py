"""The logarithm of the gamma function of complex numbers, and Bernoulli numbers."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.special

import tfn
from tests.scipy.digits import digits, slopes
from tfn.errors import ArgumentError
from tfn.scipy import special
from tfn.scipy.log_gamma import bernoulli_numbers


def test_digits():
    z = np.linspace(-9.3, 12, 57)[:, None] + 1j * np.linspace(-8, 8, 33)
    for dtype, ulps in (("complex128", 64), ("complex64", 32)):
        digits(special.loggamma, scipy.special.loggamma, z.astype(dtype), ulps=ulps, scale=1.0)


def test_derivatives_are_digamma():
    z = np.complex128([0.7 + 0.4j, -2.3 + 1j, 9 - 3j, 20])
    _, slope = tfn.jvp(special.loggamma, (z,), (np.ones_like(z),))
    np.testing.assert_allclose(slope, scipy.special.digamma(z), rtol=1e-12)
    np.testing.assert_allclose(tfn.vmap(special.loggamma)(z), special.loggamma(z), rtol=1e-14)
    slopes(special.loggamma, np.float64([0.3, 2.5, 30.0]))


def test_real_numbers():
    x = np.float64([0.5, 3.0, 100.0])
    np.testing.assert_allclose(special.loggamma(x), scipy.special.loggamma(x), rtol=1e-14)
    assert np.isnan(special.loggamma(-0.5)) and special.loggamma(0.0) == np.inf


def test_bernoulli_numbers():
    assert bernoulli_numbers(12)[12] == Fraction(-691, 2730)
    np.testing.assert_allclose(special.bernoulli(30), scipy.special.bernoulli(30), rtol=1e-6)
    assert np.isinf(special.bernoulli(100)[100])
    with pytest.raises(ArgumentError):
        special.bernoulli(-1)
