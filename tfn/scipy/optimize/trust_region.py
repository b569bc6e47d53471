"""Steps of a least squares problem within a trust region and within bounds.

Sources: J. J. More, The Levenberg-Marquardt algorithm: implementation and theory (1977), for the
radius and the equation of the damping; M. A. Branch, T. F. Coleman and Y. Li, A subspace, interior
and conjugate gradient method for large-scale bound-constrained minimization problems (1999), for
variables that are scaled by their distance from the bounds, and for reflected steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array

NEWTON_STEPS = 10
"""Steps for the damping: the radius is met within a tenth after two or three."""

RADIUS_TOLERANCE = 0.01
"""The difference of the length of a step from the radius, relative to it."""


class Region(NamedTuple):
    """The problem ``|J p + f|`` at a place, in variables whose trust region is a ball.

    Attributes:
        scale: the length of a variable, of which the scaled one is 1.
        jac: the Jacobian matrix by scaled variables.
        grad: the gradient by them.
        diag: what bounds add to the diagonal of the Hessian matrix.
        weighted: residuals in the basis of left singular vectors, times singular values.
        values: singular values of `jac` with `diag`.
        vectors: right singular vectors, one in each row.
    """

    scale: Array
    jac: Array
    grad: Array
    diag: Array
    weighted: Array
    values: Array
    vectors: Array


def distances(
    x: Array, grad: Array, lower: Array, upper: Array, scale: Array
) -> tuple[Array, Array]:
    """The distance to the bound that descent meets, 1 where there is none, and its slope."""
    down, up = (grad > 0) & jnp.isfinite(lower), (grad < 0) & jnp.isfinite(upper)
    near = jnp.where(down, x - lower, jnp.where(up, upper - x, scale))
    slope = jnp.where(down, 1.0, jnp.where(up, -1.0, 0.0)).astype(x.dtype)
    return near / scale, slope


def region(x: Array, f: Array, jac: Array, lower: Array, upper: Array, scale: Array) -> Region:
    """The problem in scaled variables, with the singular values of its matrix."""
    grad = f @ jac
    near, slope = distances(x, grad, lower, upper, scale)
    length = jnp.sqrt(near) * scale
    diag = grad * slope * scale
    scaled = jac * length
    both = jnp.concatenate([scaled, jnp.diag(jnp.sqrt(diag))])
    q, r = jnp.linalg.qr(both)
    u, values, vectors = jnp.linalg.svd(r)
    weighted = values * ((f @ q[: f.size]) @ u)
    return Region(length, scaled, grad * length, diag, weighted, values, vectors)


def within_radius(problem: Region, radius: Array, damping: Array) -> tuple[Array, Array]:
    """The step of least squares no longer than a radius, and its damping.

    The damping a is found by Newton's method on ``1 / |p(a)| = 1 / radius``, which is nearly
    linear, between bounds that each step narrows.
    """
    weighted, values = problem.weighted, problem.values
    squares = values * values
    tiny = jnp.finfo(values.dtype).tiny
    least = jnp.finfo(values.dtype).eps * problem.jac.shape[0] * values[0]
    regular = (values[-1] > least) & (values[-1] > 0)

    def parts(a: Array) -> tuple[Array, Array, Array]:
        denominator = jnp.maximum(squares + a, tiny)
        p = weighted / denominator
        size = jnp.linalg.norm(p)
        return p, size, -(p * p / denominator).sum() / jnp.maximum(size, tiny)

    _, newton, bend = parts(jnp.zeros_like(radius))
    whole = regular & (newton <= radius)
    highest = jnp.linalg.norm(weighted) / radius
    lowest = jnp.where(regular, -(newton - radius) / jnp.where(bend == 0, -1, bend), 0)
    between = jnp.maximum(0.001 * highest, jnp.sqrt(jnp.maximum(lowest, 0) * highest))
    start = jnp.where(regular | (damping > 0), damping, between)

    def goes_on(carry: Any) -> Any:
        n, _, _, _, off = carry
        return ~whole & (n < NEWTON_STEPS) & (abs(off) > RADIUS_TOLERANCE * radius)

    def newton_step(carry: Any) -> Any:
        n, a, low, high, _ = carry
        outside = (a < low) | (a > high)
        a = jnp.where(outside, jnp.maximum(0.001 * high, jnp.sqrt(low * high)), a)
        _, size, bend = parts(a)
        off = size - radius
        high = jnp.where(off < 0, a, high)
        ratio = off / jnp.where(bend == 0, -1, bend)
        low = jnp.maximum(low, a - ratio)
        met = abs(off) <= RADIUS_TOLERANCE * radius
        return n + 1, jnp.where(met, a, a - size * ratio / radius), low, high, off

    infinite = jnp.full_like(radius, jnp.inf)
    _, a, low, high, _ = lax.while_loop(
        goes_on, newton_step, (0, start, jnp.maximum(lowest, 0), highest, infinite)
    )
    a = jnp.where(whole, 0, jnp.clip(a, low, high))
    p, size, _ = parts(a)
    p = p * jnp.where(whole, 1, radius / jnp.maximum(size, tiny))
    return -(p @ problem.vectors), a


def model(problem: Region, p: Array) -> Array:
    """The change of the cost that the quadratic model predicts."""
    product = problem.jac @ p
    return (product @ product + p @ (problem.diag * p)) / 2 + problem.grad @ p


def to_bound(x: Array, p: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The part of a step up to the first bound, and whether each variable meets its own there."""
    moves = p != 0
    divisor = jnp.where(moves, p, 1)
    far = jnp.where(moves, jnp.maximum((lower - x) / divisor, (upper - x) / divisor), jnp.inf)
    first = far.min()
    return first, (far == first) & moves


def _best_along(
    problem: Region, start: Array, p: Array, low: Array, high: Array
) -> tuple[Array, Array]:
    """The least of the model on ``start + t p`` for t of an interval, and its value."""
    product = problem.jac @ p
    curvature = product @ product + p @ (problem.diag * p)
    incline = problem.grad @ p + product @ (problem.jac @ start) + p @ (problem.diag * start)
    positive = curvature > 0
    vertex = -incline / jnp.where(positive, curvature, 1)
    t = jnp.where(positive, jnp.clip(vertex, low, high), jnp.where(incline < 0, high, low))
    point = start + t * p
    return point, model(problem, point)


def reflected(
    problem: Region,
    x: Array,
    step: Array,
    lower: Array,
    upper: Array,
    radius: Array,
    theta: Array,
) -> Array:
    """The best of three steps that stay within bounds, by the model.

    They are the step itself, cut off before the first bound; its reflection at this bound; the
    step of steepest descent.  `theta` is which part of the way to a bound may be gone.
    """
    length = problem.scale
    stride, hits = to_bound(x, step * length, lower, upper)
    inside = stride >= 1
    cut = jnp.minimum(stride, 1) * step
    mirror = jnp.where(hits, -step, step)
    # How far the reflection is in the ball, then how far within bounds.
    a, b = mirror @ mirror, cut @ mirror
    c = jnp.minimum(cut @ cut - radius * radius, 0)
    a = jnp.where(a > 0, a, 1)
    to_ball = (-b + jnp.sqrt(b * b - a * c)) / a
    wall, _ = to_bound(x + cut * length, mirror * length, lower, upper)
    far = jnp.minimum(wall, to_ball)
    possible = (far > 0) & (jnp.minimum(stride, 1) > 0)
    nearest = (1 - theta) * stride / jnp.where(possible, far, 1)
    farthest = jnp.where(far == wall, theta * wall, to_ball)
    possible = possible & (nearest <= farthest)
    finite = jnp.where(jnp.isfinite(farthest), farthest, 0)
    turned, turned_value = _best_along(problem, cut, mirror, nearest, finite)
    turned_value = jnp.where(possible, turned_value, jnp.inf)

    short = theta * cut
    zero = jnp.zeros_like(step)
    descent = -problem.grad
    size = jnp.linalg.norm(descent)
    ball = radius / jnp.where(size > 0, size, 1)
    wall, _ = to_bound(x, descent * length, lower, upper)
    end = jnp.where(wall < ball, theta * wall, ball)
    steep, steep_value = _best_along(problem, zero, descent, jnp.zeros_like(end), end)

    short_value = model(problem, short)
    best = jnp.where(turned_value < short_value, turned, short)
    best_value = jnp.minimum(turned_value, short_value)
    best = jnp.where(steep_value < best_value, steep, best)
    return jnp.where(inside, step, best)


def strictly_inside(x: Array, lower: Array, upper: Array) -> Array:
    """The place, moved off a bound that it lies on by the least that numbers allow."""
    above = jnp.nextafter(lower, upper)
    below = jnp.nextafter(upper, lower)
    moved = jnp.where(x <= lower, above, jnp.where(x >= upper, below, x))
    outside = (moved < lower) | (moved > upper)
    return jnp.where(outside, (lower + upper) / 2, moved)
