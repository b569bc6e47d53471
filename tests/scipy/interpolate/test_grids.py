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


@pytest.mark.parametrize("fill_value", [np.nan, None])
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("turned", [(0,), (1,), (0, 1)])
def test_grids_may_descend(turned, method, fill_value):
    grid = [np.arange(n) / 2 for n in (5, 4)]
    grid = [line[::-1].copy() if i in turned else line for i, line in enumerate(grid)]
    places = np.stack(np.meshgrid([0.25, 1, -1, 2, 9, 0.3], [0.75, 1.5, 0.1]), -1)
    arguments = grid, VALUES, method, False, fill_value
    theirs = scipy.interpolate.RegularGridInterpolator(*arguments)(places)
    np.testing.assert_allclose(RegularGridInterpolator(*arguments)(places), theirs, rtol=1e-9)


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
