"""The normal distribution function in its far tails, and under every transform."""

import numpy as np
import pytest
import scipy.special

import tfn
from tfn.errors import DTypeError
from tfn.scipy import special
from tfn.scipy.normal import log_ndtr, ndtr, ndtri

FAR = np.float64([-40, -20.5, -19.5, -9, -5.5, -1, -0.0, 0.5, 5, 8.5, 40])


def test_far_out():
    np.testing.assert_allclose(log_ndtr(FAR), scipy.special.log_ndtr(FAR), rtol=1e-9)
    np.testing.assert_allclose(ndtr(FAR), scipy.special.ndtr(FAR), rtol=1e-12)
    small = np.float32(FAR)
    np.testing.assert_allclose(log_ndtr(small), scipy.special.log_ndtr(FAR), rtol=2e-5, atol=1e-30)
    p = np.float64([1e-300, 1e-30, 1e-9, 0.02, 0.074, 0.076, 0.5, 0.925])
    np.testing.assert_allclose(ndtri(p), scipy.special.ndtri(p), rtol=1e-13, atol=1e-15)


def test_inverse_and_derivatives():
    x = np.float64([-6, -1.5, 0.25, 2.0])
    np.testing.assert_allclose(ndtri(ndtr(x)), x, rtol=1e-9)
    slope = tfn.vmap(tfn.grad(log_ndtr))(x)
    want = np.exp(-x * x / 2 - scipy.special.log_ndtr(x)) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(slope, want, rtol=1e-9)
    np.testing.assert_allclose(tfn.jit(tfn.grad(lambda x: ndtri(ndtr(x))))(0.7), 1, rtol=1e-5)
    assert np.isfinite(np.asarray(tfn.vmap(tfn.grad(log_ndtr))(FAR))).all()


def test_derivatives_far_out_do_not_cancel():
    x = np.float64([-1e5, -1000, -100])
    f = log_ndtr
    # With y = 1 / x**2: the slope, and its derivatives, from the asymptotic series of Mills' ratio.
    y = x**-2
    wants = [-x * (1 + y * (1 - 2 * y)), -1 + y * (1 - 6 * y), y / x * (-2 + 24 * y)]
    for want, digits in zip(wants, (1e-10, 1e-10, 1e-5)):
        f = tfn.grad(f)
        np.testing.assert_allclose(tfn.vmap(f)(x), want, digits)
        np.testing.assert_allclose(tfn.vmap(f)(np.float32(x)), want, 1e-5)


@pytest.mark.parametrize(
    "name", ["exp1", "expi", "sici", "fresnel", "entr", "ndtri", "i0", "multigammaln"]
)
def test_complex_numbers_are_refused_where_formulas_are_of_real_ones(name):
    more = (2,) if name == "multigammaln" else ()
    with pytest.raises(DTypeError, match="real"):
        getattr(special, name)(np.complex64([2 - 0.5j]), *more)
