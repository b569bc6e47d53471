"""Least squares: the problems of others beside SciPy, bounds, losses, derivatives, covariances."""

from functools import partial

import numpy as np
import pytest
import scipy.optimize

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.scipy import problems
from tfn.errors import TfnError
from tfn.scipy.optimize import curve_fit, least_squares
from tfn.scipy.optimize.residuals import LOSSES

TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
SOME_FITS = ["Misra1a", "MGH10", "Rat43", "Eckerle4"]
"""Fits of few data; the others take turns."""


def valley(x):
    """Rosenbrock's function by residuals."""
    return tnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def check_fit(name):
    fit = problems.fit(name)

    def model(m):
        return lambda x, *b: fit.model(m, x, b)

    for start in fit.starts[1:]:
        best, covariance = curve_fit(model(tnp), fit.x, fit.y, start, **TIGHT, max_nfev=2000)
        theirs, _ = scipy.optimize.curve_fit(model(np), fit.x, fit.y, start, maxfev=5000, **TIGHT)
        error, other = (abs(p / fit.certified - 1).max() for p in (np.asarray(best), theirs))
        assert error < max(10 * other, 1e-7)
        deviations = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(
            deviations, fit.deviations, rtol=1e-5 if fit.squares > 1e-20 else 1
        )


@pytest.mark.parametrize("name", SOME_FITS)
def test_certified_parameters_of_the_nist(name):
    check_fit(name)


@pytest.mark.parametrize("name", in_turn(6, [n for n in problems.strd() if n not in SOME_FITS]))
def test_further_certified_parameters(name):
    check_fit(name)


@pytest.mark.parametrize("name", in_turn(4, problems.SQUARES))
def test_least_sums_of_squares(name):
    _, start, least = problems.SQUARES[name]
    method = "lm" if len(name) % 2 else "trf"
    residuals = lambda x: problems.residuals(name, tnp, x)
    ours = least_squares(residuals, np.float64(start), method=method, max_nfev=1000)
    assert ours.success and 2 * ours.cost < least * (1 + 1e-6) + 1e-12


BOUNDS = {
    "inactive": ([-2, -1], [2, 2]),
    "upper": ([-2, -1], [0.5, 2]),
    "lower": ([-2, 1.5], [np.inf, np.inf]),
    "both": ([-2, 0.5], [0.2, 1]),
    "narrow": ([-1.25, 0.9], [-1.15, 1.1]),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", in_turn(4, BOUNDS))
def test_bounds_and_losses_are_those_of_scipy(name, loss):
    start = np.clip([-1.2, 1.0], *BOUNDS[name])
    ours = least_squares(valley, start, bounds=BOUNDS[name], loss=loss, f_scale=0.5, max_nfev=500)
    theirs = scipy.optimize.least_squares(
        lambda x: np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]]), start,
        lambda x: np.array([[-20 * x[0], 10], [-1, 0]]), BOUNDS[name], loss=loss, f_scale=0.5,
    )  # fmt: skip
    assert ours.cost <= theirs.cost * (1 + 1e-6) + 1e-15
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-5)
    assert (abs(ours.active_mask) <= abs(theirs.active_mask)).all() or name == "lower"


def test_solutions_are_differentiated_at_the_solution():
    def place(c, **options):
        residuals = lambda x: tnp.stack([10 * (x[1] - x[0] ** 2) + c, 1 - x[0] * c, x[1]])
        return least_squares(residuals, np.float64([-1.2, 1.0]), **options).x

    h = 1e-3
    for derivative, options in (
        (tfn.jacfwd, TIGHT),
        (tfn.jacrev, {**TIGHT, "loss": "cauchy", "f_scale": 2.0}),
    ):
        f = tfn.jit(partial(place, **options))
        difference = (f(0.7 + h) - f(0.7 - h)) / (2 * h)
        np.testing.assert_allclose(derivative(f)(np.float64(0.7)), difference, rtol=5e-4)


def test_a_bound_moves_the_variable_that_lies_on_it():
    def place(upper):
        bounds = (tnp.full(2, -2.0, "float64"), tnp.stack([upper, 2.0 * tnp.ones_like(upper)]))
        return least_squares(valley, np.float64([-1.2, 1.0]), bounds=bounds, **TIGHT).x

    np.testing.assert_allclose(tfn.jacfwd(place)(np.float64(0.5)), [1, 1], rtol=1e-5)


def test_starts_are_batched_and_compiled():
    starts = np.random.default_rng(0).uniform(-2, 2, (5, 2))
    found = tfn.jit(tfn.vmap(lambda x: least_squares(valley, x)))(starts)
    np.testing.assert_allclose(found.x, np.ones((5, 2)), atol=1e-6)
    assert found.success.all() and len(set(found.nfev.tolist())) > 1


def test_float32_ends_at_its_own_precision():
    result = least_squares(valley, np.float32([-1.2, 1.0]))
    assert result.x.dtype == np.float32 and result.success
    np.testing.assert_allclose(result.x, [1, 1], atol=1e-4)


def test_few_evaluations_are_told():
    result = least_squares(valley, np.float64([-1.2, 1.0]), max_nfev=3)
    assert result.nfev == 3 and result.status == 0 and not result.success


def line(x, a, b):
    return a * x + b


X = np.arange(6.0)
Y = np.float64([1.1, 2.9, 5.2, 7.1, 8.8, 11.3])
SIGMAS = {
    "none": None,
    "deviations": np.float64([1, 2, 1, 2, 1, 3]),
    "covariance": np.diag(np.float64([1, 2, 1, 2, 1, 3])) + 0.2,
}


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_covariances_are_those_of_scipy(sigma, absolute):
    ours, theirs = (
        fit(line, X, Y, np.ones(2), SIGMAS[sigma], absolute)
        for fit in (curve_fit, scipy.optimize.curve_fit)
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_parameter_that_data_do_not_determine_has_no_covariance():
    best, covariance = curve_fit(lambda x, a, b: a * x + 0 * b, X, 2 * X, np.ones(2))
    assert abs(best[0] - 2) < 1e-6 and np.isinf(covariance).all()
    assert np.isinf(curve_fit(line, X[:2], Y[:2], np.ones(2))[1]).all()


def test_fits_within_bounds_and_by_given_derivatives():
    jac = lambda x, a, b: tnp.stack([x, tnp.ones_like(x)], 1)
    best, _ = curve_fit(line, X, Y, np.float64([1, 0.5]), bounds=([0, 0], [1.5, 9]), jac=jac)
    theirs, _ = scipy.optimize.curve_fit(
        line, X, Y, np.float64([1, 0.5]), bounds=([0, 0], [1.5, 9])
    )
    np.testing.assert_allclose(best, theirs, rtol=1e-5)


WRONG = [
    lambda: least_squares(valley, np.zeros(2, int)),
    lambda: least_squares(valley, np.zeros((2, 1))),
    lambda: least_squares(valley, np.zeros(2), method="dogbox"),
    lambda: least_squares(valley, np.zeros(2), loss="other"),
    lambda: least_squares(valley, np.zeros(2), bounds=(0, 1), method="lm"),
    lambda: least_squares(valley, np.zeros(2), bounds=(0, 1, 2)),
    lambda: least_squares(lambda x: x[None], np.zeros(2)),
]


@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls(call):
    with pytest.raises(TfnError):
        call()
