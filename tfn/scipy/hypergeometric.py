"""Hypergeometric functions of real numbers: `hyp1f1`, `hyp2f1`.

Source: NIST Digital Library of Mathematical Functions, 13.2, 13.7 (the confluent function), 15.2,
15.8 (the Gaussian one).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tfn import jvp, lax
from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT32, finfo
from tfn.extend import custom_jvp, operands

MAX_TERMS = 20_000
"""Terms of a series at most: at 0.9 a Gaussian one takes 350.

Nearer to 1 another form is taken but where c - a - b is an integer: there the precision of float64
ends at 0.998.
"""

ASYMPTOTIC_FROM = 60.0
"""From here on 1F1 is computed by its asymptotic series, of 40 terms."""


def _floats(name: str, *values: ArrayLike) -> list[Array]:
    listed, dtype, _ = operands.together(name, *values, floating=True)
    return tnp.broadcast_arrays(*[x.astype(dtype) for x in listed])


def _sum(ratio: Callable[[Array], Array], like: Array) -> Array:
    """The sum of terms, the first of which is 1, by the ratio of each to the one before it."""
    eps = float(finfo(like.dtype).eps)

    def goes_on(carry: Any) -> Any:
        k, term, total = carry
        return (k < MAX_TERMS) & tnp.any(abs(term) > eps / 4 * abs(total))

    def step(carry: Any) -> Any:
        k, term, total = carry
        term = term * ratio(k.astype(like.dtype))
        return k + 1, term, total + term

    one = tnp.ones_like(like)
    total: Array = lax.while_loop(goes_on, step, (tnp.array(0), one, one))[2]
    return total


def _tangents(function: Callable[..., Array], primals: Any, tangents: Any) -> Any:
    """The sum of the derivatives by the first arguments times their tangents, by forward mode.

    Derivatives of the derivatives are found so too: a loop of unknown length has no reverse mode.
    """

    def slope(i: int, *xs: Array) -> Array:
        units = [tnp.ones_like(x) if j == i else tnp.zeros_like(x) for j, x in enumerate(xs)]
        found: Array = jvp(function, xs, tuple(units))[1]
        return found

    total: Any = 0
    for i, tangent in enumerate(tangents):
        by_i = partial(slope, i)
        derivative = custom_jvp(by_i)
        derivative.defjvp(lambda xs, dxs, f=by_i: (f(*xs), _tangents(f, xs, dxs)))
        total = total + derivative(*primals) * tangent
    return total


# The confluent function.


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent function 1F1(a; b; x), the sum of ``(a)_k x**k / ((b)_k k!)``.

    Args:
        a: real numbers.
        b: real numbers, no integers below 1.
        x: real numbers; all are broadcast.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> round(hyp1f1(1.0, 1.0, 1.0).item(), 5)
        2.71828
    """
    result: Array = _hyp1f1(*_floats("hyp1f1", a, b, x))
    return result


def _confluent(a: Array, b: Array, x: Array) -> Array:
    kind = x.dtype
    if kind.itemsize < 4:
        a, b, x = (v.astype(FLOAT32) for v in (a, b, x))
    # Of negative x the series would alternate: Kummer's transformation.
    turned = x < 0
    a, size = tnp.where(turned, b - a, a), abs(x)
    whole = (a <= 0) & (a == tnp.floor(a))  # a polynomial, of which the series has all terms
    far = (size > ASYMPTOTIC_FROM) & ~whole
    near = tnp.where(far, 1, size)
    series = _sum(lambda k: (a + k) * near / ((b + k) * (k + 1)), x)
    large = tnp.where(far, size, ASYMPTOTIC_FROM)
    term, total = tnp.ones_like(x), tnp.ones_like(x)
    least = abs(term)
    for k in range(40):
        term = term * (b - a + k) * (1 - a + k) / ((k + 1) * large)
        term = tnp.where(abs(term) < least, term, 0)  # until the terms grow
        least = tnp.where(term == 0, 0, abs(term))
        total = total + term
    log_size = lax.lgamma(b) - lax.lgamma(tnp.where(whole, 1, a)) + (a - b) * tnp.log(large)
    grown = tnp.where(turned, log_size, log_size + large)
    sign = _sign(b) * _sign(tnp.where(whole, 1, a))
    asymptotic = sign * tnp.exp(grown) * total
    value = tnp.where(far, asymptotic, tnp.where(turned, tnp.exp(-near), 1) * series)
    return value.astype(kind)


def _sign(x: Array) -> Array:
    """The sign of the gamma function."""
    return tnp.where((x > 0) | (tnp.floor(x) % 2 == 0), 1, -1)


_hyp1f1 = custom_jvp(_confluent)


@_hyp1f1.defjvp
def _hyp1f1_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, x), (da, db, dx) = primals, tangents
    by_x = a / b * _hyp1f1(a + 1, b + 1, x) * dx
    others = _tangents(_confluent, primals, (da, db))
    return _hyp1f1(a, b, x), by_x + others


# The Gaussian function.


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's function 2F1(a, b; c; x), the sum of ``(a)_k (b)_k x**k / ((c)_k k!)``.

    Args:
        a: real numbers.
        b: real numbers.
        c: real numbers, no integers below 1.
        x: real numbers up to 1; larger ones give NaN.  All are broadcast.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> round(hyp2f1(1.0, 1.0, 2.0, 0.5).item(), 5)
        1.38629
    """
    result: Array = _hyp2f1(*_floats("hyp2f1", a, b, c, x))
    return result


def _gauss(a: Array, b: Array, c: Array, x: Array) -> Array:
    return _sum(lambda k: (a + k) * (b + k) / ((c + k) * (k + 1)) * x, x)


def _gaussian(a: Array, b: Array, c: Array, x: Array) -> Array:
    kind = x.dtype
    if kind.itemsize < 4:
        a, b, c, x = (v.astype(FLOAT32) for v in (a, b, c, x))
    # Of negative x Pfaff's transformation, after which the place is between 0 and 1.
    negative = x < 0
    place = tnp.where(negative, x / (x - 1), x)
    factor = tnp.where(negative, tnp.exp(-a * tnp.log1p(-tnp.where(negative, x, 0))), 1)
    b = tnp.where(negative, c - b, b)
    # Near 1 the function at 1 - x, unless c - a - b is an integer, for which there is no such form.
    s = c - a - b
    whole = s == tnp.round(s)
    polynomial = ((a <= 0) & (a == tnp.round(a))) | ((b <= 0) & (b == tnp.round(b)))
    near_one = (place > 0.9) & (place < 1) & ~whole & ~polynomial
    direct = _gauss(a, b, c, tnp.where(near_one | (place >= 1), 0, place))
    rest = tnp.where(near_one, 1 - place, 0)
    safe = tnp.where(near_one, s, 0.5)
    first = _gauss(a, b, 1 - safe, rest)
    second = _gauss(c - a, c - b, 1 + safe, rest)
    log = tnp.log(tnp.where(near_one, rest, 1))
    turned = _gammas(c, safe, c - a, c - b) * first
    turned = turned + tnp.exp(safe * log) * _gammas(c, -safe, a, b) * second
    at_one = tnp.where(s > 0, _gammas(c, tnp.where(s > 0, s, 1), c - a, c - b), tnp.inf)
    value = tnp.where(near_one, turned, direct)
    value = tnp.where((place == 1) & ~polynomial, at_one, value)
    ones = _gauss(a, b, c, tnp.where(polynomial & (place >= 1), place, 0))
    value = tnp.where(polynomial & (place >= 1), ones, value)
    return tnp.where((x > 1) & ~polynomial, tnp.nan, factor * value).astype(kind)


def _gammas(p: Array, q: Array, r: Array, t: Array) -> Array:
    """``gamma(p) gamma(q) / (gamma(r) gamma(t))``, 0 at the poles of the denominator."""
    pole = ((r <= 0) & (r == tnp.round(r))) | ((t <= 0) & (t == tnp.round(t)))
    r, t = tnp.where(pole, 1, r), tnp.where(pole, 1, t)
    logs = lax.lgamma(p) + lax.lgamma(q) - lax.lgamma(r) - lax.lgamma(t)
    return tnp.where(pole, 0, _sign(p) * _sign(q) * _sign(r) * _sign(t) * tnp.exp(logs))


_hyp2f1 = custom_jvp(_gaussian)


@_hyp2f1.defjvp
def _hyp2f1_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, c, x), (da, db, dc, dx) = primals, tangents
    by_x = a * b / c * _hyp2f1(a + 1, b + 1, c + 1, x) * dx
    others = _tangents(_gaussian, primals, (da, db, dc))
    return _hyp2f1(a, b, c, x), by_x + others
