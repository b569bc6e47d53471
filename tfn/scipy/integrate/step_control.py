"""Lengths of steps of differential equations, by estimates of their errors.

Source: E. Hairer, S. Norsett, G. Wanner, Solving ordinary differential equations I (1993), section
II.4, for the first step and the next ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array

SAFETY, LARGEST_CUT, LARGEST_GROWTH = 0.9, 0.2, 10.0
"""A step is a little smaller than the error allows; from one to the next it changes by factors."""


class Problem(NamedTuple):
    """An equation with its tolerances; `fun` takes a time and a vector."""

    fun: Callable[[Any, Array], Array]
    jac: Callable[[Any, Array], Array]
    rtol: Any
    atol: Any


class Attempt(NamedTuple):
    """One step that was tried.

    Attributes:
        y: the solution after it.
        accepted: whether its error is within the tolerances.
        factor: the length of the next step over that of this one.
        rows: coefficients of the polynomial through it, of ascending powers of the part of the
            step.
        memory: of the method, for the next step.
        calls: evaluations of the function, evaluations of the Jacobian matrix, factorisations.
    """

    y: Array
    accepted: Array
    factor: Array
    rows: Array
    memory: Any
    calls: Any


def norm(x: Array) -> Array:
    """The root of the mean of squares."""
    return jnp.sqrt((x * jnp.conj(x)).real.mean() if jnp.iscomplexobj(x) else (x * x).mean())


def error_norm(problem: Problem, error: Array, y: Array, new: Array) -> Array:
    """The error of a step over what the tolerances allow; it is no part of derivatives."""
    scale = problem.atol + jnp.maximum(abs(y), abs(new)) * problem.rtol
    return norm(lax.stop_gradient(error / scale))


def power(error: Array, order: Any) -> Array:
    """The factor by which a step may grow for an error of this order, infinite for none."""
    positive = error > 0
    return jnp.where(positive, jnp.where(positive, error, 1) ** (-1 / order), jnp.inf)


def chosen(accepted: Array, factor: Array, rejected_before: Array) -> Array:
    """The factor within its limits; a step after one that was rejected does not grow."""
    grown = jnp.minimum(factor, jnp.where(rejected_before, 1, LARGEST_GROWTH))
    return jnp.where(accepted, grown, jnp.maximum(LARGEST_CUT, jnp.minimum(factor, 1)))


def initial_step(problem: Problem, t: Array, y: Array, f: Array, span: Array, order: int) -> Array:
    """A length of the first step, in the direction of the span, by differences of slopes."""
    scale = problem.atol + abs(y) * problem.rtol
    d0, d1 = norm(y / scale), norm(f / scale)
    flat = (d0 < 1e-5) | (d1 < 1e-5)
    h = jnp.where(flat, 1e-6, 0.01 * d0 / jnp.where(d1 == 0, 1, d1))
    h = jnp.minimum(h, abs(span))
    moved = problem.fun(t + h * jnp.sign(span), y + h * jnp.sign(span) * f)
    d2 = norm((moved - f) / scale) / jnp.where(h == 0, 1, h)
    steep = jnp.maximum(d1, d2)
    longer = (0.01 / jnp.where(steep <= 1e-15, 1, steep)) ** (1 / (order + 1))
    longer = jnp.where(steep <= 1e-15, jnp.maximum(1e-6, h * 1e-3), longer)
    return jnp.minimum(jnp.minimum(100 * h, longer), abs(span))
