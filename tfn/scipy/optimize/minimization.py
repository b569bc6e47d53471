"""Minima of functions of a vector: `minimize`.

Source: J. Nocedal and S. J. Wright, "Numerical optimization", 2nd edition, 2006, algorithms 3.5
(the line search), 4.3 (trust regions), 6.1 (BFGS), 7.1 (Newton-CG), 7.4 (L-BFGS).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfn import grad, hessian, jvp, lax, value_and_grad, vjp
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, DTypeError
from tfn.extend import a_function, one_of, rank
from tfn.scipy.optimize import constraints as constraint_rows
from tfn.scipy.optimize.residuals import bounds_of, solve_dense

METHODS = (
    *("BFGS", "L-BFGS", "l-bfgs-experimental-do-not-rely-on-this", "L-BFGS-B"),
    *("Newton-CG", "trust-exact", "SLSQP"),
)
BOUNDED = ("L-BFGS-B", "SLSQP")
"""The methods that take bounds."""

FLAT = 2.2e-9
"""The relative change of the value at which L-BFGS-B stops, if no option says another."""

LARGEST_RADIUS, BISECTIONS = 1000.0, 60
"""The largest radius of a step, and bisections for its damping: more than numbers have digits."""

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
        status: 0 for success, 1 if there were too many steps, 3 if a line search failed, 4 if
            constraints contradict each other.
        fun: the value there.
        jac: the gradient there.
        hess_inv: the inverse of the Hessian matrix, estimated; None but by BFGS.
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
    method: str | None = None,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
    bounds: Any = None,
    constraints: Any = (),
) -> OptimizeResults:
    """The minimum of a function near a place; may be compiled and batched.

    Args:
        fun: function of a vector, and of `args`, that gives a floating number.
        x0: the first place, a vector.
        args: further arguments.
        method: "BFGS", or "L-BFGS", also by its long name in JAX; "Newton-CG", by products with
            the Hessian matrix; "trust-exact", by that matrix; "L-BFGS-B" with bounds; "SLSQP" with
            constraints.  None for SLSQP with constraints, else L-BFGS-B with bounds, else BFGS.
        tol: the norm of the gradient at which to stop; None for that of `options`.  For SLSQP the
            accuracy of the value and of constraints, 1e-6 by default.
        options: see `OPTIONS`; "maxiter" is 200 times the size of `x0` by default.
        bounds: a pair of vectors or numbers, the lower and the upper bounds.
        constraints: dicts as in SciPy: "type", which is "eq" for zeros or "ineq" for what is not
            negative, "fun", a function of the vector, and "args".

    Returns:
        The result; `x` and `fun` have derivatives by what `fun` and constraints close over, by
        `args`, and by bounds.

    Raises:
        ArgumentError: for another method or option, and for bounds or constraints that the method
            does not take.
        ShapeError: unless `x0` is a vector.
        DTypeError: unless it is floating.

    Source: J. Nocedal and S. J. Wright, Numerical optimization (2006); see `constraints.py` for
        bounds and constraints.

    Example:
        >>> import tfn.numpy as tnp
        >>> f = lambda x: ((x - 3) ** 2).sum()
        >>> minimize(f, tnp.zeros(2), method="BFGS").x.round(3).tolist()
        [3.0, 3.0]
        >>> even = {"type": "eq", "fun": lambda x: x[0] - 2 * x[1]}
        >>> print(minimize(f, tnp.zeros(2), constraints=even).x.round(2))
        [3.6 1.8]
    """
    a_function("minimize", "fun", fun)
    listed = [constraints] if isinstance(constraints, Mapping) else list(constraints)
    if method is None:
        method = "SLSQP" if listed else "BFGS" if bounds is None else "L-BFGS-B"
    is_full = str(method).upper() == "BFGS"  # in letters of any size, as SciPy and JAX take it
    one_of("minimize", "method", "BFGS" if is_full else method, METHODS)
    if (listed and method != "SLSQP") or (bounds is not None and method not in BOUNDED):
        raise ArgumentError(
            f"{method} takes no {'constraints' if listed else 'bounds'}",
            got="some",
            hint='method="SLSQP"',
        )
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
    value_of: Callable[[Array], Any] = lambda place: fun(place, *args)
    evaluate = value_and_grad(value_of)
    most = chosen["maxiter"] if chosen["maxiter"] is not None else 200 * x.size
    pair = None if bounds is None else bounds_of("minimize", bounds, x)
    if method == "SLSQP":
        accuracy = 1e-6 if tol is None else tol
        return _constrained(evaluate, x, constraint_rows.gathered(listed, pair, x), accuracy, most)
    count = int(chosen["maxcor"])
    memory = (jnp.zeros((count, x.size), x.dtype),) * 2 + (jnp.zeros(count, x.dtype),)

    def find(_: Any, x: Array) -> Any:
        if pair is not None:
            tolerances = (chosen["gtol"], chosen["ftol"] or FLAT)
            end = constraint_rows.projected(
                evaluate, x, pair, memory, _two_loops, _remember, *tolerances, most
            )
            return end.x, (end.status, None, end.calls, end.steps)
        if method == "trust-exact":
            return _trust_region(value_of, x, chosen, most)
        model: Any = jnp.eye(x.size, dtype=x.dtype) if is_full else memory
        model = () if method == "Newton-CG" else model
        return _along_directions(value_of, evaluate, x, model, method, chosen, most)

    def stationary(x: Array) -> Array:
        slope = evaluate(x)[1]
        return slope if pair is None else x - jnp.clip(x - slope, *pair)

    x, (status, inverse, calls, steps) = lax.custom_root(
        stationary, x, find, solve_dense, has_aux=True
    )
    value, slope = evaluate(x)
    return OptimizeResults(x, status == 0, status, value, slope, inverse, calls, calls, steps)


def _constrained(
    evaluate: Callable[[Array], tuple[Array, Array]],
    x: Array,
    constraints: constraint_rows.Constraints,
    accuracy: Any,
    most: Any,
) -> OptimizeResults:
    """The minimum under constraints; multipliers are further unknowns of the implicit function."""
    size = x.size
    count = constraints.values(x).size

    def find(_: Any, start: Array) -> Any:
        end, multipliers = constraint_rows.quadratic_steps(
            evaluate, start[:size], constraints, accuracy, most
        )
        found = jnp.concatenate([end.x, multipliers])
        return found, (end.status, end.calls, end.steps)

    def stationary(both: Array) -> Array:
        place, multipliers = both[:size], both[size:]
        values, pull = vjp(constraints.values, place)
        balance = evaluate(place)[1] - pull(multipliers)[0]
        rest = constraint_rows.complementary(values, multipliers, constraints.equal)
        return jnp.concatenate([balance, rest])

    start = jnp.concatenate([x, jnp.zeros(count, x.dtype)])
    both, (status, calls, steps) = lax.custom_root(
        stationary, start, find, solve_dense, has_aux=True
    )
    x = both[:size]
    value, slope = evaluate(x)
    return OptimizeResults(x, status == 0, status, value, slope, None, calls, calls, steps)


def _along_directions(
    value_of: Callable[[Array], Any],
    evaluate: Callable[[Array], tuple[Array, Array]],
    x: Array,
    model: Any,
    method: str,
    chosen: Mapping[str, Any],
    most: Any,
) -> Any:
    """Steps along directions, of a length that a line search finds."""
    is_full = str(method).upper() == "BFGS"
    value, slope = evaluate(x)
    zero, no = jnp.array(0), jnp.array(False)
    start = _State(x, value, slope, model, zero, zero + 1, no, no)

    def size(slope: Array) -> Array:
        return jnp.linalg.norm(slope, chosen["norm"])

    def goes_on(s: _State) -> Any:
        done = s.failed | s.stalled | (size(s.slope) < chosen["gtol"])
        return ~done & (s.steps < most)

    def step(s: _State) -> _State:
        if is_full:
            direction = -(s.model @ s.slope)
        elif method == "Newton-CG":
            direction = _truncated_newton(value_of, s.x, s.slope)
        else:
            direction = -_two_loops(s.slope, *s.model)
        # A direction that does not descend, by rounding, is that of the gradient.
        downhill = direction @ s.slope < 0
        direction = jnp.where(downhill, direction, -s.slope)
        short = (s.steps == 0) & (method != "Newton-CG")
        first = jnp.where(short, jnp.minimum(1, 1 / jnp.sqrt(s.slope @ s.slope)), 1)
        a, value, slope, calls, found = _line_search(
            evaluate, s.x, s.value, s.slope, direction, first.astype(s.x.dtype), chosen["maxls"]
        )
        moved = a * direction
        model = s.model
        if method != "Newton-CG":
            model = (_bfgs if is_full else _remember)(model, moved, slope - s.slope)
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
    success = (size(s.slope) < chosen["gtol"]) | s.stalled
    status = jnp.where(success, 0, jnp.where(s.failed, 3, 1))
    return s.x, (status, s.model if is_full else None, s.calls, s.steps)


def _truncated_newton(value_of: Callable[[Array], Any], x: Array, slope: Array) -> Array:
    """Newton's direction by conjugate gradients, up to a direction of negative curvature."""
    size = jnp.linalg.norm(slope)
    enough = jnp.minimum(0.5, jnp.sqrt(size)) * size
    gradient = grad(value_of)

    def goes_on(carry: Any) -> Any:
        _, rest, _, stops, n = carry
        return (jnp.linalg.norm(rest) > enough) & ~stops & (n < 20 * x.size)

    def step(carry: Any) -> Any:
        z, rest, p, _, n = carry
        product = jvp(gradient, (x,), (p,))[1]
        curvature = p @ product
        stops = ~(curvature > 3 * jnp.finfo(x.dtype).eps * (p @ p))
        square = rest @ rest
        a = square / jnp.where(stops, 1, curvature)
        after = rest + a * product
        turned = -after + (after @ after) / jnp.where(square == 0, 1, square) * p
        z = jnp.where(stops, jnp.where(n == 0, -slope, z), z + a * p)
        return z, jnp.where(stops, rest, after), turned, stops, n + 1

    start = (jnp.zeros_like(x), slope, -slope, jnp.array(False), jnp.array(0))
    direction: Array = lax.while_loop(goes_on, step, start)[0]
    return direction


def _trust_region(
    value_of: Callable[[Array], Any], x: Array, chosen: Mapping[str, Any], most: Any
) -> Any:
    """Steps that are best by the Hessian matrix within a radius, from its eigenvalues."""
    evaluate, curved = value_and_grad(value_of), hessian(value_of)

    def size(slope: Array) -> Array:
        return jnp.linalg.norm(slope, chosen["norm"])

    def goes_on(carry: Any) -> Any:
        _, _, slope, _, radius, n = carry
        return (size(slope) >= chosen["gtol"]) & (n < most) & (radius > 0)

    def step(carry: Any) -> Any:
        x, value, slope, matrix, radius, n = carry
        p, on_border = _ball_step(matrix, slope, radius)
        predicted = -(slope @ p + p @ (matrix @ p) / 2)
        new, gradient = evaluate(x + p)
        ratio = (value - new) / jnp.where(predicted == 0, 1, predicted)
        ratio = jnp.where(jnp.isfinite(ratio), ratio, -1)
        longer = (ratio > 0.75) & on_border
        length = jnp.linalg.norm(p)
        wider = jnp.where(longer, jnp.minimum(2 * radius, LARGEST_RADIUS), radius)
        radius = jnp.where(ratio < 0.25, 0.25 * length, wider)
        # Below the precision of values a step that the model likes is as good as another.
        noise = 10 * jnp.finfo(x.dtype).eps * (abs(value) + abs(new))
        good = (ratio > 0.1) | (abs(value - new) <= noise) & (size(gradient) < size(slope))
        after = lax.cond(good, lambda: curved(x + p), lambda: matrix)
        radius = jnp.where(length <= jnp.finfo(x.dtype).eps * jnp.linalg.norm(x) / 2, 0, radius)
        place = jnp.where(good, x + p, x)
        value, slope = jnp.where(good, new, value), jnp.where(good, gradient, slope)
        return place, value, slope, after, radius, n + 1

    value, slope = evaluate(x)
    one = jnp.ones((), x.dtype)
    start = (x, value, slope, curved(x), one, jnp.array(0))
    x, _, slope, _, radius, n = lax.while_loop(goes_on, step, start)
    status = jnp.where(size(slope) < chosen["gtol"], 0, jnp.where(radius > 0, 1, 3))
    return x, (status, None, n + 1, n)


def _ball_step(matrix: Array, slope: Array, radius: Array) -> tuple[Array, Array]:
    """The best step within a ball by a quadratic model, and whether it reaches the border."""
    values, vectors = jnp.linalg.eigh(matrix)
    g = slope @ vectors
    tiny = jnp.finfo(slope.dtype).eps * jnp.maximum(abs(values).max(), 1e-300**0.1)
    positive = values[0] > tiny
    newton = -g / jnp.where(positive, values, 1)
    inside = positive & (jnp.linalg.norm(newton) <= radius)
    least = jnp.maximum(0, -values[0])

    def excess(a: Array) -> Array:
        return jnp.linalg.norm(g / jnp.maximum(values + least + a, tiny)) - radius

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = jnp.sqrt(low * high)
        longer = excess(middle) > 0
        return jnp.where(longer, middle, low), jnp.where(longer, high, middle)

    # The damping lies between these, and is halved by its logarithm.
    ends = (tiny, jnp.maximum(jnp.linalg.norm(g) / radius, 2 * tiny))
    _, damping = lax.fori_loop(0, BISECTIONS, halve, ends)
    p = -g / jnp.maximum(values + least + damping, tiny)
    # Where even the least damping is short, the direction of least curvature fills the ball.
    rest = jnp.sqrt(jnp.maximum(radius**2 - p @ p, 0)) * jnp.where(g[0] > 0, -1, 1)
    p = jnp.where(values[0] > tiny, p, p.at[0].add(rest))
    return vectors @ jnp.where(inside, newton, p), ~inside


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
