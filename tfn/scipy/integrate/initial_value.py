"""`solve_ivp`: initial value problems, by one loop over steps of any method.

Steps are chosen by errors, and taken as given by derivatives: these are the exact ones of the
discrete solution, in both modes.  By starts, arguments, what the function closes over, and by
times that are asked for.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import jacfwd, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ConcretizationTypeError, DTypeError, ShapeError
from tfn.extend import a_function, frozen, one_of, operands, rank, shown
from tfn.scipy.integrate import implicit, runge_kutta
from tfn.scipy.integrate.solutions import OdeResult, OdeSolution, cut, polynomial
from tfn.scipy.integrate.step_control import Attempt, Problem, initial_step
from tfn.scipy.optimize.scalar_roots import root_scalar

if TYPE_CHECKING:
    from jaxtyping import Inexact, Real

Event = Callable[..., Any]

SMALLEST_STEP = 10
"""The shortest step, in distances of numbers around the time."""


@frozen
class Method:
    """A way to take steps.

    Attributes:
        start: the memory before the first step.
        attempt: one step.
        order: that decides about the first step.
        powers: coefficients of the polynomial through a step.
    """

    start: Callable[..., Any]
    attempt: Callable[..., Attempt]
    order: int
    powers: int


METHODS = {
    **{
        name: Method(
            runge_kutta.start,
            partial(runge_kutta.attempt, table),
            table.estimate,
            table.polynomial.shape[1] + 1,
        )
        for name, table in runge_kutta.TABLES.items()
    },
    "Radau": Method(implicit.radau_start, implicit.radau, 3, 4),
    "BDF": Method(implicit.bdf_start, implicit.bdf, 1, 6),
}


class _State(NamedTuple):
    """After so many accepted steps; `begin` and `rows` are the time and polynomial of the last."""

    t: Array
    y: Array
    h: Array
    memory: Any
    begin: Array
    rows: Array
    steps: Array
    attempts: Array
    status: Array
    calls: Any
    saved: Any
    events: Any


def solve_ivp(
    fun: Callable[..., Any],
    t_span: tuple[ArrayLike, ArrayLike] | Real[ArrayLike, 2],
    y0: Inexact[ArrayLike, " n"],
    method: str = "RK45",
    t_eval: Real[ArrayLike, " times"] | None = None,
    dense_output: bool = False,
    events: Event | Sequence[Event] | None = None,
    vectorized: bool = False,
    args: tuple[Any, ...] = (),
    *,
    rtol: ArrayLike = 1e-3,
    atol: ArrayLike = 1e-6,
    first_step: ArrayLike | None = None,
    max_step: ArrayLike = math.inf,
    jac: Callable[..., Any] | Inexact[ArrayLike, "n n"] | None = None,
    max_steps: int = 2**14,
    max_events: int = 64,
) -> OdeResult:
    """The solution of ``dy/dt = fun(t, y, *args)`` from a start; compiles, batches, differentiates.

    Args:
        fun: ``fun(t, y, *args)`` gives the slope, a vector like `y`.
        t_span: the first and the last time; time may run backwards.
        y0: the solution at the first time.
        method: "RK23", "RK45" or "DOP853", explicit; "Radau" or "BDF", for stiff equations.
        t_eval: times at which the solution is wanted, in order and within the span; None for those
            of the steps.
        dense_output: whether to return the solution at all times.
        events: functions ``event(t, y, *args)`` whose zeros are wanted.  One with an attribute
            `terminal`, true or a number of zeros, ends the solution; one with a positive or
            negative attribute `direction` counts zeros that it crosses this way.
        vectorized: accepted as in SciPy; there is nothing to gain.
        args: further arguments of `fun`, of `jac` and of events.
        rtol: relative tolerance of a step, a number or a vector.
        atol: absolute tolerance of a step, a number or a vector.
        first_step: the length of the first step; None chooses.
        max_step: the longest step.
        jac: for stiff equations the Jacobian matrix, or ``jac(t, y, *args)``; None for automatic
            differentiation.
        max_steps: the most attempts of a step; the memory of `t`, of `sol` and of reverse mode
            grows with it.
        max_events: the most zeros of one event that are kept.

    Returns:
        The result, with the names of SciPy.

    Raises:
        ArgumentError: for another method.
        ShapeError: unless `y0` and `t_eval` are vectors, and slopes like `y0`.
        DTypeError: unless `y0` is floating or complex; for a complex one and a stiff method.

    Source: E. Hairer, S. Norsett, G. Wanner, Solving ordinary differential equations I (1993) and
        II (1996); L. Shampine, M. Reichelt, The MATLAB ODE suite (1997).

    Example:
        >>> import tfn.numpy as tnp
        >>> times = tnp.array([0.5, 1.0])
        >>> found = solve_ivp(lambda t, y: -y, (0.0, 1.0), tnp.ones(1), t_eval=times)
        >>> print(found.y.round(2), found.success)
        [[0.61 0.37]] True
    """
    a_function("solve_ivp", "fun", fun)
    one_of("solve_ivp", "method", method, tuple(METHODS))
    chosen = METHODS[method]
    y = operands.array_of("solve_ivp", y0)
    rank("solve_ivp", y, 1, 1)
    stiff = chosen.start is not runge_kutta.start
    if not jnp.issubdtype(y.dtype, jnp.floating if stiff else jnp.inexact):
        kinds = "a floating y0" if stiff else "a floating or complex y0"
        raise DTypeError(f"solve_ivp with {method} needs {kinds}", got=shown(y))
    real = y.real.dtype
    first, last = t_span  # type: ignore[misc]
    begin, end = jnp.asarray(first, real), jnp.asarray(last, real)
    span = lax.stop_gradient(end - begin)
    direction = jnp.where(span < 0, -1, 1).astype(real)

    def slope(t: Any, y: Array) -> Array:
        f = jnp.asarray(fun(t, y, *args))
        f = f.reshape(y.shape) if f.size == y.size == 1 else f
        if f.shape != y.shape:
            raise ShapeError("solve_ivp needs slopes like y0", got=shown(f))
        return f.astype(y.dtype)

    def jacobian(t: Any, y: Array) -> Array:
        given = jac(t, y, *args) if callable(jac) else jac
        found = jacfwd(lambda y: slope(t, y))(y) if given is None else jnp.asarray(given)
        return lax.stop_gradient(found.astype(y.dtype))

    floor = 100 * jnp.finfo(real).eps
    tolerances = (jnp.maximum(jnp.asarray(rtol, real), floor), jnp.asarray(atol, real))
    problem = Problem(slope, jacobian, *tolerances)
    listed = [events] if callable(events) else list(events or ())
    for event in listed:
        a_function("solve_ivp", "events", event)

    f = slope(begin, y)
    if first_step is None:
        h = initial_step(problem, begin, y, f, span, chosen.order)
    else:
        h = jnp.minimum(jnp.asarray(first_step, real), abs(span))
    longest = jnp.asarray(max_step, real)
    h = lax.stop_gradient(jnp.minimum(h, longest)) * direction
    memory = chosen.start(problem, begin, y, f, h)

    keeps_times = t_eval is None
    saved: Any = ()
    if keeps_times or dense_output:
        saved = (
            jnp.full(max_steps + 1, jnp.inf, real).at[0].set(begin * direction),
            jnp.zeros((max_steps + 1 if keeps_times else 0, y.size), y.dtype),
            jnp.zeros((max_steps if dense_output else 0, chosen.powers, y.size), y.dtype),
        )
        saved = (saved[0], saved[1].at[0].set(y) if keeps_times else saved[1], saved[2])
    found_events: Any = ()
    if listed:
        count = len(listed)
        found_events = (
            _values(listed, args, jnp.broadcast_to(begin, (count,)), jnp.tile(y, (count, 1))),
            jnp.full((count, max_events), jnp.nan, real),
            jnp.full((count, max_events, y.size), jnp.nan, y.dtype),
            jnp.zeros(count, int),
        )
    zero = jnp.array(0)
    rows = jnp.zeros((chosen.powers, y.size), y.dtype).at[0].set(y)
    status = jnp.where(span == 0, 0, 1 + zero)
    calls = (zero + 1 + (first_step is None), zero + stiff, zero)
    progress = (begin, rows, zero, zero, status, calls)
    start = _State(begin, y, h, memory, *progress, saved, found_events)
    limit = lax.stop_gradient(end)

    def step(s: _State) -> _State:
        rest = limit - s.t
        longest_now = jnp.clip(s.h, -longest, longest)
        last = abs(longest_now) >= abs(rest)
        h = lax.stop_gradient(jnp.where(last, rest, longest_now))
        tried = chosen.attempt(problem, s.t, s.y, h, s.memory)
        good = tried.accepted
        t = s.t + h
        # The end itself, not the sum of steps, which rounds; it moves with the first time.
        t = jnp.where(last, t + lax.stop_gradient(limit - t), t)
        smallest = SMALLEST_STEP * abs(jnp.nextafter(s.t, s.t + direction) - s.t)
        following = lax.stop_gradient(h * tried.factor)
        # After a step that was cut off by the end only there are no others.
        stuck = ~good & (abs(following) < lax.stop_gradient(smallest))
        status = jnp.where(stuck | ~jnp.isfinite(following), -1, jnp.where(good & last, 0, 1))
        y = jnp.where(good, tried.y, s.y)
        new = _State(
            jnp.where(good, t, s.t),
            y,
            following,
            tried.memory,
            jnp.where(good, s.t, s.begin),
            jnp.where(good, tried.rows, s.rows),
            s.steps + good,
            s.attempts + 1,
            status,
            tuple(a + b for a, b in zip(s.calls, tried.calls, strict=True)),
            s.saved,
            s.events,
        )
        if listed:
            new = _with_events(listed, args, new, good, direction)
        if saved:
            new = new._replace(saved=_save(new, good, direction))
        return new

    def unfinished(s: _State) -> Any:
        return (s.status == 1) & (s.attempts < max_steps)

    if keeps_times:
        s = lax.while_loop(unfinished, step, start, max_steps=max_steps)
        times, ys = s.saved[0] * direction, s.saved[1]
    else:
        wanted = jnp.asarray(t_eval, real)
        if wanted.ndim != 1:
            raise ShapeError("solve_ivp needs times along one axis", got=shown(wanted))

        def to_time(s: _State, target: Array) -> tuple[_State, Array]:
            def before(s: _State) -> Any:
                return unfinished(s) & (s.t * direction < target * direction)

            s = lax.while_loop(before, step, s, max_steps=max_steps)
            width = lax.stop_gradient(s.t - s.begin)
            part = (target - s.begin) / jnp.where(width == 0, 1, width)
            y = polynomial(s.rows, part.astype(y_kind))
            reached = s.t * direction >= target * direction
            return s, jnp.where(reached, y, jnp.nan)

        y_kind = y.dtype
        s, ys = lax.scan(to_time, start, wanted)
        s = lax.while_loop(unfinished, step, s, max_steps=max_steps)
        times = wanted
    status = jnp.where(s.status == 1, -1, jnp.where(s.status == 2, 1, s.status))
    steps = _known(s.steps)
    if keeps_times:
        times, ys = cut(steps + 1, times, ys)
    else:
        reached = times * direction <= s.t * direction
        count = _known(reached.sum())
        times, ys = (times[:count], ys[:count]) if isinstance(count, int) else (times, ys)
    sol = None
    if dense_output:
        ts, rows = s.saved[0] * direction, s.saved[2]
        if isinstance(steps, int):
            ts, rows = ts[: steps + 1], rows[:steps]
        sol = OdeSolution(ts, rows, direction)
    t_events, y_events = None, None
    if listed:
        _, event_times, event_ys, counts = s.events
        found_numbers = [_known(n) for n in counts]
        t_events, y_events = (
            [x[i, :n] if isinstance(n, int) else x[i] for i, n in enumerate(found_numbers)]
            for x in (event_times, event_ys)
        )
    nfev, njev, nlu = s.calls
    numbers = (nfev, njev, nlu, status, status >= 0)
    return OdeResult(times, ys.T, sol, t_events, y_events, *numbers)


def _known(count: Array) -> Any:
    """The number, if it is known: outside of `tfn.jit`."""
    try:
        return int(count)
    except ConcretizationTypeError:
        return count


def _save(s: _State, good: Array, direction: Array) -> Any:
    """The buffers with the time, the solution and the polynomial of a step."""
    times, ys, rows = s.saved
    n = jnp.where(good, s.steps, times.shape[0])  # beyond the end, where nothing is written
    times = times.at[n].set(s.t * direction, mode="drop")
    ys = ys.at[n].set(s.y, mode="drop") if ys.shape[0] else ys
    rows = rows.at[n - 1].set(s.rows, mode="drop") if rows.shape[0] else rows
    return times, ys, rows


def _values(listed: Sequence[Event], args: tuple[Any, ...], t: Array, y: Array) -> Array:
    """The value of each event at its own time."""
    found = [jnp.asarray(g(t[i], y[i], *args)).reshape(()) for i, g in enumerate(listed)]
    if any(jnp.iscomplexobj(x) for x in found):
        raise ArgumentError("events are real numbers", got="a complex one")
    return jnp.stack([x.astype(t.dtype) for x in found])


def _with_events(
    listed: Sequence[Event], args: tuple[Any, ...], s: _State, good: Array, direction: Array
) -> _State:
    """The state with the zeros of events within the last step, up to the first that ends all."""
    before, times, ys, counts = s.events
    count, most = times.shape
    limits = [getattr(g, "terminal", None) or 0 for g in listed]
    ways = jnp.array([float(getattr(g, "direction", 0)) for g in listed])
    width = lax.stop_gradient(s.t - s.begin)

    def at(t: Array) -> Array:
        part = (t - s.begin) / jnp.where(width == 0, 1, width)
        return jnp.stack([polynomial(s.rows, x.astype(s.y.dtype)) for x in part])

    now = _values(listed, args, jnp.broadcast_to(s.t, (count,)), jnp.tile(s.y, (count, 1)))
    up, down = (before <= 0) & (now >= 0), (before >= 0) & (now <= 0)
    active = good & (up & (ways >= 0) | down & (ways <= 0)) & ~((before == 0) & (now == 0))

    def located() -> Any:
        def value(t: Array) -> Array:
            # Others are a line with its zero at the end of the step.
            return jnp.where(active, _values(listed, args, t, at(t)), t - s.t)

        eps = 4 * jnp.finfo(s.t.dtype).eps
        bracket = (jnp.broadcast_to(s.begin, (count,)), jnp.broadcast_to(s.t, (count,)))
        return _bracket_root(value, bracket, eps)

    roots = lax.cond(active.any(), located, lambda: jnp.broadcast_to(s.t, (count,)))
    ordered = jnp.where(active, roots * direction, jnp.inf)
    stops = jnp.array([int(x) for x in limits])
    ends = active & (stops > 0) & (counts + 1 >= stops)
    first = jnp.where(ends, ordered, jnp.inf).min()
    kept = active & (ordered <= first)
    place = jnp.where(kept, counts, most)
    each = jnp.arange(count)
    places = at(roots)
    times = times.at[each, place].set(roots, mode="drop")
    ys = ys.at[each, place].set(places, mode="drop")
    stopped = jnp.isfinite(first)
    chosen = jnp.where(ends, ordered, jnp.inf).argmin()
    return s._replace(
        t=jnp.where(stopped, roots[chosen], s.t),
        y=jnp.where(stopped, places[chosen], s.y),
        status=jnp.where(stopped, 2, s.status),
        events=(jnp.where(good, now, before), times, ys, counts + kept),
    )


def _bracket_root(value: Callable[[Array], Array], bracket: Any, eps: Any) -> Array:
    found = root_scalar(value, method="brentq", bracket=bracket, xtol=float(eps), rtol=float(eps))
    root: Array = found.root
    return root
