"""Minima within bounds and under constraints, for `minimize`: L-BFGS-B and SLSQP.

Sources: D. Bertsekas, Projected Newton methods for optimization problems with simple constraints
(1982), for steps that are projected on bounds; D. Kraft, A software package for sequential
quadratic programming (1988); C. Lawson and R. Hanson, Solving least squares problems (1974),
chapter 23, for the quadratic programs; M. Powell, A fast algorithm for nonlinearly constrained
optimization calculations (1978), for the matrix that stays positive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tfn import jacfwd, lax
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.extend import a_function, one_of
from tfn.scipy.linalg import solve_triangular
from tfn.scipy.optimize.nonnegative import active_set

Evaluate = Callable[[Array], tuple[Array, Array]]

DECREASE = 1e-4
"""The part of the decrease that the slope promises which a step must have."""

HALVINGS = 40
"""The most halvings of a step: the next one would be below the precision of numbers."""


class Search(NamedTuple):
    """The end of a search.

    Attributes:
        x: the place.
        value: of the function.
        slope: its gradient.
        status: 0 for success, 1 if there were too many steps, 3 if none is downhill, 4 if
            constraints contradict each other.
        calls: evaluations.
        steps: of the method.
    """

    x: Array
    value: Array
    slope: Array
    status: Array
    calls: Array
    steps: Array


def projected(
    evaluate: Evaluate,
    x: Array,
    bounds: tuple[Array, Array],
    model: Any,
    product: Callable[..., Array],
    remember: Callable[..., Any],
    gtol: Any,
    ftol: Any,
    most: Any,
) -> Search:
    """Steps of a quasi-Newton method for the variables that no bound holds, projected on bounds."""
    lower, upper = bounds
    x = jnp.clip(x, lower, upper)
    value, slope = evaluate(x)
    zero = jnp.array(0)
    start = (Search(x, value, slope, zero - 1, zero + 1, zero), model)

    def goes_on(carry: Any) -> Any:
        return (carry[0].status < 0) & (carry[0].steps < most)

    def step(carry: Any) -> Any:
        s, model = carry
        held = (s.x <= lower) & (s.slope > 0) | (s.x >= upper) & (s.slope < 0)
        small = abs(jnp.clip(s.x - s.slope, lower, upper) - s.x).max() <= gtol
        free = jnp.where(held, 0, s.slope)
        direction = jnp.where(held, 0, -product(free, *model))
        direction = jnp.where(direction @ s.slope < 0, direction, -free)
        size = jnp.linalg.norm(free)
        first = jnp.where(s.steps == 0, jnp.minimum(1, 1 / jnp.where(size > 0, size, 1)), 1)

        def too_long(carry: Any) -> Any:
            _, place, value, _, n = carry
            promised = s.slope @ (place - s.x)
            return ~(value <= s.value + DECREASE * promised) & (n < HALVINGS)

        def shorter(carry: Any) -> Any:
            a, *_, n = carry
            place = jnp.clip(s.x + a * direction, lower, upper)
            return (a / 2, place, *evaluate(place), n + 1)

        worst = jnp.full_like(s.value, jnp.inf)
        _, place, value, slope, n = lax.while_loop(
            too_long, shorter, (first.astype(s.x.dtype), s.x, worst, s.slope, jnp.array(0))
        )
        better = value <= s.value
        change = s.value - value
        scale = jnp.maximum(jnp.maximum(abs(value), abs(s.value)), 1)
        flat = better & (change <= ftol * scale)
        status = jnp.where(small | flat, 0, jnp.where(better, -1, 3))
        keep = better & ~small
        new = Search(
            jnp.where(keep, place, s.x),
            jnp.where(keep, value, s.value),
            jnp.where(keep, slope, s.slope),
            status,
            s.calls + n,
            s.steps + 1,
        )
        return new, remember(model, place - s.x, slope - s.slope)

    end: Search = lax.while_loop(goes_on, step, start)[0]
    return end._replace(status=jnp.where(end.status < 0, 1, end.status))


class Constraints(NamedTuple):
    """All constraints as one vector: zero for those that are equal, and not negative for others.

    Attributes:
        values: the vector at a place; bounds come last.
        equal: how many come first that are to be zero.
    """

    values: Callable[[Array], Array]
    equal: int


def gathered(constraints: Any, bounds: tuple[Array, Array] | None, like: Array) -> Constraints:
    """The constraints that SciPy's dicts say, and bounds; an infinite one is always met."""
    rows: Sequence[Mapping[str, Any]]
    rows = [constraints] if isinstance(constraints, Mapping) else list(constraints)
    for row in rows:
        if not isinstance(row, Mapping) or "type" not in row or "fun" not in row:
            raise ArgumentError(
                "a constraint of minimize is a dict with type and fun", got=type(row).__name__
            )
        one_of("minimize", "type", row["type"], ("eq", "ineq"))
        a_function("minimize", "fun", row["fun"])

    def values(x: Array, kind: str) -> list[Array]:
        found = [row["fun"](x, *row.get("args", ())) for row in rows if row["type"] == kind]
        return [jnp.asarray(c, like.dtype).reshape(-1) for c in found]

    def within(x: Array) -> list[Array]:
        if bounds is None:
            return []
        pairs = ((x, bounds[0]), (bounds[1], x))
        return [
            jnp.where(jnp.isfinite(a - b), a - jnp.where(jnp.isfinite(b), b, 0), 1)
            for a, b in pairs
        ]

    def together(x: Array) -> Array:
        met = jnp.ones(1, like.dtype)  # one that is always met, so that there are some
        return jnp.concatenate([*values(x, "eq"), *values(x, "ineq"), *within(x), met])

    return Constraints(together, sum(c.size for c in values(like, "eq")))


class _State(NamedTuple):
    search: Search
    c: Array
    rows: Array
    matrix: Array
    weights: Array
    multipliers: Array


def _program(matrix: Array, slope: Array, rows: Array, c: Array, equal: Array) -> Any:
    """The step of a quadratic program, its multipliers, and whether it has one.

    It is the point of least norm of a polyhedron, in variables that make the matrix the identity;
    its multipliers are a least squares solution without negative ones.
    """
    factor = jnp.linalg.cholesky(matrix)
    newton = solve_triangular(factor, slope, lower=True)
    across = solve_triangular(factor, rows.T, lower=True)
    right = newton @ across - c
    system = jnp.concatenate([across, right[None]])
    last = jnp.zeros(system.shape[0], c.dtype).at[-1].set(1)
    u, _ = active_set(system, last, equal, 3 * c.size + 10)
    rest = 1 - right @ u
    possible = rest > 10 * jnp.finfo(c.dtype).eps
    u = u / jnp.where(possible, rest, 1)
    step = solve_triangular(factor, across @ u - newton, lower=True, trans="T")
    return step, u, possible


def quadratic_steps(
    evaluate: Evaluate, x: Array, constraints: Constraints, accuracy: Any, most: Any
) -> tuple[Search, Array]:
    """Sequential quadratic programming: the search, and multipliers of constraints."""
    slopes = jacfwd(constraints.values)
    value, slope = evaluate(x)
    c = constraints.values(x)
    equal = jnp.arange(c.size) < constraints.equal
    zero = jnp.array(0)
    eye = jnp.eye(x.size, dtype=x.dtype)
    search = Search(x, value, slope, zero - 1, zero + 1, zero)
    none = jnp.zeros_like(c)

    def violation(c: Array) -> Array:
        return jnp.where(equal, abs(c), jnp.maximum(-c, 0))

    def goes_on(s: _State) -> Any:
        return (s.search.status < 0) & (s.search.steps < most)

    def step(s: _State) -> _State:
        now = s.search
        move, multipliers, possible = _program(s.matrix, now.slope, s.rows, s.c, equal)
        weights = jnp.maximum(abs(multipliers), (s.weights + abs(multipliers)) / 2)
        broken = violation(s.c)
        incline = now.slope @ move - weights @ broken
        merit = now.value + weights @ broken
        stationary = abs(now.slope @ move) + abs(multipliers) @ broken

        def too_long(carry: Any) -> Any:
            a, _, value, c, n = carry
            found = value + weights @ violation(c)
            return ~(found <= merit + 2 * a * DECREASE * incline) & (n < HALVINGS)

        def shorter(carry: Any) -> Any:
            a, *_, n = carry
            place = now.x + a * move
            return a / 2, place, evaluate(place)[0], constraints.values(place), n + 1

        worst = jnp.full_like(now.value, jnp.inf)
        one = jnp.ones((), now.x.dtype)
        _, place, _, c, n = lax.while_loop(
            too_long, shorter, (one, now.x, worst, s.c, jnp.array(0))
        )
        value, slope = evaluate(place)
        met = violation(c).sum() < accuracy
        settled = (abs(value - now.value) < accuracy) | (jnp.linalg.norm(place - now.x) < accuracy)
        done = met & (settled | (stationary < accuracy)) & possible
        stuck = n >= HALVINGS
        status = jnp.where(done, 0, jnp.where(~possible, 4, jnp.where(stuck, 3, -1)))
        rows = slopes(place)
        moved = place - now.x
        change = slope - now.slope - multipliers @ (rows - s.rows)
        search = Search(place, value, slope, status, now.calls + n + 1, now.steps + 1)
        return _State(search, c, rows, _damped(s.matrix, moved, change), weights, multipliers)

    start = _State(search, c, slopes(x), eye, none, none)
    end = lax.while_loop(goes_on, step, start)
    status = jnp.where(end.search.status < 0, 1, end.search.status)
    return end.search._replace(status=status), end.multipliers


def _damped(matrix: Array, moved: Array, change: Array) -> Array:
    """The matrix of BFGS after a step, with the change mixed so that it stays positive."""
    product = matrix @ moved
    curvature, measured = moved @ product, moved @ change
    weak = measured < 0.2 * curvature
    gap = jnp.where(weak, curvature - measured, 1)
    part = jnp.where(weak, 0.8 * curvature / jnp.where(gap == 0, 1, gap), 1)
    mixed = part * change + (1 - part) * product
    along = moved @ mixed
    valid = (curvature > 0) & (along > 0)
    curvature, along = jnp.where(valid, curvature, 1), jnp.where(valid, along, 1)
    lost, gained = jnp.outer(product, product) / curvature, jnp.outer(mixed, mixed) / along
    updated = matrix - lost + gained
    return jnp.where(valid, updated, matrix)


def complementary(values: Array, multipliers: Array, equal: int) -> Array:
    """Zero where constraints are met and either they or their multipliers are zero."""
    first = jnp.arange(values.size) < equal
    return jnp.where(first, values, jnp.minimum(values, multipliers))
