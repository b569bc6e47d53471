"""Roots of functions of one number: `root_scalar`, `brentq` and others; arrays of places at once.

Every function of a place may be one of an array of places, element by element; then all elements
are searched together, until the last one is found.  Derivatives are those of implicit functions.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfn import eval_shape, jvp, lax, tree
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, TracerBoolConversionError
from tfn.extend import a_function, one_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Function = Callable[..., Any]


class RootResults(NamedTuple):
    """The result of `root_scalar`.

    Attributes:
        root: the place; NaN where the bracket holds no change of sign.
        converged: whether it is within the tolerances.
        iterations: steps of the method.
        function_calls: evaluations of the function.
    """

    root: Float[Array, "*places"]
    converged: Bool[Array, "*places"]
    iterations: Int[Array, ""]
    function_calls: Int[Array, ""]


class _Brent(NamedTuple):
    """A bracket from `x` to `other`, with the place before `x` and the last two steps."""

    before: Array
    f_before: Array
    x: Array
    f: Array
    other: Array
    f_other: Array
    last: Array
    step: Array
    n: Array


def _safe(over: Array, under: Array) -> Array:
    """A quotient, infinite where the divisor is 0."""
    return jnp.where(under == 0, jnp.inf, over / jnp.where(under == 0, 1, under))


def _ordered(s: _Brent) -> _Brent:
    """The same bracket, with a change of sign between the ends, and the better one as `x`."""
    crossed = (s.f_before != 0) & (s.f != 0) & (jnp.sign(s.f_before) != jnp.sign(s.f))
    other, f_other = (
        jnp.where(crossed, s.before, s.other),
        jnp.where(crossed, s.f_before, s.f_other),
    )
    width = s.x - s.before
    last, step = jnp.where(crossed, width, s.last), jnp.where(crossed, width, s.step)
    worse = abs(f_other) < abs(s.f)
    return _Brent(
        jnp.where(worse, s.x, s.before),
        jnp.where(worse, s.f, s.f_before),
        jnp.where(worse, other, s.x),
        jnp.where(worse, f_other, s.f),
        jnp.where(worse, s.x, other),
        jnp.where(worse, s.f, f_other),
        last,
        step,
        s.n,
    )


def _interpolated(s: _Brent) -> Array:
    """The step to the root of the line, or of the inverse parabola, through the places known."""
    line = -_safe(s.f * (s.x - s.before), s.f - s.f_before)
    first = _safe(s.f_before - s.f, s.before - s.x)
    second = _safe(s.f_other - s.f, s.other - s.x)
    over = s.f * (s.f_other * second - s.f_before * first)
    curve = -_safe(over, second * first * (s.f_other - s.f_before))
    return jnp.where(s.before == s.other, line, curve)


def _bracketed(
    f: Function, a: Array, b: Array, xtol: Any, rtol: Any, most: int, bisects: bool
) -> Any:
    """Brent's method, or bisection, on all elements, until all are found."""

    def found(s: _Brent) -> tuple[Array, Array, Array]:
        allowed = (xtol + rtol * abs(s.x)) / 2
        half = (s.other - s.x) / 2
        return (s.f == 0) | (abs(half) < allowed) | jnp.isnan(s.f), allowed, half

    def goes_on(s: _Brent) -> Any:
        return ~found(s)[0].all() & (s.n < most)

    def step(s: _Brent) -> _Brent:
        done, allowed, half = found(s)
        attempt = half if bisects else _interpolated(s)
        useful = (abs(s.last) > allowed) & (abs(s.f) < abs(s.f_before))
        limit = jnp.minimum(abs(s.last), 3 * abs(half) - allowed)
        useful = useful & (2 * abs(attempt) < limit)
        last, move = jnp.where(useful, s.step, half), jnp.where(useful, attempt, half)
        smallest = jnp.where(half > 0, allowed, -allowed)
        x = s.x + jnp.where(abs(move) > allowed, move, smallest)
        new = _ordered(_Brent(s.x, s.f, x, f(x), s.other, s.f_other, last, move, s.n + 1))
        kept: _Brent = tree.map(lambda old, now: jnp.where(done, old, now), s, new)
        return kept._replace(n=new.n)

    zero = jnp.zeros_like(a)
    fa, fb = f(a), f(b)
    start = _Brent(a, fa, b, fb, a, fa, zero, zero, jnp.array(0))
    end = lax.while_loop(goes_on, step, _ordered(start))
    valid = (jnp.sign(fa) * jnp.sign(fb) <= 0) & ~jnp.isnan(end.f)
    return jnp.where(valid, end.x, jnp.nan), (found(end)[0] & valid, end.n, end.n + 2)


def _newton(slopes: Function, x: Array, xtol: Any, rtol: Any, most: int) -> Any:
    """Newton's method, or Halley's: `slopes` gives value and one or two derivatives."""

    def goes_on(carry: Any) -> Any:
        _, done, n = carry
        return ~done.all() & (n < most)

    def step(carry: Any) -> Any:
        x, done, n = carry
        value, slope, *bend = slopes(x)
        move = _safe(value, slope)
        if bend:
            factor = 1 - move * _safe(bend[0], slope) / 2
            move = jnp.where(abs(factor) > 0, _safe(move, factor), move)
        new = jnp.where(done, x, x - move)
        return new, done | (abs(move) <= xtol + rtol * abs(new)) | (value == 0), n + 1

    start = (x, jnp.zeros(x.shape, bool), jnp.array(0))
    x, done, n = lax.while_loop(goes_on, step, start)
    valid = done & jnp.isfinite(x)
    return x, (valid, n, n)


def _secant(f: Function, a: Array, b: Array, xtol: Any, rtol: Any, most: int) -> Any:
    """The secant method."""

    def goes_on(carry: Any) -> Any:
        *_, done, n = carry
        return ~done.all() & (n < most)

    def step(carry: Any) -> Any:
        a, fa, b, fb, done, n = carry
        move = _safe(fb * (b - a), fb - fa)
        new = jnp.where(done | (fb == 0), b, b - move)
        done = done | (abs(new - b) <= xtol + rtol * abs(new))
        return b, fb, new, f(new), done, n + 1

    start = (a, f(a), b, f(b), jnp.zeros(a.shape, bool), jnp.array(0))
    *_, x, _, done, n = lax.while_loop(goes_on, step, start)
    return x, (done & jnp.isfinite(x), n, n + 2)


METHODS = ("brentq", "bisect", "newton", "halley", "secant")


def _places(f: Function, *given: ArrayLike) -> list[Array]:
    """The places in the shape of values of `f`, and in one floating dtype."""
    kind = jnp.promote_types(jnp.result_type(*given), "float32")
    arrays = jnp.broadcast_arrays(*[jnp.asarray(x, kind) for x in given])
    value = eval_shape(f, arrays[0])
    shape = jnp.broadcast_shapes(value.shape, arrays[0].shape)
    kind = jnp.promote_types(value.dtype, arrays[0].dtype)
    return [jnp.broadcast_to(x, shape).astype(kind) for x in arrays]


def root_scalar(
    f: Function,
    args: tuple[Any, ...] = (),
    method: str | None = None,
    bracket: tuple[ArrayLike, ArrayLike] | None = None,
    fprime: Function | None = None,
    fprime2: Function | None = None,
    x0: Float[ArrayLike, "*places"] | None = None,
    x1: Float[ArrayLike, "*places"] | None = None,
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
) -> RootResults:
    """The root of a function of one number; of arrays, one for each element.

    Args:
        f: ``f(x, *args)`` gives a number; of an array of places, one for each.
        args: further arguments.
        method: "brentq" and "bisect" within a bracket, "newton", "halley" or "secant" from a place;
            None for the first that the arguments allow.
        bracket: two places where `f` has different signs.
        fprime: the derivative; None for automatic differentiation.
        fprime2: the second one, for "halley".
        x0: the first place.
        x1: the second place of "secant"; None for one nearby.
        xtol: absolute tolerance of the root.
        rtol: relative tolerance; never less than the precision of numbers allows.
        maxiter: the most steps.

    Returns:
        The result; the root has derivatives by what `f` closes over, and by `args`.

    Raises:
        ArgumentError: for another method, without the places it needs, or where values at the
            bracket, if known, have one sign; within `tfn.jit` the root is NaN.

    Source: R. Brent, Algorithms for minimization without derivatives (1973), chapter 4.

    Example:
        >>> root_scalar(lambda x: x**3 - 8.0, bracket=(0.0, 5.0)).root.round(4).item()
        2.0
        >>> root_scalar(lambda x: x**3 - 8.0, x0=1.0).root.round(4).item()
        2.0
    """
    a_function("root_scalar", "f", f)
    if method is None:
        method = "brentq" if bracket is not None else "secant" if x1 is not None else "newton"
    one_of("root_scalar", "method", method, METHODS)
    needed = bracket if method in METHODS[:2] else x0
    if needed is None:
        needs = "a bracket" if method in METHODS[:2] else "x0"
        raise ArgumentError(f'root_scalar needs {needs} for "{method}"', got="None")
    raw: Function = lambda x: jnp.asarray(f(x, *args))
    value: Function = lambda x: raw(x).astype(x.dtype)
    if method in METHODS[:2]:
        places = _places(raw, *bracket)  # type: ignore[misc]
        _check_signs(*[value(x) for x in places])
    elif method == "secant":
        first = jnp.asarray(x0)
        step = 1e-4 * (1 + abs(first))
        places = _places(raw, first, first + step if x1 is None else x1)
    else:
        places = _places(raw, x0)  # type: ignore[arg-type]
    precision = jnp.maximum(rtol, 4 * jnp.finfo(places[0].dtype).eps)

    def slopes(value: Function) -> Function:
        def derive(g: Function) -> Function:
            return lambda x: jvp(g, (x,), (jnp.ones_like(x),))[1]

        first: Function = derive(value) if fprime is None else lambda x: fprime(x, *args)
        if method == "newton":
            return lambda x: (value(x), first(x))
        second: Function = derive(first) if fprime2 is None else lambda x: fprime2(x, *args)
        return lambda x: (value(x), first(x), second(x))

    def search(value: Function, x: Array) -> Any:
        ends = (places[0], places[-1], xtol, precision, maxiter)
        if method in METHODS[:2]:
            return _bracketed(value, *ends, method == "bisect")
        return _secant(value, *ends) if method == "secant" else _newton(slopes(value), *ends[1:])

    def quotient(linear: Function, y: Array) -> Any:
        return y / linear(jnp.ones_like(y))

    root, counts = lax.custom_root(value, places[-1], search, quotient, has_aux=True)
    return RootResults(root, *counts)


def _check_signs(fa: Array, fb: Array) -> None:
    """Refuses a bracket without a change of sign, if values are known."""
    same_sign = (jnp.sign(fa) * jnp.sign(fb) > 0).any()
    try:
        refused = bool(same_sign)
    except TracerBoolConversionError:
        return  # within jit the root is NaN
    if refused:
        raise ArgumentError(
            "f must have different signs at the ends of the bracket",
            got=f"f(a) = {fa}, f(b) = {fb}",
        )


def brentq(
    f: Function,
    a: Float[ArrayLike, "*places"],
    b: Float[ArrayLike, "*places"],
    args: tuple[Any, ...] = (),
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
    full_output: bool = False,
) -> Any:
    """The root within a bracket by Brent's method; see `root_scalar`.

    Args:
        f: ``f(x, *args)`` gives a number; of an array of places, one for each.
        a: one end of the bracket.
        b: the other end.
        args: further arguments.
        xtol: absolute tolerance of the root.
        rtol: relative tolerance.
        maxiter: the most steps.
        full_output: whether to return a pair of the root and its `RootResults`.

    Returns:
        The root, or the pair.

    Raises:
        ArgumentError: where values at the ends, if known, have one sign.

    Example:
        >>> import tfn.numpy as tnp
        >>> print(brentq(lambda x: tnp.cos(x) - x, 0.0, 1.0).round(4))
        0.7391
    """
    found = root_scalar(f, args, "brentq", (a, b), xtol=xtol, rtol=rtol, maxiter=maxiter)
    return (found.root, found) if full_output else found.root


def bisect(
    f: Function,
    a: Float[ArrayLike, "*places"],
    b: Float[ArrayLike, "*places"],
    args: tuple[Any, ...] = (),
    xtol: float = 2e-12,
    rtol: float = 8.881784197001252e-16,
    maxiter: int = 100,
    full_output: bool = False,
) -> Any:
    """The root within a bracket by bisection; see `root_scalar`.

    Args:
        f: ``f(x, *args)`` gives a number; of an array of places, one for each.
        a: one end of the bracket.
        b: the other end.
        args: further arguments.
        xtol: absolute tolerance of the root.
        rtol: relative tolerance.
        maxiter: the most steps.
        full_output: whether to return a pair of the root and its `RootResults`.

    Returns:
        The root, or the pair.

    Raises:
        ArgumentError: where values at the ends, if known, have one sign.

    Example:
        >>> print(bisect(lambda x: x * x - 2.0, 0.0, 2.0).round(4))
        1.4142
    """
    found = root_scalar(f, args, "bisect", (a, b), xtol=xtol, rtol=rtol, maxiter=maxiter)
    return (found.root, found) if full_output else found.root


def newton(
    func: Function,
    x0: Float[ArrayLike, "*places"],
    fprime: Function | None = None,
    args: tuple[Any, ...] = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Function | None = None,
    *,
    rtol: float = 0.0,
    full_output: bool = False,
) -> Any:
    """The root near a place by Newton's method, or Halley's with `fprime2`; see `root_scalar`.

    Args:
        func: ``func(x, *args)`` gives a number; of an array of places, one for each.
        x0: the first place.
        fprime: the derivative; None for automatic differentiation.
        args: further arguments.
        tol: absolute tolerance of the root.
        maxiter: the most steps.
        fprime2: the second derivative.
        rtol: relative tolerance.
        full_output: whether to return a pair of the root and its `RootResults`.

    Returns:
        The root, or the pair.

    Raises:
        ArgumentError: if `func` is no function.

    Example:
        >>> print(newton(lambda x: x * x - 2.0, 1.0).round(4))
        1.4142
    """
    method = "newton" if fprime2 is None else "halley"
    found = root_scalar(
        func, args, method, None, fprime, fprime2, x0, xtol=tol, rtol=rtol, maxiter=maxiter
    )
    return (found.root, found) if full_output else found.root
