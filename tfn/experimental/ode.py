"""`odeint`: ordinary differential equations by an adaptive Runge-Kutta method, with adjoints.

Sources: Dormand and Prince, A family of embedded Runge-Kutta formulae (1980); Hairer, Norsett and
Wanner, Solving Ordinary Differential Equations I, section II.4 (steps) and II.6 (dense output);
Chen, Rubanova, Bettencourt and Duvenaud, Neural ordinary differential equations (2018), appendix B
(the adjoint equation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tfn import closure_convert, custom_vjp, jit, lax, tree, vjp
from tfn import numpy as tnp
from tfn.dtypes import INEXACT
from tfn.errors import DTypeError, ShapeError
from tfn.extend import a_function
from tfn.flatten_util import ravel_pytree

Function = Callable[..., Any]

# fmt: off
STAGES = np.array([0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1])
WEIGHTS = np.array([
    [1 / 5, 0, 0, 0, 0, 0, 0],
    [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
    [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
])
SOLUTION = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
ERROR = SOLUTION - np.array([
    1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60])
MIDDLE = np.array([
    6025192743 / 30085553152, 0, 51252292925 / 65400821598, -2691868925 / 45128329728,
    187940372067 / 1594534317056, -1776094331 / 19743644256, 11237099 / 235043384]) / 2
# fmt: on
"""The tableau of Dormand and Prince, its error estimate, and the middle of a step."""

SAFETY, LARGEST_GROWTH, LARGEST_CUT = 0.9, 10.0, 0.2
"""A step is a little smaller than the error allows; from one to the next it changes by factors."""


def interp_fit_dopri(y0: Any, y1: Any, k: Any, dt: Any) -> list[Any]:
    """The polynomial of fourth degree through a step: see `fit_4th_order_polynomial`.

    Args:
        y0, y1: the solution before and after the step.
        k: slopes at its stages, one row each.
        dt: its length.

    Example:
        >>> import tfn.numpy as tnp
        >>> fit = interp_fit_dopri(tnp.zeros(1), tnp.ones(1), tnp.ones((7, 1)), 1.0)
        >>> round(sum(float(c[0]) * 0.5**n for c, n in zip(fit, (4, 3, 2, 1, 0))), 3)
        0.5
    """
    middle = y0 + dt * tnp.dot(_constant(MIDDLE, k), k)
    return fit_4th_order_polynomial(y0, y1, middle, k[0], k[-1], dt)


def fit_4th_order_polynomial(
    y0: Any, y1: Any, y_mid: Any, dy0: Any, dy1: Any, dt: Any
) -> list[Any]:
    """The coefficients, highest power first, of a polynomial on [0, 1].

    Args:
        y0, y1, y_mid: its values at 0, 1 and 1/2.
        dy0, dy1: its slopes at 0 and 1, over a step of length dt.
        dt: the length.

    Example:
        >>> fit_4th_order_polynomial(0.0, 1.0, 0.0625, 0.0, 4.0, 1.0)
        [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    a = -2.0 * dt * dy0 + 2.0 * dt * dy1 - 8.0 * y0 - 8.0 * y1 + 16.0 * y_mid
    b = 5.0 * dt * dy0 - 3.0 * dt * dy1 + 18.0 * y0 + 14.0 * y1 - 32.0 * y_mid
    c = -4.0 * dt * dy0 + dt * dy1 - 11.0 * y0 - 5.0 * y1 + 16.0 * y_mid
    return [a, b, c, dt * dy0, y0]


def _polynomial(rows: Any, x: Any) -> Any:
    """The polynomials whose coefficients are rows, highest power first, at a point."""
    total = rows[0]
    for row in rows[1:]:
        total = total * x + row
    return total


def _constant(values: Any, like: Any) -> Any:
    return tnp.asarray(np.asarray(values), like.dtype)


def initial_step_size(
    fun: Function, t0: Any, y0: Any, order: int, rtol: Any, atol: Any, f0: Any
) -> Any:
    """A first step after Hairer, Norsett and Wanner, section II.4.

    Args:
        fun: ``fun(y, t)``, the slope.
        t0, y0, f0: the start, the solution and its slope there.
        order: of the method.
        rtol, atol: tolerances.

    Example:
        >>> import tfn.numpy as tnp
        >>> y0 = tnp.ones(1)
        >>> float(initial_step_size(lambda y, t: -y, 0.0, y0, 4, 1e-4, 1e-4, -y0)) > 0
        True
    """
    real = tnp.real(y0).dtype
    scale = (atol + tnp.abs(y0) * rtol).astype(real)
    d0 = tnp.linalg.norm(y0 / scale)
    d1 = tnp.linalg.norm(f0 / scale)
    h0 = tnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / tnp.where(d1 == 0, 1, d1))
    y1 = y0 + h0.astype(y0.dtype) * f0
    f1 = fun(y1, t0 + h0)
    d2 = tnp.linalg.norm((f1 - f0) / scale) / h0
    steepest = tnp.maximum(d1, d2)
    small = steepest <= 1e-15
    h1 = tnp.where(
        small,
        tnp.maximum(1e-6, h0 * 1e-3),
        (0.01 / tnp.where(small, 1, steepest)) ** (1.0 / (order + 1.0)),
    )
    return tnp.minimum(100.0 * h0, h1)


def runge_kutta_step(func: Function, y0: Any, f0: Any, t0: Any, dt: Any) -> tuple[Any, ...]:
    """One step of Dormand and Prince.

    Args:
        func: ``func(y, t)``, the slope.
        y0, f0, t0: the solution, its slope, and the time.
        dt: the length of the step.

    Returns:
        The solution after it, its slope, an estimate of the error, the slopes at the stages.

    Example:
        >>> import tfn.numpy as tnp
        >>> y, _, error, _ = runge_kutta_step(lambda y, t: -y, tnp.ones(1), -tnp.ones(1), 0.0, 0.1)
        >>> round(float(y[0]), 5), abs(float(error[0])) < 1e-6
        (0.90484, True)
    """
    slopes = [f0]
    h = tnp.asarray(dt).astype(tnp.real(y0).dtype)
    for weights, stage in zip(WEIGHTS, STAGES[1:], strict=True):
        used = _constant(weights[: len(slopes)], f0)
        y = y0 + h * tnp.dot(used, tnp.stack(slopes))
        slopes.append(func(y, t0 + dt * float(stage)))
    k = tnp.stack(slopes)
    y1 = y0 + h * tnp.dot(_constant(SOLUTION, k), k)
    return y1, k[-1], h * tnp.dot(_constant(ERROR, k), k), k


def abs2(x: Any) -> Any:
    """The square of the absolute value.

    Example:
        >>> float(abs2(3 + 4j))
        25.0
    """
    x = tnp.asarray(x)
    if tnp.iscomplexobj(x):
        return tnp.real(x) ** 2 + tnp.imag(x) ** 2
    return x**2


def mean_error_ratio(error_estimate: Any, rtol: Any, atol: Any, y0: Any, y1: Any) -> Any:
    """The root of the mean square of errors over what the tolerances allow: a good step is <= 1.

    Args:
        error_estimate: of a step.
        rtol, atol: tolerances.
        y0, y1: the solution before and after it.

    Example:
        >>> import tfn.numpy as tnp
        >>> one = tnp.ones(2)
        >>> round(float(mean_error_ratio(1e-3 * one, 1e-3, 0.0, one, one)), 6)
        1.0
    """
    allowed = atol + rtol * tnp.maximum(tnp.abs(y0), tnp.abs(y1))
    return tnp.sqrt(tnp.mean(abs2(error_estimate / allowed.astype(error_estimate.dtype))))


def optimal_step_size(
    last_step: Any,
    mean_error_ratio: Any,
    safety: float = SAFETY,
    ifactor: float = LARGEST_GROWTH,
    dfactor: float = LARGEST_CUT,
    order: float = 5.0,
) -> Any:
    """The next step, for an error that the tolerances just allow.

    Args:
        last_step: the length of the step.
        mean_error_ratio: its error over what is allowed.
        safety: a factor below one.
        ifactor, dfactor: the largest growth and the largest cut.
        order: of the method.

    Example:
        >>> round(float(optimal_step_size(1.0, 0.9**5)), 5)
        1.0
    """
    least = tnp.where(mean_error_ratio < 1, 1.0, dfactor)
    ratio = tnp.where(mean_error_ratio == 0, 1, mean_error_ratio)
    factor = tnp.minimum(ifactor, tnp.maximum(ratio ** (-1.0 / order) * safety, least))
    return tnp.where(mean_error_ratio == 0, last_step * ifactor, last_step * factor)


def odeint(
    func: Function,
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """The solution of ``dy/dt = func(y, t, *args)`` at given times.

    Steps of Dormand and Prince, as long as the error allows, in one compiled loop; times between
    them are interpolated.  Gradients solve the adjoint equation backwards, so that their memory
    does not grow with the number of steps: to y0, to the times, to the arguments, and to what
    `func` closes over.

    Args:
        func: ``func(y, t, *args)`` gives the slope, a tree like y0.
        y0: the solution at ``t[0]``, a tree of floating or complex arrays.
        t: times, in order, one axis.
        args: further arguments of `func`, trees of arrays.
        rtol, atol: relative and absolute tolerances of a step.
        mxstep: the largest number of steps between two times; results are then not accurate.
        hmax: the longest step.

    Returns:
        A tree like y0, each array with an axis of times in front.

    Raises:
        ShapeError: if the times have not one axis.
        DTypeError: for a solution of integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> y = odeint(lambda y, t: -y, 1.0, tnp.array([0.0, 1.0, 2.0]), rtol=1e-5, atol=1e-5)
        >>> [round(float(x), 3) for x in y]
        [1.0, 0.368, 0.135]
        >>> import tfn
        >>> slope = tfn.grad(lambda k: odeint(lambda y, t, k: -k * y, 1.0, tnp.array([0.0, 1.0]), k,
        ...                                   rtol=1e-5, atol=1e-5)[-1])
        >>> round(float(slope(1.0)), 3)
        -0.368
    """
    a_function("odeint", "func", func)
    t = tnp.asarray(t)
    if t.ndim != 1 or not t.size:
        raise ShapeError("odeint needs times along one axis", got=f"t of shape {t.shape}")
    leaves = [tnp.asarray(x) for x in tree.leaves(y0)]
    wrong = [x for x in leaves if x.dtype not in INEXACT]
    if wrong:
        raise DTypeError(
            "odeint needs a floating or complex solution",
            got=f"y0 with {wrong[0].dtype.name}",
            hint="use .astype('float32')",
        )
    y0 = tree.map(tnp.asarray, y0)
    t = t if t.dtype in INEXACT else t.astype(tnp.real(leaves[0]).dtype if leaves else "float32")
    args = tree.map(tnp.asarray, args)
    closed, captured = closure_convert(func, y0, t[0], *args)
    return jit(partial(_solved, closed, rtol, atol, mxstep, hmax))(y0, t, *args, *captured)


def _solved(
    func: Function,
    rtol: float,
    atol: float,
    mxstep: float,
    hmax: float,
    y0: Any,
    t: Any,
    *args: Any,
) -> Any:
    """The solution of a function that closes over nothing."""
    flat, unravel = ravel_pytree(y0)
    out = _flat_solution(ravel_first_arg(func, unravel), rtol, atol, mxstep, hmax, flat, t, *args)
    return _stacked(out, y0)


def _stacked(rows: Any, like: Any) -> Any:
    """The tree of each row, stacked."""
    leaves, structure = tree.flatten(like)
    found, at = [], 0
    for x in leaves:
        part = rows[:, at : at + x.size].reshape(rows.shape[0], *x.shape)
        found.append(part.astype(x.dtype) if x.dtype == part.dtype else _narrowed(part, x.dtype))
        at += x.size
    return tree.unflatten(structure, found)


def _narrowed(x: Any, dtype: Any) -> Any:
    """A part of a raveled tree in its own dtype, which may be real where others are complex."""
    real = tnp.iscomplexobj(x) and np.dtype(dtype).kind != "c"
    return (tnp.real(x) if real else x).astype(dtype)


def ravel_first_arg(f: Function, unravel: Function) -> Function:
    """A function whose first argument and result are vectors instead of trees.

    Args:
        f: of a tree, and other arguments, with a result like it.
        unravel: makes the tree of a vector.

    Example:
        >>> from tfn.flatten_util import ravel_pytree
        >>> flat, unravel = ravel_pytree({"a": 1.0, "b": 2.0})
        >>> ravel_first_arg(lambda tree: {"a": tree["b"], "b": tree["a"]}, unravel)(flat).tolist()
        [2.0, 1.0]
    """

    def of_vector(y: Any, *args: Any) -> Any:
        flat, _ = ravel_pytree(f(unravel(y), *args))
        return flat.astype(y.dtype)

    return of_vector


@partial(custom_vjp, nondiff_argnums=(0, 1, 2, 3, 4))
def _flat_solution(
    func: Function,
    rtol: float,
    atol: float,
    mxstep: float,
    hmax: float,
    y0: Any,
    t: Any,
    *args: Any,
) -> Any:
    """The solution, one row for each time, of a function of a vector."""

    def slope(y: Any, t: Any) -> Any:
        return func(y, t, *args)

    f0 = slope(y0, t[0])
    dt = tnp.clip(initial_step_size(slope, t[0], y0, 4, rtol, atol, f0), 0.0, hmax)
    dt = dt.astype(t.dtype)

    def to_time(carry: Any, target: Any) -> Any:
        def step(state: Any) -> Any:
            i, y, f, now, dt, last, fit = state
            new, slope_there, error, k = runge_kutta_step(slope, y, f, now, dt.astype(now.dtype))
            later = now + dt
            ratio = mean_error_ratio(error, rtol, atol, y, new)
            fitted = tnp.stack(interp_fit_dopri(y, new, k, dt.astype(y.dtype)))
            next_dt = tnp.clip(optimal_step_size(dt, ratio), 0.0, hmax).astype(dt.dtype)
            good = (i + 1, new, slope_there, later, next_dt, now, fitted.astype(fit.dtype))
            bad = (i + 1, y, f, now, next_dt, last, fit)
            return tuple(tnp.where(ratio <= 1.0, a, b) for a, b in zip(good, bad, strict=True))

        def unfinished(state: Any) -> Any:
            i, now, dt = state[0], state[3], state[4]
            return (now < target) & (i < mxstep) & (dt > 0)

        state = lax.while_loop(unfinished, step, (0, *carry))
        _, *carry = state
        now, last, fit = carry[2], carry[4], carry[5]
        width = now - last
        where = tnp.where(width == 0, 0.0, (target - last) / tnp.where(width == 0, 1, width))
        return carry, _polynomial(fit, where.astype(fit.dtype))

    fit = tnp.stack([*[tnp.zeros_like(y0)] * 4, y0])
    _, ys = lax.scan(to_time, [y0, f0, t[0], dt, t[0], fit], t[1:])
    return tnp.concatenate([y0[None], ys])


def _forward(
    func: Function,
    rtol: float,
    atol: float,
    mxstep: float,
    hmax: float,
    y0: Any,
    t: Any,
    *args: Any,
) -> Any:
    ys = _flat_solution(func, rtol, atol, mxstep, hmax, y0, t, *args)
    return ys, (ys, t, args)


def _backward(
    func: Function, rtol: float, atol: float, mxstep: float, hmax: float, kept: Any, cts: Any
) -> Any:
    """The adjoint equation from the last time to the first, with the solution solved backwards."""
    ys, t, args = kept
    leaves, structure = tree.flatten(args)
    moving = [i for i, x in enumerate(leaves) if x.dtype in INEXACT]

    def with_moving(some: Sequence[Any]) -> Any:
        filled = list(leaves)
        for i, x in zip(moving, some, strict=True):
            filled[i] = x
        return tree.unflatten(structure, filled)

    def augmented(state: Any, minus_t: Any, *some: Any) -> Any:
        y, ct, _, _ = state
        slope = lambda y, t, *some: func(y, t, *with_moving(some))
        value, pull = vjp(slope, y, -minus_t, *some)
        ct_y, ct_t, *rest = pull(ct)
        return -value, ct_y, ct_t, tuple(rest)

    numbers = tuple(leaves[i] for i in moving)

    def between(carry: Any, i: Any) -> Any:
        ct, ct_t0, cts_of_args = carry
        here = func(ys[i], t[i], *args)
        ct_t = tnp.real(tnp.dot(here, cts[i])).astype(t.dtype)
        state = (ys[i], ct, ct_t0 - ct_t, cts_of_args)
        times = tnp.stack([-t[i], -t[i - 1]])
        solved = _solved(augmented, rtol, atol, mxstep, hmax, state, times, *numbers)
        _, ct, ct_t0, cts_of_args = tree.map(lambda x: x[1], solved)
        return (ct + cts[i - 1], ct_t0, cts_of_args), ct_t

    last = t.shape[0] - 1
    start = (cts[last], tnp.zeros((), t.dtype), tree.map(tnp.zeros_like, numbers))
    (ct, ct_t0, found), ct_ts = lax.scan(between, start, tnp.arange(last, 0, -1))
    back: list[Any] = [None] * len(leaves)
    for i, x in zip(moving, found, strict=True):
        back[i] = x
    cts_of_args = tree.unflatten(structure, back)
    return (ct, tnp.concatenate([ct_t0[None], tnp.flip(ct_ts, 0)]), *cts_of_args)


_flat_solution.defvjp(_forward, _backward)
