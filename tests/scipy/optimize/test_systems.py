"""Roots of systems: the problems of Moré, Garbow and Hillstrom that are square, derivatives."""

import numpy as np
import pytest
import scipy.optimize

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.scipy import problems
from tfn.errors import TfnError
from tfn.scipy.optimize import root

SQUARE = [
    *("rosenbrock", "powell badly scaled", "powell singular", "helical valley"),
    *("broyden tridiagonal", "brown almost linear", "discrete boundary"),
]


@pytest.mark.parametrize("method", ["hybr", "lm"])
@pytest.mark.parametrize("name", in_turn(2, SQUARE))
def test_roots_of_known_systems(name, method):
    start = np.float64(problems.SQUARES[name][1])
    ours = root(lambda x: problems.residuals(name, tnp, x), start, method=method, max_nfev=2000)
    theirs = scipy.optimize.root(lambda x: problems.residuals(name, np, x), start, method="hybr")
    assert ours.success and ours.status == 1
    assert abs(ours.fun).max() < max(10 * abs(theirs.fun).max(), 1e-9)


def test_roots_have_derivatives_and_batch():
    def place(a):
        f = lambda x, a: tnp.stack([x[0] + x[1] - a, x[0] * x[1] - 2])
        return root(f, np.float64([0.0, 1.5]), (a,), jac=lambda x, a: tfn.jacfwd(f)(x, a)).x

    # x + y = a, x y = 2: dx/da = x / (x - y).
    np.testing.assert_allclose(tfn.jacrev(place)(np.array(3, "d")), [-1, 2], rtol=1e-7)
    found = tfn.jit(tfn.vmap(place))(np.float64([3, 4, 5]))
    np.testing.assert_allclose(found.sum(1), [3, 4, 5])


def test_systems_without_roots_are_told():
    away = root(lambda x: x * x + 1, np.float64([0.5]))
    assert not away.success and away.status in (2, 4)
    few = root(lambda x: x**3 - 8, np.float64([30.0]), max_nfev=3)
    assert not few.success and few.status == 2


def test_wrong_calls():
    for call in (
        lambda: root(lambda x: x[:1], np.zeros(2)),
        lambda: root(lambda x: x, np.zeros(2), method="broyden1"),
        lambda: root(lambda x: x, np.zeros(2, int)),
    ):
        with pytest.raises(TfnError):
            call()
