"""Functions of distances through scattered values, beside SciPy."""

import numpy as np
import pytest
import scipy.interpolate

import tfn
from tfn.errors import TfnError
from tfn.scipy.interpolate import RBFInterpolator
from tfn.scipy.interpolate.radial import KERNELS

RNG = np.random.default_rng(0)
POINTS, PLACES = RNG.uniform(0, 1, (20, 2)), RNG.uniform(0, 1, (7, 2))
VALUES = RNG.standard_normal((20, 3))


@pytest.mark.parametrize("kernel", KERNELS)
def test_functions_are_those_of_scipy(kernel):
    for smoothing, degree in ((0.0, None), (0.1, 2)):
        options = {"smoothing": smoothing, "kernel": kernel, "epsilon": 2.5, "degree": degree}
        ours, theirs = (
            make(POINTS, VALUES, **options)(PLACES)
            for make in (RBFInterpolator, scipy.interpolate.RBFInterpolator)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_functions_have_derivatives_at_their_points_too():
    for kernel in ("linear", "thin_plate_spline", "cubic"):
        f = RBFInterpolator(POINTS, VALUES[:, 0], kernel=kernel)
        slope = tfn.grad(lambda x, f=f: f(x).sum())(POINTS[:2])
        assert np.isfinite(slope).all()


def test_wrong_calls():
    for call in (
        lambda: RBFInterpolator(POINTS, VALUES, kernel="other"),
        lambda: RBFInterpolator(POINTS, VALUES, kernel="gaussian"),
        lambda: RBFInterpolator(POINTS, VALUES[:3]),
        lambda: RBFInterpolator(POINTS[0], VALUES),
        lambda: RBFInterpolator(POINTS[:2], VALUES[:2]),
    ):
        with pytest.raises(TfnError):
            call()
