"""Steps within a radius and within bounds: as long as they may be, and downhill."""

import numpy as np
import pytest

from tfn.scipy.optimize import trust_region

FREE = (np.full(4, -np.inf), np.full(4, np.inf))
RNG = np.random.default_rng(0)
MATRICES = {
    "full": RNG.standard_normal((6, 4)),
    "wide scales": RNG.standard_normal((6, 4)) * [1, 1e-3, 1e3, 1],
    "dependent columns": RNG.standard_normal((6, 2)) @ RNG.standard_normal((2, 4)),
    "equal singular values": np.eye(6, 4) + np.ones((6, 4)),
}
F = RNG.standard_normal(6)


def problem(matrix, bounds=FREE):
    return trust_region.region(np.zeros(4), F, matrix, *bounds, np.ones(4))


@pytest.mark.parametrize("radius", [1e-3, 0.1, 1e6])
@pytest.mark.parametrize("name", MATRICES)
def test_a_step_is_the_best_within_its_radius(name, radius):
    matrix = MATRICES[name]
    step, damping = trust_region.within_radius(problem(matrix), np.float64(radius), np.float64(0))
    step, damping = np.asarray(step), float(damping)
    assert np.linalg.norm(step) <= radius * (1 + 1e-6) and damping >= 0
    if not damping:
        best = np.linalg.lstsq(matrix, -F)[0]
        np.testing.assert_allclose(step, best, rtol=1e-8, atol=1e-12)
    elif name != "dependent columns":
        hessian = matrix.T @ matrix + damping * np.eye(4)
        exact = -np.linalg.solve(hessian, matrix.T @ F)
        np.testing.assert_allclose(step, exact * radius / np.linalg.norm(exact), rtol=1e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_steps_stay_within_bounds_and_descend(name):
    bounds = (np.full(4, -0.5), np.full(4, 0.1))
    given = problem(MATRICES[name], bounds=bounds)
    radius = np.float64(10)
    step, _ = trust_region.within_radius(given, radius, np.float64(0))
    inside = trust_region.reflected(given, np.zeros(4), step, *bounds, radius, np.float64(0.995))
    place = np.asarray(given.scale * inside)
    assert (bounds[0] < place).all() and (place < bounds[1]).all()
    assert trust_region.model(given, inside) < 0


def test_places_on_bounds_move_off_them():
    lower, upper = np.float64([0, 0, 1, 2]), np.float64([1, 1, 1, 2 + 2**-50])
    moved = np.asarray(trust_region.strictly_inside(np.float64([0, 1, 1, 2]), lower, upper))
    assert ((lower < moved) & (moved < upper) | (lower == upper)).all()
