"""Minima within bounds and under constraints, beside SciPy; their derivatives."""

import numpy as np
import pytest
import scipy.optimize

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.scipy import problems
from tfn.errors import TfnError
from tfn.scipy.optimize import minimize
from tfn.scipy.optimize.constraints import complementary

# By name a function, a start, bounds, and constraints that are zero, then not negative; each takes
# the module.  Source: W. Hock, K. Schittkowski, Test examples for nonlinear programming codes
# (1981), by number.
# fmt: off
PROBLEMS = {
    "6": (lambda m, x: (1 - x[0]) ** 2, [-1.2, 1], None,
          lambda m, x: 10 * (x[1:] - x[:1] ** 2), None),
    "12": (lambda m, x: x[0] ** 2 / 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1], [0, 0], None,
           None, lambda m, x: 25 - 4 * x[:1] ** 2 - x[1:] ** 2),
    "26": (lambda m, x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4, [-2.6, 2, 2], None,
           lambda m, x: (1 + x[1:2] ** 2) * x[:1] + x[2:] ** 4 - 3, None),
    "35": (lambda m, x: 9 - 8 * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2
           + x[2] ** 2 + 2 * x[0] * x[1] + 2 * x[0] * x[2], [.5, .5, .5], (0, np.inf),
           None, lambda m, x: 3 - x[:1] - x[1:2] - 2 * x[2:]),
    "43": (lambda m, x: (x * x).sum() + x[2] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
           [0, 0, 0, 0], None, None,
           lambda m, x: m.stack([
               8 - (x * x).sum() - x[0] + x[1] - x[2] + x[3],
               10 - (x * x).sum() - x[1] ** 2 - x[3] ** 2 + x[0] + x[3],
               5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3]])),
    "71": (lambda m, x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], [1, 5, 5, 1], (1, 5),
           lambda m, x: (x * x).sum()[None] - 40, lambda m, x: m.prod(x)[None] - 25),
}
# fmt: on


def dicts(m, equal, other):
    kinds = {"eq": equal, "ineq": other}
    return [{"type": k, "fun": lambda x, f=f: f(m, x)} for k, f in kinds.items() if f]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", in_turn(3, PROBLEMS))
def test_constrained_minima_are_those_of_scipy(name):
    f, start, bounds, equal, other = PROBLEMS[name]
    start = np.float64(start)
    ours = minimize(
        lambda x: f(tnp, x), start, bounds=bounds, constraints=dicts(tnp, equal, other), tol=1e-9
    )
    theirs = scipy.optimize.minimize(
        lambda x: f(np, x), start, bounds=bounds and [bounds] * start.size,
        constraints=dicts(np, equal, other), tol=1e-9,
    )  # fmt: skip
    assert ours.success and ours.nit < 2 * theirs.nit + 5
    np.testing.assert_allclose(ours.fun, theirs.fun, rtol=1e-6, atol=1e-8)
    broken = [abs(equal(np, np.asarray(ours.x)))] if equal else []
    broken += [np.maximum(-other(np, np.asarray(ours.x)), 0)] if other else []
    assert np.concatenate(broken).max() < 1e-7


@pytest.mark.parametrize("name", ["rosenbrock", "beale"])
def test_bounds_hold_variables(name):
    def f(m):
        return lambda x: (problems.residuals(name, m, x) ** 2).sum()

    start = np.float64(problems.SQUARES[name][1])
    for low, high in ((-2, 0.5), (1.2, 4)):
        ours = minimize(f(tnp), start, bounds=(low, high))
        theirs = scipy.optimize.minimize(f(np), np.clip(start, low, high), bounds=[(low, high)] * 2)
        assert ours.success and (low <= ours.x).all() and (ours.x <= high).all()
        assert ours.fun <= theirs.fun * (1 + 1e-6) + 1e-8


@pytest.mark.usefixtures("compiled")
def test_minima_move_with_bounds_and_constraints():
    def place(k, u):
        bounds = (tnp.stack([k * 0 - 5, k * 0 - 5]), tnp.stack([u, u * 0 + 9]))
        sum_of = {"type": "ineq", "fun": lambda x, k: 3 * k - x.sum(), "args": (k,)}
        square = lambda x: ((x - 2 * k) ** 2).sum()
        return minimize(square, np.zeros(2), bounds=bounds, constraints=sum_of, tol=1e-9).x

    k, u = np.array(2.0), np.array(0.5)
    np.testing.assert_allclose(place(k, u), [0.5, 4], atol=1e-6)
    by_k, by_u = tfn.jacrev(place, (0, 1))(k, u)
    np.testing.assert_allclose([by_k, by_u], [[0, 2], [1, 0]], atol=1e-6)


def test_constraints_that_contradict_each_other_are_told():
    apart = [{"type": "eq", "fun": lambda x, c=c: x - c} for c in (1.0, 2.0)]
    result = minimize(lambda x: (x * x).sum(), np.float64([1.0]), constraints=apart)
    assert result.status == 4 and not result.success


def test_complementary_rows():
    values, multipliers = np.float64([3, 0, 2]), np.float64([7, 5, 0])
    assert complementary(values, multipliers, 1).tolist() == [3, 0, 0]


def test_wrong_calls():
    f, x = (lambda x: (x * x).sum()), np.zeros(2)
    met = {"type": "eq", "fun": lambda x: x[:1]}
    for options in (
        {"bounds": (0, 1), "method": "BFGS"},
        {"constraints": met, "method": "L-BFGS-B"},
        {"constraints": {"type": "other", "fun": f}},
        {"constraints": {"fun": f}},
        {"constraints": [f]},
        {"bounds": (0, 1, 2)},
    ):
        with pytest.raises(TfnError):
            minimize(f, x, **options)
