"""Implicit steps for stiff equations: Radau IIA of order 5, and differences backwards.

Sources: E. Hairer and G. Wanner, Solving ordinary differential equations II (1996), section IV.8,
for Radau IIA; L. Shampine and M. Reichelt, The MATLAB ODE suite (1997), and G. Byrne and A.
Hindmarsh, A polyalgorithm for the numerical solution of ordinary differential equations (1975), for
differences backwards of order 1 to 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array
from tfn.scipy.integrate.step_control import (
    LARGEST_CUT,
    LARGEST_GROWTH,
    SAFETY,
    Attempt,
    Problem,
    error_norm,
    norm,
    power,
)
from tfn.scipy.linalg import lu_factor, lu_solve
from tfn.scipy.optimize.residuals import solve_dense

ROOT6 = 6**0.5
NODES = np.array([(4 - ROOT6) / 10, (4 + ROOT6) / 10, 1])
"""The times of the stages of Radau IIA."""

STAGES = np.array(
    [
        [(88 - 7 * ROOT6) / 360, (296 - 169 * ROOT6) / 1800, (-2 + 3 * ROOT6) / 225],
        [(296 + 169 * ROOT6) / 1800, (88 + 7 * ROOT6) / 360, (-2 - 3 * ROOT6) / 225],
        [(16 - ROOT6) / 36, (16 + ROOT6) / 36, 1 / 9],
    ]
)
ERROR = np.array([-13 - 7 * ROOT6, -13 + 7 * ROOT6, -1]) / 3
REAL_EIGENVALUE = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
"""The real eigenvalue of the inverse of the coefficients of stages."""

POLYNOMIAL = np.linalg.inv(NODES[:, None] ** np.arange(1, 4))
"""The coefficients of powers of the polynomial through the stages and 0."""

RADAU_NEWTON_STEPS, BDF_NEWTON_STEPS = 6, 4

HIGHEST_ORDER = 5
KAPPA = np.array([0, -0.1850, -1 / 9, -0.0823, -0.0415, 0])
GAMMA = np.concatenate([[0], np.cumsum(1 / np.arange(1, HIGHEST_ORDER + 1))])
ALPHA = (1 - KAPPA) * GAMMA
BDF_ERROR = KAPPA * GAMMA + 1 / np.arange(1, HIGHEST_ORDER + 2)


def _difference_powers() -> np.ndarray[Any, Any]:
    """The polynomials that belong to differences, by coefficients of powers of the part."""
    rows = np.zeros((HIGHEST_ORDER + 1, HIGHEST_ORDER + 1))
    rows[0, 0] = 1
    product = np.poly1d([1.0])
    for k in range(1, HIGHEST_ORDER + 1):
        product = product * np.poly1d([1, k - 2]) / k
        rows[k, : k + 1] = product.coeffs[::-1]
    return rows


DIFFERENCE_POWERS = _difference_powers()


def _newton(
    residual: Callable[[Array], Array],
    solve: Callable[[Array], Array],
    start: Array,
    scale: Array,
    tolerance: Array,
    most: int,
) -> tuple[Array, tuple[Array, Array]]:
    """The root of a residual by one factorisation, differentiated as an implicit function.

    Returns:
        The root, whether the steps converge, and their number.
    """

    def find(residual: Callable[[Array], Array], start: Array) -> Any:
        def goes_on(carry: Any) -> Any:
            _, _, n, converged, diverges = carry
            return ~converged & ~diverges & (n < most)

        def step(carry: Any) -> Any:
            z, before, n, _, _ = carry
            move = solve(residual(z))
            size = norm(move / scale)
            rate = size / before
            rest = rate ** (most - n) / (1 - rate) * size
            diverges = ~(size < jnp.inf) | ((n > 0) & ((rate >= 1) | (rest > tolerance)))
            met = (size == 0) | ((n > 0) & (rate / (1 - rate) * size < tolerance))
            z = jnp.where(diverges, z, z - move)
            return z, size, n + 1, met & ~diverges, diverges

        no = jnp.array(False)
        start_size = jnp.full((), jnp.inf, scale.dtype)
        z, _, n, converged, _ = lax.while_loop(
            goes_on, step, (start, start_size, jnp.array(0), no, no)
        )
        return z, (converged, n)

    z, found = lax.custom_root(residual, start, find, solve_dense, has_aux=True)
    return z, found


def _newton_tolerance(problem: Problem, kind: Any) -> Array:
    eps = jnp.finfo(kind).eps
    return jnp.maximum(10 * eps / problem.rtol, jnp.minimum(0.03, problem.rtol**0.5))


def _factored(matrix: Array) -> Callable[[Array], Array]:
    """The solution of systems with a matrix; it is no part of derivatives."""
    factors = lu_factor(lax.stop_gradient(matrix))
    return lambda right: lu_solve(factors, right)


def radau_start(problem: Problem, t: Any, y: Array, f: Array, h: Array) -> Any:
    """The memory of Radau IIA.

    It has the slope, the Jacobian matrix, the polynomial and the length of the step before, its
    error, and whether it was rejected.
    """
    one = jnp.ones((), y.dtype)
    rows = jnp.concatenate([y[None], jnp.zeros((3, y.size), y.dtype)])
    return f, problem.jac(t, y), rows, h, one, 0 * one, jnp.array(False)


def radau(problem: Problem, t: Any, y: Array, h: Array, memory: Any) -> Attempt:
    """One step of Radau IIA."""
    f, jac, before, width, last_h, last_error, rejected = memory
    kind, n = y.dtype, y.size
    nodes, stages = jnp.asarray(NODES, kind), jnp.asarray(STAGES, kind)
    matrix = jnp.eye(3 * n, dtype=kind) - jnp.kron(stages, h * jac)
    solve = _factored(matrix)

    def residual(z: Array) -> Array:
        slopes = [problem.fun(t + c * h, y + row) for c, row in zip(nodes, z.reshape(3, n))]
        return z - h * (stages @ jnp.stack(slopes)).reshape(-1)

    # The polynomial of the step before goes on: it begins at y of then, which is y less its end.
    parts = 1 + nodes * h / width
    ahead = sum(row * (parts**k - 1)[:, None] for k, row in enumerate(before) if k)
    scale = jnp.tile(problem.atol + abs(y) * problem.rtol, 3)
    guess = lax.stop_gradient(jnp.asarray(ahead).reshape(-1))
    tolerance = _newton_tolerance(problem, kind)
    z, (converged, steps) = _newton(
        residual, solve, guess, lax.stop_gradient(scale), tolerance, RADAU_NEWTON_STEPS
    )
    z = z.reshape(3, n)
    new = y + z[-1]
    real = _factored(REAL_EIGENVALUE / h * jnp.eye(n, dtype=kind) - jac)
    drift = jnp.asarray(ERROR, kind) @ z / h
    error = real(f + drift)
    ratio = error_norm(problem, error, y, new)
    again = rejected & (ratio > 1)
    better = real(problem.fun(t, y + error) + drift)
    ratio = jnp.where(again, error_norm(problem, better, y, new), ratio)
    accepted = converged & (ratio <= 1)
    known = last_error > 0
    trend = h / last_h * power(jnp.where(known, ratio / jnp.where(known, last_error, 1), 1), 4)
    factor = jnp.where(known, jnp.minimum(1, trend), 1) * power(ratio, 4)
    safety = SAFETY * (2 * RADAU_NEWTON_STEPS + 1) / (2 * RADAU_NEWTON_STEPS + steps)
    grown = jnp.where(accepted, LARGEST_GROWTH, 1)
    factor = jnp.clip(safety * factor, LARGEST_CUT, grown)
    factor = jnp.where(converged, factor, 0.5)
    rows = jnp.concatenate([y[None], jnp.asarray(POLYNOMIAL, kind) @ z])
    after = t + h
    moved = lax.cond(
        accepted, lambda: (problem.fun(after, new), problem.jac(after, new)), lambda: (f, jac)
    )
    kept_error = jnp.where(accepted, jnp.maximum(ratio, 1e-10), last_error)
    kept = (
        *moved,
        jnp.where(accepted, rows, before),
        jnp.where(accepted, h, width),
        jnp.where(accepted, h, last_h),
        lax.stop_gradient(kept_error),
        ~accepted,
    )
    calls = (3 * steps + 2, 1 * accepted, 2)
    return Attempt(new, accepted, factor, rows, kept, calls)


def _changed(differences: Array, order: Array, factor: Array) -> Array:
    """The differences for steps of another length."""
    size = HIGHEST_ORDER + 1
    numbers = jnp.arange(size, dtype=differences.dtype)
    i, j = numbers[:, None], numbers[None, :]
    inside = (i <= order) & (j <= order)

    def matrix(factor: Any) -> Array:
        ratios = jnp.where(j == 0, 0, (i - 1 - factor * j) / jnp.maximum(i, 1))
        return jnp.where(inside, jnp.cumprod(jnp.where(i == 0, 1, ratios), axis=0), 0)

    both = matrix(factor) @ matrix(1.0)
    head = both.T @ differences[:size]
    mask = jnp.arange(size)[:, None] <= order
    return jnp.concatenate([jnp.where(mask, head, differences[:size]), differences[size:]])


def bdf_start(problem: Problem, t: Any, y: Array, f: Array, h: Array) -> Any:
    """The memory of differences backwards.

    It has the differences, their order, the length of steps they belong to, how many were equal,
    and the Jacobian matrix.
    """
    rows = jnp.zeros((HIGHEST_ORDER + 3, y.size), y.dtype).at[0].set(y).at[1].set(f * h)
    return rows, jnp.array(1), h, jnp.array(0), problem.jac(t, y)


def bdf(problem: Problem, t: Any, y: Array, h: Array, memory: Any) -> Attempt:
    """One step by differences backwards, and the choice of the next order."""
    d, order, width, equal, jac = memory
    kind = y.dtype
    gamma, alpha, constants = (jnp.asarray(x, kind) for x in (GAMMA, ALPHA, BDF_ERROR))
    same = h == width
    d = jnp.where(same, d, _changed(d, order, h / width))
    equal = jnp.where(same, equal, 0)
    index = jnp.arange(HIGHEST_ORDER + 3)[:, None]
    used = jnp.where(index <= order, d, 0)
    predicted = used.sum(0)
    psi = gamma[1:] @ used[1 : HIGHEST_ORDER + 1] / alpha[order]
    c = h / alpha[order]
    after = t + h
    solve = _factored(jnp.eye(y.size, dtype=kind) - c * jac)
    scale = lax.stop_gradient(problem.atol + problem.rtol * abs(predicted))

    def residual(e: Array) -> Array:
        return e + psi - c * problem.fun(after, predicted + e)

    tolerance = _newton_tolerance(problem, kind)
    e, (converged, steps) = _newton(
        residual, solve, jnp.zeros_like(y), scale, tolerance, BDF_NEWTON_STEPS
    )
    new = predicted + e
    safety = SAFETY * (2 * BDF_NEWTON_STEPS + 1) / (2 * BDF_NEWTON_STEPS + steps)
    ratio = error_norm(problem, constants[order] * e, new, new)
    accepted = converged & (ratio <= 1)
    cut = jnp.clip(safety * power(ratio, order + 1), LARGEST_CUT, 1)
    cut = jnp.where(converged, cut, 0.5)

    # The differences after the step: two new ones, then sums of all that follow.
    grown = jnp.where(index == order + 2, e - d[order + 1], jnp.where(index == order + 1, e, d))
    sums = jnp.cumsum(jnp.where(index <= order + 1, grown, 0)[::-1], axis=0)[::-1]
    moved = jnp.where(index <= order, sums, grown)
    equal = equal + 1
    settled = equal > order
    lower = error_norm(problem, constants[order - 1] * moved[order], new, new)
    upper = constants[jnp.minimum(order + 1, HIGHEST_ORDER)] * moved[order + 2]
    upper = error_norm(problem, upper, new, new)
    factors = jnp.stack(
        [
            jnp.where(order > 1, power(lower, order), 0),
            power(ratio, order + 1),
            jnp.where(order < HIGHEST_ORDER, power(upper, order + 2), 0),
        ]
    )
    best = factors.argmax()
    next_order = jnp.where(settled, order + best - 1, order)
    growth = jnp.where(settled, jnp.minimum(LARGEST_GROWTH, safety * factors[best]), 1)

    powers = jnp.asarray(DIFFERENCE_POWERS, kind)
    rows = powers.T @ jnp.where(index <= order, moved, 0)[: HIGHEST_ORDER + 1]
    next_jac = lax.cond(accepted, lambda: problem.jac(after, new), lambda: jac)
    kept = (
        jnp.where(accepted, moved, d),
        jnp.where(accepted, next_order, order),
        h,
        jnp.where(accepted & ~settled, equal, 0),
        next_jac,
    )
    factor = jnp.where(accepted, growth, cut)
    return Attempt(new, accepted, factor, rows, kept, (steps, 1 * accepted, 1))
