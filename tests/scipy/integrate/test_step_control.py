"""Lengths of steps: norms, factors, the first step."""

import numpy as np
import scipy.integrate

from tfn.scipy.integrate import step_control as control


def test_norms_and_factors():
    assert control.norm(np.float64([3, 4])) == 12.5**0.5
    assert abs(control.norm(np.array([3 + 4j])) - 5) < 1e-12
    assert control.power(np.array(32.0), 5) == 0.5 and np.isinf(control.power(np.array(0.0), 5))
    yes, no = np.array(True), np.array(False)
    rows = [(yes, 50, no, 10), (yes, 3, yes, 1), (no, 0.01, no, 0.2), (no, 0.5, no, 0.5)]
    for accepted, factor, before, expected in rows:
        found = control.chosen(accepted, np.array(float(factor)), before)
        assert found == expected


def test_the_first_step_is_that_of_scipy():
    f = lambda t, y: np.cos(t) * y - y**2
    for y, span in (
        (np.float64([1, 2]), 3.0),
        (np.zeros(2), -2.0),
        (np.float64([1e3, 1e-9]), 1e-3),
    ):
        problem = control.Problem(f, f, np.array(1e-3), np.array(1e-6))
        ours = control.initial_step(problem, np.array(0.0), y, f(0, y), np.array(span), 4)
        solver = scipy.integrate.RK45(f, 0.0, y, span)
        np.testing.assert_allclose(ours, solver.h_abs, rtol=1e-6)
