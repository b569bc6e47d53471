"""Minima of functions of a vector: `minimize`, by BFGS and by L-BFGS.

Source: J. Nocedal and S. J. Wright, "Numerical optimization", 2nd edition, 2006, algorithms 3.5
(the line search), 6.1 (BFGS), 7.4 (L-BFGS).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfn import lax, value_and_grad
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, DTypeError
from tfn.extend import a_function, one_of, rank

METHODS = ("BFGS", "L-BFGS", "l-bfgs-experimental-do-not-rely-on-this")
OPTIONS = {"gtol": 1e-5, "norm": jnp.inf, "maxiter": None, "maxls": 30, "maxcor": 10, "ftol": 0.0}
"""The options and their defaults: the norm of the gradient at which to stop, and which norm; steps
of the method and of a line search; pairs that L-BFGS keeps; the relative change of values at which
to stop."""

SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9
"""The constants of the strong Wolfe conditions."""


class OptimizeResults(NamedTuple):
    """The result of `minimize`.

    Attributes:
        x: the place of the minimum.
        success: whether the gradient is small there.
        status: 0 for success, 1 if there were too many steps, 3 if a line search failed.
        fun: the value there.
        jac: the gradient there.
        hess_inv: the inverse of the Hessian matrix, estimated; None by L-BFGS.
        nfev, njev: the numbers of evaluations, of values and of gradients.
        nit: the number of steps.
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


class _State(NamedTuple):
    x: Array
    value: Array
    slope: Array
    model: Any
    steps: Array
    calls: Array
    failed: Array
    stalled: Array


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """The minimum of a function near a place; may be compiled and batched.

    Args:
        fun: function of a vector, and of `args`, that gives a floating number.
        x0: the first place, a vector.
        args: further arguments.
        method: "BFGS", or "L-BFGS", also by its long name in JAX.
        tol: the norm of the gradient at which to stop; None for that of `options`.
        options: see `OPTIONS`; "maxiter" is 200 times the size of `x0` by default.

    Returns:
        The result.

    Raises:
        ArgumentError: for another method or option.
        ShapeError: unless `x0` is a vector.
        DTypeError: unless it is floating.

    Example:
        >>> import tfn.numpy as tnp
        >>> f = lambda x: ((x - 3) ** 2).sum()
        >>> minimize(f, tnp.zeros(2), method="BFGS").x.round(3).tolist()
        [3.0, 3.0]
    """
    a_function("minimize", "fun", fun)
    is_full = str(method).upper() == "BFGS"  # in letters of any size, as SciPy and JAX take it
    one_of("minimize", "method", "BFGS" if is_full else method, METHODS)
    chosen: dict[str, Any] = {**OPTIONS, **(options or {})}
    unknown = sorted(chosen.keys() - OPTIONS.keys())
    if unknown:
        raise ArgumentError(
            f"minimize has the options {', '.join(OPTIONS)}", got=", ".join(unknown)
        )
    x = jnp.asarray(x0)
    rank("minimize", x, 1, 1)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise DTypeError("minimize needs a floating vector", got=str(x.dtype), hint="x0 * 1.0")
    if tol is not None:
        chosen["gtol"] = tol
    evaluate = value_and_grad(lambda place: fun(place, *args))
    most = chosen["maxiter"] if chosen["maxiter"] is not None else 200 * x.size
    value, slope = evaluate(x)
    count = int(chosen["maxcor"])
    zero = jnp.array(0)
    model: Any = (
        jnp.eye(x.size, dtype=x.dtype)
        if is_full
        else (jnp.zeros((count, x.size), x.dtype),) * 2 + (jnp.zeros(count, x.dtype),)
    )
    no = jnp.array(False)
    start = _State(x, value, slope, model, zero, zero + 1, no, no)

    def size(slope: Array) -> Array:
        return jnp.linalg.norm(slope, chosen["norm"])

    def goes_on(s: _State) -> Any:
        done = s.failed | s.stalled | (size(s.slope) < chosen["gtol"])
        return ~done & (s.steps < most)

    def step(s: _State) -> _State:
        direction = -(s.model @ s.slope) if is_full else -_two_loops(s.slope, *s.model)
        # A direction that does not descend, by rounding, is that of the gradient.
        downhill = direction @ s.slope < 0
        direction = jnp.where(downhill, direction, -s.slope)
        first = jnp.where(s.steps == 0, jnp.minimum(1, 1 / jnp.sqrt(s.slope @ s.slope)), 1)
        a, value, slope, calls, found = _line_search(
            evaluate, s.x, s.value, s.slope, direction, first.astype(s.x.dtype), chosen["maxls"]
        )
        moved = a * direction
        model = (_bfgs if is_full else _remember)(s.model, moved, slope - s.slope)
        kept = value <= s.value
        change = s.value - value
        scale = jnp.maximum(jnp.maximum(abs(value), abs(s.value)), 1)
        return _State(
            jnp.where(kept, s.x + moved, s.x),
            jnp.where(kept, value, s.value),
            jnp.where(kept, slope, s.slope),
            model,
            s.steps + 1,
            s.calls + calls,
            ~found & ~(change > 0),
            found & (change <= chosen["ftol"] * scale) & (chosen["ftol"] > 0),
        )

    s = lax.while_loop(goes_on, step, start)
    small = size(s.slope) < chosen["gtol"]
    success = small | s.stalled
    status = jnp.where(success, 0, jnp.where(s.failed, 3, 1))
    return OptimizeResults(
        s.x,
        success,
        status,
        s.value,
        s.slope,
        s.model if is_full else None,
        s.calls,
        s.calls,
        s.steps,
    )


def _bfgs(h: Array, moved: Array, change: Array) -> Array:
    """The inverse Hessian after a step; the same where the curvature is not positive."""
    curvature = moved @ change
    positive = curvature > 0
    rho = 1 / jnp.where(positive, curvature, 1)
    along = h @ change
    updated = (
        h
        - rho * (jnp.outer(along, moved) + jnp.outer(moved, along))
        + rho * (1 + rho * (change @ along)) * jnp.outer(moved, moved)
    )
    return jnp.where(positive, updated, h)


def _remember(model: Any, moved: Array, change: Array) -> Any:
    """The last pairs of steps and changes of the gradient, the newest last."""
    steps, changes, rhos = model
    curvature = moved @ change
    positive = curvature > 0
    rho = 1 / jnp.where(positive, curvature, 1)
    new = (moved[None], change[None], rho[None])
    return tuple(
        jnp.where(positive, jnp.concatenate([old[1:], one]), old)
        for old, one in zip((steps, changes, rhos), new, strict=True)
    )


def _two_loops(slope: Array, steps: Array, changes: Array, rhos: Array) -> Array:
    """The inverse Hessian times the gradient, by the pairs that are kept: others have rho 0."""

    def back(q: Array, pair: Any) -> tuple[Array, Array]:
        moved, change, rho = pair
        alpha = rho * (moved @ q)
        return q - alpha * change, alpha

    pairs = (steps, changes, rhos)
    q, alphas = lax.scan(back, slope, pairs, reverse=True)
    used = rhos[-1] > 0
    square = changes[-1] @ changes[-1]
    q = q * jnp.where(used, 1 / (rhos[-1] * jnp.where(used, square, 1) + (~used)), 1)

    def forth(r: Array, pair: Any) -> tuple[Array, None]:
        moved, change, rho, alpha = pair
        return r + moved * (alpha - rho * (change @ r)), None

    product: Array = lax.scan(forth, q, (*pairs, alphas))[0]
    return product


def _line_search(
    evaluate: Callable[[Array], tuple[Array, Array]],
    x: Array,
    value: Array,
    slope: Array,
    direction: Array,
    first: Array,
    most: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """A step that meets the strong Wolfe conditions: by doubling, then within a bracket.

    The next place in a bracket is the minimum of the parabola through its lower end, within the
    middle eight tenths.
    """
    incline = direction @ slope

    def goes_on(carry: Any) -> Any:
        return ~carry["done"] & (carry["calls"] < most)

    def step(c: Any) -> Any:
        a = c["a"]
        new, gradient = evaluate(x + a * direction)
        along = gradient @ direction
        high = (new > value + SUFFICIENT_DECREASE * a * incline) | (new >= c["low_value"])
        high = high | ~(new < jnp.inf)
        flat = abs(along) <= -CURVATURE * incline
        done = ~high & flat
        # A place that is better, and falls towards the other end, is the new lower end.
        turned = ~high & (along * (c["high"] - c["low"]) >= 0)
        end = jnp.where(high, a, jnp.where(turned, c["low"], c["high"]))
        low = jnp.where(high, c["low"], a)
        low_value = jnp.where(high, c["low_value"], new)
        low_along = jnp.where(high, c["low_along"], along)
        end_value = jnp.where(high, new, jnp.where(turned, c["low_value"], c["high_value"]))
        width = jnp.where(jnp.isinf(end), 1, end - low)
        bend = end_value - low_value - low_along * width
        valid = (bend > 0) & (bend < jnp.inf)
        part = -low_along * width / (2 * jnp.where(valid, bend, 1))
        part = jnp.where(valid, jnp.clip(part, 0.1, 0.9), 0.5)
        following = jnp.where(jnp.isinf(end), 2 * a, low + part * width)
        best = ~high
        return {
            "a": jnp.where(done, a, following),
            "low": low,
            "low_value": low_value,
            "low_along": low_along,
            "high": end,
            "high_value": end_value,
            "best": jnp.where(best, a, c["best"]),
            "value": jnp.where(best, new, c["value"]),
            "slope": jnp.where(best, gradient, c["slope"]),
            "calls": c["calls"] + 1,
            "done": done,
        }

    zero, infinite = jnp.zeros_like(value), jnp.full_like(value, jnp.inf)
    start = {
        "a": first.astype(value.dtype),
        "low": zero,
        "low_value": value,
        "low_along": incline,
        "high": infinite,
        "high_value": infinite,
        "best": zero,
        "value": value,
        "slope": slope,
        "calls": jnp.array(0),
        "done": jnp.array(False),
    }
    c = lax.while_loop(goes_on, step, start)
    return c["best"], c["value"], c["slope"], c["calls"], c["done"]
