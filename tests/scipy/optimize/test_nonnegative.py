"""Least squares without negative variables, and assignments, beside SciPy."""

import numpy as np
import pytest
import scipy.optimize

import tfn
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy.optimize import linear_sum_assignment, nnls

SHAPES = [(5, 3), (3, 5), (8, 8), (1, 1), (30, 12), (12, 30)]


@pytest.mark.parametrize("shape", in_turn(2, SHAPES))
@pytest.mark.parametrize("kind", ["normal", "positive", "dependent"])
def test_solutions_are_those_of_scipy(shape, kind):
    rng = np.random.default_rng(sum(shape))
    a = rng.standard_normal(shape)
    a = abs(a) if kind == "positive" else a
    a[:, -1] = a[:, 0] if kind == "dependent" else a[:, -1]
    b = rng.standard_normal(shape[0])
    x, norm = nnls(a, b)
    expected, least = scipy.optimize.nnls(a, b)
    assert (np.asarray(x) >= 0).all() and norm <= least * (1 + 1e-9) + 1e-12
    if kind != "dependent" and shape[0] >= shape[1]:
        np.testing.assert_allclose(x, expected, rtol=1e-7, atol=1e-10)


def test_nnls_has_derivatives_and_batches():
    rng = np.random.default_rng(0)
    a, b, db = rng.standard_normal((6, 4)), rng.standard_normal((3, 6)), rng.standard_normal(6)
    solve = tfn.jit(lambda b: nnls(a, b)[0])
    expected = [scipy.optimize.nnls(a, row)[0] for row in b]
    np.testing.assert_allclose(tfn.vmap(solve)(b), expected, rtol=1e-8, atol=1e-12)
    h = 1e-6
    difference = (solve(b[0] + h * db) - solve(b[0] - h * db)) / (2 * h)
    np.testing.assert_allclose(tfn.jvp(solve, (b[0],), (db,))[1], difference, rtol=1e-6, atol=1e-9)


def test_too_few_steps_are_told():
    rng = np.random.default_rng(0)
    assert np.isnan(nnls(abs(rng.standard_normal((6, 4))), np.ones(6), maxiter=1)[0]).all()


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3), (1, 1), (0, 3)])
def test_assignments_are_those_of_scipy(shape):
    costs = np.random.default_rng(1).standard_normal((2, *shape))
    for maximize in (False, True):
        found = tfn.jit(tfn.vmap(lambda c, m=maximize: linear_sum_assignment(c, m)))(costs)
        for i, matrix in enumerate(costs):
            expected = scipy.optimize.linear_sum_assignment(matrix, maximize)
            for ours, theirs in zip(found, expected, strict=True):
                assert ours[i].tolist() == theirs.tolist()


def test_wrong_calls():
    for call in (
        lambda: nnls(np.zeros((2, 3)), np.zeros(3)),
        lambda: nnls(np.zeros(2), np.zeros(2)),
        lambda: linear_sum_assignment(np.zeros(3)),
    ):
        with pytest.raises(TfnError):
            call()
