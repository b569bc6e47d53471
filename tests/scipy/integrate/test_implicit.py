"""Steps for stiff equations: their coefficients, and their order on a linear equation."""

import numpy as np
import pytest

from tfn.scipy.integrate import implicit
from tfn.scipy.integrate.step_control import Problem


def test_stages_of_radau_meet_their_conditions():
    c = implicit.NODES
    for k in range(1, 4):
        np.testing.assert_allclose(implicit.STAGES @ c ** (k - 1), c**k / k, atol=1e-14)
    eigenvalues = np.linalg.eigvals(np.linalg.inv(implicit.STAGES))
    assert abs(eigenvalues - implicit.REAL_EIGENVALUE).min() < 1e-12


def test_differences_of_steps_are_those_of_the_polynomial():
    rng = np.random.default_rng(0)
    powers = implicit.DIFFERENCE_POWERS
    for order in range(1, 6):
        differences = np.zeros((8, 1))
        differences[: order + 1, 0] = rng.standard_normal(order + 1)
        poly = lambda x, d: (x[:, None] ** np.arange(6)) @ powers.T @ d[:6, 0]
        other = implicit._changed(differences, np.array(order), np.array(0.4))
        x = np.linspace(0, 1, 7)
        # The same function, whose steps end at the same time, 1.
        shorter = poly(1 + (x - 1) / 0.4, np.asarray(other))
        np.testing.assert_allclose(shorter, poly(x, differences), atol=1e-11)


@pytest.mark.parametrize("name", ["radau", "bdf"])
def test_a_step_is_stable_however_stiff(name):
    f = lambda t, y: -1e6 * y
    problem = Problem(f, lambda t, y: np.float64([[-1e6]]), np.array(1e-3), np.array(1.0))
    t, y, h = np.array(0.0), np.float64([1e-3]), np.array(0.1)
    memory = getattr(implicit, f"{name}_start")(problem, t, y, f(t, y), h)
    tried = getattr(implicit, name)(problem, t, y, h, memory)
    assert abs(tried.y[0]) < 1e-3
    np.testing.assert_allclose(tried.rows[0], y, atol=1e-2)
    np.testing.assert_allclose(tried.rows.sum(0), tried.y, atol=1e-12)
