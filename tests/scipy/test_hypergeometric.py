"""Hypergeometric functions against SciPy's."""

import numpy as np
import pytest
import scipy.special

import tfn
from tests.covering import in_turn
from tests.scipy.digits import digits, slopes
from tfn.scipy import special

CONFLUENT = [(0.5, 1.5), (2.0, 3.0), (-2.0, 1.5), (1.2, 0.7), (3.3, 2.5), (1.5, 1.5)]
GAUSSIAN = [(0.5, 1.5, 2.25), (1.0, 2.0, 3.5), (0.3, 0.4, 1.9), (1.0, 1.0, 2.0), (-2.0, 1.5, 0.7)]


@pytest.mark.parametrize("a, b", in_turn(2, CONFLUENT))
def test_confluent(a, b):
    x = np.linspace(-30, 80, 111)
    for dtype, ulps in (("float64", 128), ("float32", 64)):
        digits(
            lambda x: special.hyp1f1(a, b, x),
            lambda x: scipy.special.hyp1f1(a, b, x),
            x.astype(dtype),
            ulps=ulps,
            scale=1e-6,
        )
    slopes(lambda x: special.hyp1f1(a, b, x), np.float64([-3.0, -0.2, 0.4, 5.0]))


@pytest.mark.parametrize("a, b, c", in_turn(2, GAUSSIAN))
def test_gaussian(a, b, c):
    x = np.linspace(-8, 0.995, 91)
    for dtype, ulps in (("float64", 256), ("float32", 64)):
        digits(
            lambda x: special.hyp2f1(a, b, c, x),
            lambda x: scipy.special.hyp2f1(a, b, c, x),
            x.astype(dtype),
            ulps=ulps,
            scale=1.0,
        )
    slopes(lambda x: special.hyp2f1(a, b, c, x), np.float64([-3.0, -0.2, 0.4, 0.85]))


def test_derivatives_by_parameters():
    x = np.array(0.6)
    for f, start in ((special.hyp1f1, (1.3, 2.2)), (special.hyp2f1, (0.7, 1.2, 2.3))):
        params = tuple(map(np.array, start))
        for i in range(len(params)):

            def along(p, i=i, f=f, params=params):
                return f(*params[:i], p, *params[i + 1 :], x)

            step = 1e-6
            want = (along(params[i] + step) - along(params[i] - step)) / (2 * step)
            np.testing.assert_allclose(tfn.grad(along)(params[i]), want, rtol=1e-7)


def test_borders():
    assert special.hyp1f1(2.0, 3.0, 0.0) == special.hyp2f1(1.0, 2.0, 3.0, 0.0) == 1
    want = scipy.special.hyp2f1(0.5, 0.25, 2.0, 1.0)
    np.testing.assert_allclose(special.hyp2f1(*map(np.array, (0.5, 0.25, 2.0, 1.0))), want)
    assert np.isinf(special.hyp2f1(1.0, 2.0, 2.5, 1.0))
    assert np.isnan(special.hyp2f1(0.5, 0.5, 1.0, 2.0))
    np.testing.assert_allclose(
        special.hyp2f1(*map(np.array, (-2.0, 1.5, 0.7, 3.0))), scipy.special.hyp2f1(-2, 1.5, 0.7, 3)
    )
