"""Tables of Runge-Kutta methods: the conditions of their orders."""

import numpy as np
import pytest

from tfn.scipy.integrate.runge_kutta import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_coefficients_meet_the_conditions_of_their_order(name):
    table = TABLES[name]
    c, b = table.nodes[: len(table.stages) + 1], table.solution
    for k in range(table.order):  # quadratures of powers
        np.testing.assert_allclose(b @ c**k, 1 / (k + 1), atol=1e-13)
    for node, row in zip(c[1:], table.stages, strict=True):
        np.testing.assert_allclose(sum(row), node, atol=1e-13)
    errors = np.atleast_2d(table.error)
    np.testing.assert_allclose(errors.sum(1), 0, atol=1e-13)
    np.testing.assert_allclose(errors[0, : c.size] @ c + errors[0, c.size :].sum(), 0, atol=1e-13)


@pytest.mark.parametrize("name", TABLES)
def test_the_polynomial_ends_at_the_solution(name):
    table = TABLES[name]
    ends = table.polynomial.sum(1)
    np.testing.assert_allclose(ends[: len(table.solution)], table.solution, atol=1e-12)
    np.testing.assert_allclose(ends[len(table.solution) :], 0, atol=1e-12)
    np.testing.assert_allclose(table.polynomial[0, 0], 1)  # the slope at the beginning
    for node, row in zip(table.nodes[len(table.stages) + 2 :], table.further, strict=True):
        np.testing.assert_allclose(sum(row), node, atol=1e-13)
