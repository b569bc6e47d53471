"""Curves through values, beside SciPy: all ends, orders, extrapolation, derivatives by data."""

import numpy as np
import pytest
import scipy.interpolate

import tfn
from tests.covering import covering
from tfn.errors import TfnError
from tfn.scipy import interpolate

SIZES = [2, 3, 4, 5, 12]
ENDS = {
    "not-a-knot": "not-a-knot", "natural": "natural", "clamped": "clamped", "periodic": "periodic",
    "mixed": ("not-a-knot", "natural"), "values": ((1, 0.3), (2, -0.5)),
}  # fmt: skip


def data(n, shape=()):
    rng = np.random.default_rng(n)
    x = np.cumsum(rng.uniform(0.2, 1, n))
    return x, rng.standard_normal((n, *shape)), np.linspace(x[0] - 0.3, x[-1] + 0.3, 31)


def alike(ours, theirs, places, orders=(0, 1, 2, 3)):
    for nu in orders:
        expected = theirs(places, nu)
        scale = max(1, np.nanmax(abs(expected), initial=0))
        np.testing.assert_allclose(ours(places, nu), expected, rtol=1e-8, atol=1e-9 * scale)


@covering("end, n", ENDS, SIZES)
def test_cubic_splines_are_those_of_scipy(end, n):
    n = max(n, 3) if end == "periodic" else n
    x, y, places = data(n)
    y[-1] = y[0] if end == "periodic" else y[-1]
    ours, theirs = (
        make.CubicSpline(x, y, bc_type=ENDS[end]) for make in (interpolate, scipy.interpolate)
    )
    alike(ours, theirs, places)
    np.testing.assert_allclose(ours.integrate(x[0], x[-1]), theirs.integrate(x[0], x[-1]))
    alike(ours.antiderivative(), theirs.antiderivative(), x, (0, 1))


@pytest.mark.parametrize("n", SIZES)
def test_curves_that_keep_the_shape_are_those_of_scipy(n):
    x, y, places = data(n, (2,))
    y[n // 2 :] = y[n // 2]
    for name, options in (
        ("PchipInterpolator", {}),
        ("Akima1DInterpolator", {"method": "akima"}),
        ("Akima1DInterpolator", {"method": "makima", "extrapolate": True}),
    ):
        ours, theirs = (
            getattr(make, name)(x, y, **options) for make in (interpolate, scipy.interpolate)
        )
        alike(ours, theirs, places, (0, 1))
    slopes = np.cos(y)
    ours, theirs = (
        make.CubicHermiteSpline(x, y.T, slopes.T, axis=1)
        for make in (interpolate, scipy.interpolate)
    )
    np.testing.assert_allclose(ours(places), theirs(places).T, atol=1e-12)


def test_curves_have_derivatives_by_data_and_batch():
    x, y, places = data(6)
    value = lambda y, x: interpolate.CubicSpline(x, y)(places[:5]).sum()
    h = 1e-6
    step = np.eye(6)[2] * h
    by_y, by_x = tfn.jit(tfn.grad(value, (0, 1)))(y, x)
    np.testing.assert_allclose(by_y[2], (value(y + step, x) - value(y - step, x)) / (2 * h))
    np.testing.assert_allclose(
        by_x[2], (value(y, x + step) - value(y, x - step)) / (2 * h), rtol=1e-5
    )
    rows = tfn.vmap(lambda y: interpolate.PchipInterpolator(x, y)(places))(np.stack([y, 2 * y]))
    np.testing.assert_allclose(rows[1], 2 * rows[0], rtol=1e-12)


def test_wrong_calls():
    x, y, _ = data(4)
    for call in (
        lambda: interpolate.CubicSpline(x, y[:3]),
        lambda: interpolate.CubicSpline(x[:1], y[:1]),
        lambda: interpolate.CubicSpline(x, y, bc_type="other"),
        lambda: interpolate.CubicSpline(x, y, bc_type=((3, 0.0), (1, 0.0))),
        lambda: interpolate.CubicSpline(x, y, bc_type=("natural",)),
        lambda: interpolate.PchipInterpolator(x[:, None], y),
        lambda: interpolate.Akima1DInterpolator(x, y, method="other"),
    ):
        with pytest.raises(TfnError):
            call()
