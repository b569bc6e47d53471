"""Interpolation on grids against SciPy's."""

import numpy as np
import pytest
import scipy.interpolate

import tfn
from tfn.errors import TfnError
from tfn.scipy.interpolate import RegularGridInterpolator

RNG = np.random.default_rng(0)
POINTS = np.sort(RNG.standard_normal(5)), np.sort(RNG.standard_normal(4))
VALUES, PLACES = RNG.standard_normal((5, 4, 2)), RNG.standard_normal((30, 2))


@pytest.mark.parametrize("fill_value", [np.nan, None, 0.0])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_as_scipy(method, fill_value):
    arguments = POINTS, VALUES, method, False, fill_value
    ours = RegularGridInterpolator(*arguments)
    theirs = scipy.interpolate.RegularGridInterpolator(*arguments)
    np.testing.assert_allclose(ours(PLACES), theirs(PLACES), rtol=1e-12)
    pair = PLACES[:, 0], PLACES[:, 1]
    np.testing.assert_allclose(ours(pair), theirs(pair), rtol=1e-12)
    np.testing.assert_allclose(tfn.jit(ours)(PLACES), ours(PLACES), rtol=1e-12)
    np.testing.assert_allclose(tfn.vmap(lambda x: ours(x)[0])(PLACES), ours(PLACES), rtol=1e-12)


def test_derivatives():
    def f(values, x):
        return RegularGridInterpolator(POINTS, values, fill_value=None)(x).sum()

    x, step = np.float64([[0.1, 0.2]]), 1e-6
    slope = tfn.grad(f, 1)(VALUES, x)
    for i in range(2):
        by = np.eye(2)[i] * step
        want = (f(VALUES, x + by) - f(VALUES, x - by)) / (2 * step)
        np.testing.assert_allclose(slope[0, i], want, rtol=1e-6)
    np.testing.assert_allclose(tfn.grad(f)(VALUES, x).sum(), 2)  # weights add up to 1


def test_one_axis_and_wrong_calls():
    line = RegularGridInterpolator((POINTS[0],), VALUES[:, 0, 0])
    np.testing.assert_allclose(line(POINTS[0]), VALUES[:, 0, 0], rtol=1e-12)
    for call in (
        lambda: RegularGridInterpolator(POINTS, VALUES, "cubic"),
        lambda: RegularGridInterpolator(POINTS, VALUES, bounds_error=True),
        lambda: RegularGridInterpolator(POINTS[::-1], VALUES),
        lambda: RegularGridInterpolator(POINTS, VALUES)(np.zeros((2, 3))),
    ):
        with pytest.raises(TfnError):
            call()
