"""Arithmetic, one element at a time: operands are promoted and broadcast.

Integers wrap around; floor division and remainder floor, so the remainder has the divisor's sign,
and division by the integer zero gives zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfn._support.validate import shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, COMPLEXES, FLOATS, INEXACT, INTEGERS, DType, wide_type
from tfn.eager.arrays import weaken
from tfn.eager.operands import (
    REAL,
    apply,
    array_of,
    broadcast_shape,
    counted,
    fit,
    is_bool,
    need,
    need_real,
    together,
    type_of,
)
from tfn.errors import ArgumentError
from tfn.trace.bind import bind
from tfn.trace.build import bitcast, cast, complex_, eq, full_like, imag, ne, real, unary
from tfn.trace.build import maximum as larger
from tfn.trace.build import where as choose
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

NUMBERS = INTEGERS | INEXACT
BITS = INTEGERS | {BOOL}


def binary(
    op: Op, name: str, x: ArrayLike, y: ArrayLike, allowed: frozenset[DType], words: str = "numbers"
) -> Array:
    """An op of two operands, arrays or numbers, which are promoted and broadcast.

    Args:
        op: the op.
        name: name of the function that was called, for errors.
        x: left operand, array or number.
        y: right operand, array or number.
        allowed: dtypes that the op takes.
        words: `allowed` in words, for errors.

    Raises:
        DTypeError: for another dtype.
        ShapeError: if the shapes do not broadcast.
    """
    if type(x) is Array and type(y) is Array and x.dtype is y.dtype and x.shape == y.shape:
        if x.dtype not in allowed:
            need(name, x.dtype, allowed, words)
        result: Array = bind(op, x, y, weak=x.weak_type and y.weak_type)
        return result
    operands, dtype, weak = together(name, x, y)
    need(name, dtype, allowed, words)
    shape = broadcast_shape(name, operands[0].shape, operands[1].shape)
    return apply(_binary, operands, op, dtype, shape, weak=weak)


def _binary(x: UOp, y: UOp, op: Op, dtype: DType, shape: Shape) -> UOp:
    return UOp(op, (fit(x, dtype, shape), fit(y, dtype, shape)))


Body = Callable[..., UOp]


def composed(
    body: Body, name: str, *values: ArrayLike, floating: bool = False, real: bool = False
) -> Array:
    """A function of nodes of one dtype and shape, applied to arrays or numbers.

    Args:
        body: function from nodes to a node; one of a module, since it is part of a cache's key.
        name: name of the function that was called, for errors.
        *values: arrays and numbers, which are promoted and broadcast.
        floating: whether integers become float32 first.
        real: whether complex numbers are refused.

    Raises:
        DTypeError: for complex numbers, if they are refused.
        ShapeError: if the shapes do not broadcast.
    """
    operands, dtype, weak = together(name, *values, floating=floating)
    if real and dtype in COMPLEXES:
        need(name, dtype, REAL, "real numbers")
    shape = broadcast_shape(name, *[x.shape for x in operands])
    return apply(_composed, operands, body, dtype, shape, weak=weak)


def _composed(*operands_and_static: object) -> UOp:
    *operands, body, dtype, shape = operands_and_static
    fitted = [fit(u, dtype, shape) for u in operands]  # type: ignore[arg-type]
    return body(*fitted)  # type: ignore[operator, no-any-return]


def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The sum of two arrays or numbers; of booleans, their or.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> add(tnp.array([1, 2]), 0.5)
        Array([1.5, 2.5], dtype=float32, weak_type=True)
    """
    if _both_bool(x, y):
        return binary(Op.OR, "add", x, y, BITS)
    return binary(Op.ADD, "add", x, y, NUMBERS)


def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The difference of two arrays or numbers.

    Raises:
        DTypeError: for booleans; use `bitwise_xor`.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> subtract(3, tnp.array([1, 2]))
        Array([2, 1], dtype=int32)
    """
    return binary(Op.SUB, "subtract", x, y, NUMBERS)


def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The product of two arrays or numbers; of booleans, their and.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> multiply(tnp.array([[1], [2]]), tnp.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
    """
    if _both_bool(x, y):
        return binary(Op.AND, "multiply", x, y, BITS)
    return binary(Op.MUL, "multiply", x, y, NUMBERS)


def _both_bool(x: ArrayLike, y: ArrayLike) -> bool:
    return is_bool(x) and is_bool(y)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient of two arrays or numbers, always floating.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> divide(1, 2)
        Array(0.5, dtype=float32, weak_type=True)
    """
    if type(x1) is Array and type(x2) is Array and x1.dtype in INEXACT:
        return binary(Op.DIV, "divide", x1, x2, INEXACT)
    return composed(_divide, "divide", x1, x2, floating=True)


def _divide(x: UOp, y: UOp) -> UOp:
    return x / y


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The quotient rounded towards minus infinity.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: for complex numbers.

    Example:
        >>> floor_divide(-7, 2)
        Array(-4, dtype=int32, weak_type=True)
    """
    return composed(_floor_divide, "floor_divide", *counted(x1, x2), real=True)


def _floor_divide(x: UOp, y: UOp) -> UOp:
    if x.dtype not in FLOATS:
        return x // y
    x, y = (UOp(Op.DETACH, (u,)) for u in (x, y))  # the derivative of steps is 0
    # x - x % y is a multiple of y up to rounding, which the second rounding corrects.
    whole = unary(Op.ROUND, (x - x % y) / y)
    quotient, zero, infinite = x / y, full_like(x, 0), full_like(x, np.inf)
    exact = eq(x, zero) | eq(y, zero) | eq(unary(Op.ABS, quotient), infinite)
    whole = choose(exact, quotient, whole)
    far = eq(unary(Op.ABS, y), infinite) & (unary(Op.ABS, x) < infinite)
    return choose(far, choose(x * y < 0, full_like(x, -1), quotient), whole)


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of floor division, which has the sign of `x2`.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> remainder(-7, 3)
        Array(2, dtype=int32, weak_type=True)
    """
    x1, x2 = counted(x1, x2)
    return binary(Op.MOD, "remainder", x1, x2, REAL, "real numbers")


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The remainder of truncating division, which has the sign of `x1`.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> fmod(-7, 3).item()
        -1
    """
    return composed(truncated_rest, "fmod", *counted(x1, x2), real=True)


def truncated_rest(x: UOp, y: UOp) -> UOp:
    """The remainder of truncating division, of the sign of `x`, also of the smallest integers."""
    size = cast(unsigned_abs(x) % unsigned_abs(y), x.dtype)
    return choose(signed(x), -size, size)


def unsigned_abs(x: UOp) -> UOp:
    """The absolute value; of an integer unsigned, since the smallest one has no negative."""
    if x.dtype in FLOATS:  # not ABS, whose derivative at -0.0 is that at 0.0
        return choose(signed(x), -x, x)
    x = cast(x, wide_type(x.dtype))
    return bitcast(unary(Op.ABS, x), np.dtype(f"u{x.dtype.itemsize}"))


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Floor division and its remainder.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: for complex numbers.

    Example:
        >>> [x.item() for x in divmod(-7, 2)]
        [-4, 1]
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The power ``x1**x2``; a Python integer `x2` becomes multiplications.

    Raises:
        ArgumentError: for an integer to a negative Python integer.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> power(2, tnp.array([1, 2, 10]))
        Array([   2,    4, 1024], dtype=int32)
        >>> power(2.0, -1).item()
        0.5
    """
    if (
        type(x2) is int
        and (isinstance(x1, (Array, np.ndarray)) or (x2 < 0 and type(x1) is int))
        and (-64 <= x2 <= 64 or (x2 < 0 and type_of(x1)[0] not in INEXACT))
        and not is_bool(x1)
    ):
        base = array_of("power", x1)
        if x2 < 0 and base.dtype not in INEXACT:
            raise ArgumentError(
                f"integers cannot be raised to the power {x2}",
                got=f"{shown(base)} ** {x2}",
                hint="convert the base to floats with .astype",
            )
        return apply(_integer_power, (base,), x2, weak=base.weak_type)
    return composed(_power, "power", *counted(x1, x2))


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The power ``x**y``, always floating.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> float_power(2, -1).item()
        0.5
    """
    return composed(_power, "float_power", x, y, floating=True)


def _integer_power(x: UOp, exponent: int) -> UOp:
    if exponent < 0:
        return full_like(x, 1) / _integer_power(x, -exponent)
    result: UOp | None = None
    square = x
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if exponent:
            square = square * square
    return full_like(x, 1) if result is None else result


def _power(x: UOp, y: UOp) -> UOp:
    if x.dtype in INEXACT:
        return UOp(Op.POW, (x, y))
    # By squaring, one bit of the exponent at a time.
    result, square = full_like(x, 1), x
    bits = larger(y, full_like(y, 0))
    for _ in range(8 * x.dtype.itemsize - (x.dtype.kind == "i")):
        odd = ne(bits & 1, full_like(bits, 0))
        result = choose(odd, result * square, result)
        square, bits = square * square, bits >> 1
    if y.dtype.kind != "i":
        return result
    # To a negative power only 1 and -1 are not less than 1, which is cut off to 0.
    zero, one = full_like(x, 0), full_like(x, 1)
    is_minus_one = eq(x, full_like(x, -1)) if x.dtype.kind == "i" else ne(x, x)
    inverse = choose(eq(x, one), one, choose(is_minus_one, choose(eq(y & 1, zero), one, x), zero))
    return choose(y < zero, inverse, result)


def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The larger of two numbers, NaN if either is NaN.

    Of 0.0 and -0.0 the larger is 0.0, in any order: the maximum of IEEE 754-2019.

    Complex numbers are ordered by their real parts, then by the imaginary ones.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> maximum(tnp.array([1, 5]), 3)
        Array([3, 5], dtype=int32)
    """
    if _is_complex(x) or _is_complex(y):
        return composed(later, "maximum", x, y)
    return binary(Op.MAX, "maximum", x, y, REAL | {BOOL}, "real numbers")


def _is_complex(x: ArrayLike) -> bool:
    return isinstance(x, complex) or getattr(x, "dtype", None) in COMPLEXES


def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The smaller of two numbers, NaN if either is NaN.

    Of 0.0 and -0.0 the smaller is -0.0, in any order: the minimum of IEEE 754-2019.

    Complex numbers are ordered by their real parts, then by the imaginary ones.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> minimum(tnp.array([1, 5]), 3)
        Array([1, 3], dtype=int32)
    """
    if _is_complex(x) or _is_complex(y):
        return composed(earlier, "minimum", x, y)
    return binary(Op.MIN, "minimum", x, y, REAL | {BOOL}, "real numbers")


def ordered(op: Op, x: UOp, y: UOp) -> UOp:
    """A comparison of two values; complex ones by the real parts, then by the imaginary ones."""
    if x.dtype not in COMPLEXES or op not in (Op.LT, Op.LE):
        return UOp(op, (x, y))
    a, b = real(x), real(y)
    later = UOp(op, (imag(x), imag(y)))
    return UOp(Op.LT, (a, b)) | (UOp(Op.EQ, (a, b)) & later)


def extreme(op: Op, x: UOp, y: UOp) -> UOp:
    """The larger or the smaller of two values, in this order; the first that is not a number."""
    if x.dtype not in COMPLEXES:
        return UOp(op, (x, y))
    first = ordered(Op.LE, y, x) if op is Op.MAX else ordered(Op.LE, x, y)
    return choose(ne(x, x), x, choose(ne(y, y), y, choose(first, x, y)))


def later(x: UOp, y: UOp) -> UOp:
    """The larger of two values."""
    return extreme(Op.MAX, x, y)


def earlier(x: UOp, y: UOp) -> UOp:
    """The smaller of two values."""
    return extreme(Op.MIN, x, y)


def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of two numbers, by the order of `maximum`; where one is NaN, the other.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> fmax(float("nan"), 1.0).item()
        1.0
    """
    return composed(_fmax, "fmax", x1, x2)


def _fmax(x: UOp, y: UOp) -> UOp:
    return choose(ne(x, x), y, choose(ne(y, y), x, later(x, y)))


def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of two numbers, by the order of `minimum`; where one is NaN, the other.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> fmin(float("nan"), 1.0).item()
        1.0
    """
    return composed(_fmin, "fmin", x1, x2)


def _fmin(x: UOp, y: UOp) -> UOp:
    return choose(ne(x, x), y, choose(ne(y, y), x, earlier(x, y)))


def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle in radians of the point (x2, x1), between -pi and pi.

    Of complex numbers it is ``-i log((x2 + i x1) / sqrt(x2**2 + x1**2))``.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> arctan2(0.0, -1.0).item()
        3.1415927410125732
    """
    return composed(angle, "arctan2", x1, x2, floating=True)


def angle(y: UOp, x: UOp) -> UOp:
    """The angle of the point (x, y), of two nodes of one dtype and shape."""
    if x.dtype not in COMPLEXES:
        return UOp(Op.ATAN2, (y, x))
    i = full_like(x, 1j)
    return -i * unary(Op.LOG, (x + i * y) / unary(Op.SQRT, x * x + y * y))


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The hypotenuse ``sqrt(x1**2 + x2**2)`` of real numbers, without intermediate overflow.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> hypot(3e30, 4e30).item() < float("inf")
        True
    """
    return weaken(composed(_hypot, "hypot", x1, x2, floating=True, real=True), False)


def _hypot(x: UOp, y: UOp) -> UOp:
    x, y = unary(Op.ABS, x), unary(Op.ABS, y)
    x_is_larger = x >= y  # a choice, since MAX and MIN halve derivatives of equal values
    high, low = choose(x_is_larger, x, y), choose(x_is_larger, y, x)
    far = eq(x, infinite := full_like(x, np.inf))
    endless = far | eq(y, infinite)  # the length is that operand, and so are its derivatives
    flat = endless | eq(x + y, full_like(x, 0))  # the derivative at 0 has no direction
    zero, one = full_like(x, 0), full_like(x, 1)
    high = choose(flat, one, high)
    ratio = choose(flat, zero, low) / high
    length = choose(flat, zero, high * unary(Op.SQRT, ratio * ratio + 1))
    return choose(endless, choose(far, x, y), length)


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The logarithm ``log(exp(x1) + exp(x2))``, without intermediate overflow.

    Of complex numbers it is the principal one, whose imaginary part is within pi.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> logaddexp(100.0, 100.0)
        Array(100.693146, dtype=float32, weak_type=True)
    """
    return composed(_logaddexp, "logaddexp", x1, x2, floating=True)


def _logaddexp(x: UOp, y: UOp) -> UOp:
    if x.dtype in COMPLEXES:
        return _complex_logaddexp(x, y)
    high, difference = choose(x >= y, x, y), x - y
    infinite = eq(x, y) & ne(
        difference, difference
    )  # equal infinities: each has half the derivative
    gap = choose(infinite, full_like(x, 0), -unary(Op.ABS, difference))
    near = high + unary(Op.LOG1P, unary(Op.EXP, gap))
    return choose(infinite, x * 0.5 + y * 0.5, near)


def _complex_logaddexp(x: UOp, y: UOp) -> UOp:
    a, b = real(x), real(y)
    first = b <= a
    high, low = choose(first, x, y), choose(first, y, x)
    top, bottom = choose(first, a, b), choose(first, b, a)
    # Where one vanishes beside the other, their difference may be one of infinities.
    vanishes = eq(bottom, full_like(bottom, -np.inf)) | eq(top, full_like(top, np.inf))
    both = eq(top, full_like(top, np.inf)) & eq(bottom, full_like(bottom, np.inf))
    vanishes = vanishes & ~both
    gap = choose(vanishes, full_like(low, 0), low - high)
    total = high + choose(vanishes, full_like(low, 0), unary(Op.LOG1P, unary(Op.EXP, gap)))
    angle, turn = imag(total), 2 * float(np.pi)
    turns = unary(Op.CEIL, angle / turn - 0.5)
    return complex_(real(total), angle - UOp(Op.DETACH, (turns,)) * turn)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The logarithm ``log2(2**x1 + 2**x2)``, without intermediate overflow.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> logaddexp2(3.0, 3.0).item()
        4.0
    """
    return weaken(composed(_logaddexp2, "logaddexp2", x1, x2, floating=True), False)


def _logaddexp2(x: UOp, y: UOp) -> UOp:
    scale = float(np.log(2))
    return _logaddexp(x * scale, y * scale) / scale


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The absolute value of `x1` with the sign of `x2`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: for complex numbers.

    Example:
        >>> copysign(3.0, -0.0).item()
        -3.0
    """
    return composed(_copysign, "copysign", x1, x2, floating=True, real=True)


def _copysign(x: UOp, y: UOp) -> UOp:
    size = unary(Op.ABS, x)
    return choose(signed(y), -size, size)


def signed(x: UOp) -> UOp:
    """Whether the sign bit is set."""
    if x.dtype not in FLOATS:
        return x < 0
    x = cast(x, wide_type(x.dtype))
    return bitcast(x, np.dtype(f"i{x.dtype.itemsize}")) < 0


def negative(x: ArrayLike, /) -> Array:
    """The value with its sign changed.

    Raises:
        DTypeError: for booleans.

    Example:
        >>> import tfn.numpy as tnp
        >>> negative(tnp.array([1, -2]))
        Array([-1,  2], dtype=int32)
    """
    return plain(Op.NEG, "negative", x)


def positive(x: ArrayLike, /) -> Array:
    """The value itself.

    Example:
        >>> positive(-2).item()
        -2
    """
    return array_of("positive", x)


def plain(op: Op, name: str, x: ArrayLike) -> Array:
    """An op of one operand, array or number, that keeps its dtype.

    Args:
        op: the op.
        name: name of the function that was called, for errors.
        x: array or number, of any shape.

    Raises:
        DTypeError: for booleans.
    """
    x = array_of(name, x)
    if x.dtype not in NUMBERS:
        need(name, x.dtype, NUMBERS, "numbers")
    result: Array = bind(op, x, weak=x.weak_type)
    return result


def abs(x: ArrayLike, /) -> Array:
    """The absolute value; of a complex number a real one.

    Example:
        >>> abs(-3).item(), abs(3 - 4j).item()
        (3, 5.0)
    """
    x = array_of("abs", x)
    return x if x.dtype == BOOL or x.dtype.kind == "u" else plain(Op.ABS, "abs", x)


def sign(x: ArrayLike, /) -> Array:
    """The sign: -1, 0 or 1; NaN of NaN; of a complex number the one of length 1 in its direction.

    Raises:
        DTypeError: for booleans.

    Example:
        >>> import tfn.numpy as tnp
        >>> sign(tnp.array([-2.5, 0.0, 7.0]))
        Array([-1.,  0.,  1.], dtype=float32)
        >>> sign(3 + 4j).item() == 0.6 + 0.8j
        False
    """
    return plain(Op.SIGN, "sign", x)


def square(x: ArrayLike, /) -> Array:
    """The square ``x * x``.

    Example:
        >>> import tfn.numpy as tnp
        >>> square(tnp.array([-3, 2]))
        Array([9, 4], dtype=int32)
    """
    return multiply(*counted(x, x))


def reciprocal(x: ArrayLike, /) -> Array:
    """The reciprocal ``1 / x``, always floating.

    Example:
        >>> reciprocal(4).item()
        0.25
    """
    return composed(_reciprocal, "reciprocal", x, floating=True)


def _reciprocal(x: UOp) -> UOp:
    return full_like(x, 1) / x


def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """The elements moved into a range: not below `min`, and not above `max`; NaN stays.

    Args:
        arr: array or number.
        min: lower bound, array or number, broadcast with `arr`; None for no bound.
        max: upper bound, likewise; it wins where it is below `min`.

    Returns:
        An array of the broadcast shape and the promoted dtype.

    Raises:
        DTypeError: for complex numbers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> clip(7, max=5)
        Array(5, dtype=int32, weak_type=True)
    """
    need_real("clip", arr)
    arr = array_of("clip", arr)
    if min is not None:
        arr = maximum(arr, min)
    return arr if max is None else minimum(arr, max)


absolute, mod, true_divide, pow = abs, remainder, divide, power
atan2 = arctan2


def by_squaring(multiply: Callable[[Array, Array], Array], x: Array, n: int) -> Array:
    """A product of n values x, n at least 1, by at most 2 log n products."""
    out: Array | None = None
    while n:
        if n & 1:
            out = x if out is None else multiply(out, x)
        n >>= 1
        x = multiply(x, x) if n else x
    return x if out is None else out
