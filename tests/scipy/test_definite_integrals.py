"""Sine and cosine integrals, dilogarithm, Owen's function, `expn` against SciPy."""

import numpy as np
import pytest
import scipy.special

import tfn
from tests.covering import in_turn
from tests.scipy.digits import digits, slopes
from tfn.errors import DTypeError
from tfn.scipy import special

LINE = np.concatenate([np.linspace(-30, 60, 301), 10.0 ** np.linspace(-8, 5, 60)])
POSITIVE = abs(LINE)
both = pytest.mark.parametrize("dtype", ["float64", "float32"])
"""Slopes are of float64, and so tested with one of them."""


@both
def test_sine_and_cosine_integrals(dtype):
    def part(i):
        return lambda x: special.sici(x)[i], lambda x: scipy.special.sici(x)[i]

    digits(*part(0), LINE.astype(dtype), ulps=8)
    digits(*part(1), POSITIVE[POSITIVE > 0].astype(dtype), ulps=24, scale=1.0)
    if dtype == "float32":
        return
    for i in range(2):
        slopes(part(i)[0], np.float64([0.3, 2.0, 3.9, 4.1, 9.0]))
    si, ci = special.sici(np.float64([0, np.inf, -np.inf, np.nan, -1]))
    np.testing.assert_allclose(si[:4], [0, np.pi / 2, -np.pi / 2, np.nan])
    np.testing.assert_allclose(ci, [-np.inf, 0, np.nan, np.nan, scipy.special.sici(-1.0)[1]], 1e-6)


@both
def test_dilogarithm(dtype):
    digits(special.spence, scipy.special.spence, POSITIVE.astype(dtype), ulps=24, scale=1e-3)
    if dtype == "float32":
        return
    slopes(special.spence, np.float64([0.1, 0.49, 0.51, 0.9, 1.5, 2.1, 30.0]))
    assert special.spence(1.0) == 0 and np.isnan(special.spence(-1.0))
    assert tfn.grad(special.spence)(1.0) == -1


@both
def test_owens_function(dtype):
    h, a = np.linspace(-6, 6, 41)[:, None].astype(dtype), np.linspace(-5, 5, 41).astype(dtype)
    digits(special.owens_t, scipy.special.owens_t, h, a, ulps=40, scale=0.01)
    if dtype == "float32":
        return
    assert (
        abs(special.owens_t(np.array(1.0), np.array(np.inf)) - scipy.special.ndtr(-1) / 2) < 1e-16
    )
    for i in range(2):
        point = np.float64([0.4, 1.7])
        slopes(lambda x, i=i: special.owens_t(*((x, 0.7) if i == 0 else (0.7, x))), point)


@both
@pytest.mark.parametrize("n", in_turn(2, [0, 1, 2, 5, 20]))
def test_exponential_integrals_of_an_order(n, dtype):
    x = POSITIVE[(POSITIVE < 80) & (POSITIVE > 1e-6)].astype(dtype)
    digits(lambda x: special.expn(n, x), lambda x: scipy.special.expn(n, x), x, ulps=64)
    if dtype == "float64":
        slopes(lambda x: special.expn(n, x), np.float64([0.2, 0.9, 1.1, 6.0]))


def test_orders_are_integers():
    orders = np.int32([[0], [1], [3]])
    x = np.float64([0.0, 0.5, 2.0, np.inf])
    np.testing.assert_allclose(special.expn(orders, x), scipy.special.expn(orders, x), rtol=1e-13)
    assert np.isnan(special.expn(1, -1.0))
    with pytest.raises(DTypeError):
        special.expn(1.0, 2.0)
