"""Arithmetic, comparisons, bits, choices and casts, element by element.

Operands have one shape and one dtype.  Python scalars and scalar arrays are repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import dtypes
from tfn._support.validate import element_type, integer
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, FLOATS, INEXACT, INTEGERS, SIGNED, UNSIGNED
from tfn.eager.operands import apply
from tfn.errors import ArgumentError, DTypeError
from tfn.lax.elementary import unary
from tfn.lax.operand import array, arrays, expand, repeated, scalar, show, together
from tfn.numpy.arithmetic import truncated_rest
from tfn.trace.bind import bind
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def binary(op: Op, x: ArrayLike, y: ArrayLike) -> Array:
    """One op on two operands."""
    return together(op, *arrays(x, y))


def cast(x: Array, dtype: Any) -> Array:
    """The values in a canonical dtype."""
    return x if x.dtype == dtype else bind(Op.CAST, x, arg=dtype)


# Powers.


def square(x: ArrayLike) -> Array:
    """``x * x``.

    Example:
        >>> square(-3).tolist()
        9
    """
    x = array(x)
    return mul(x, x)


def reciprocal(x: ArrayLike) -> Array:
    """``1 / x``.

    Example:
        >>> reciprocal(4.0).tolist()
        0.25
    """
    x = array(x)
    return div(scalar(1, x), x)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y, which for floating x may be an integer array.

    Raises:
        DTypeError: for integer x; see `integer_pow`.

    Example:
        >>> pow(2.0, 3.0).tolist()
        8.0
    """
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    x, y = arrays(x, y)
    return binary(Op.POW, x, cast(y, x.dtype) if y.dtype in INTEGERS else y)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of a Python integer, by repeated squaring.

    Raises:
        ArgumentError: for a negative power of integers.

    Example:
        >>> integer_pow(3, 4).tolist()
        81
    """
    x, y = array(x), integer("integer_pow", "y", y)
    if y < 0 and x.dtype not in INEXACT:
        raise ArgumentError(
            "integers have no negative powers",
            got=f"{show(x)} ** {y}",
            hint="convert the base to floats with .astype",
        )
    n, out, power = -y if y < 0 else y, None, x
    while n:
        if n & 1:
            out = power if out is None else mul(out, power)
        n >>= 1
        power = mul(power, power) if n else power
    out = expand(scalar(1, x), x.shape) if out is None else out
    return reciprocal(out) if y < 0 else out


# Two operands.


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """``x + y``.

    Raises:
        ShapeError, DTypeError: unless both have one shape and dtype, as in all of tfn.lax.

    Example:
        >>> add(1.0, 2).tolist()
        3.0
    """
    return binary(Op.ADD, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """``x - y``.

    Example:
        >>> sub(1.0, 3).tolist()
        -2.0
    """
    return binary(Op.SUB, x, y)


def mul(x: ArrayLike, y: ArrayLike) -> Array:
    """``x * y``.

    Example:
        >>> mul(2.0, 3).tolist()
        6.0
    """
    return binary(Op.MUL, x, y)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """``x / y``; of integers the quotient towards zero, as hardware and JAX have it.

    Example:
        >>> div(-7, 2).tolist(), div(-7.0, 2.0).tolist()
        (-3, -3.5)
    """
    x, y = arrays(x, y)
    if x.dtype not in INTEGERS:
        return binary(Op.DIV, x, y)
    quotient = binary(Op.FLOORDIV, x, y)
    if x.dtype in UNSIGNED:
        return quotient
    inexact = ne(binary(Op.MOD, x, y), 0)
    rounded_down = bitwise_and(inexact, ne(lt(x, 0), lt(y, 0)))
    return add(quotient, cast(rounded_down, x.dtype))


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the remainder of the division towards zero, which has the sign of x.

    Example:
        >>> rem(-7, 2).tolist(), rem(-7.5, 2.0).tolist()
        (-1, -1.5)
    """
    x, y = arrays(x, y)
    return apply(_rest, [x, y]) if x.dtype in SIGNED | FLOATS else binary(Op.MOD, x, y)


def _rest(x: UOp, y: UOp) -> UOp:
    shape = x.shape or y.shape
    return truncated_rest(*(u if u.shape else repeated(u, shape) for u in (x, y)))


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger; NaN if either is NaN.

    Example:
        >>> max(1.0, float("nan")).tolist()
        nan
    """
    return binary(Op.MAX, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller; NaN if either is NaN.

    Example:
        >>> min(1.0, 2.0).tolist()
        1.0
    """
    return binary(Op.MIN, x, y)


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Limits x to [min, max]; where min > max it is max, and NaN stays NaN.

    Args:
        min: lower bound, a scalar or an array of the shape and dtype of x.
        x: array of any shape; the result has its shape and dtype.
        max: upper bound, a scalar or an array of the shape and dtype of x.

    Raises:
        ShapeError, DTypeError: if shapes or dtypes differ.

    Example:
        >>> clamp(0.0, 1.5, 1.0).tolist()
        1.0
    """
    x = array(x)
    return binary(Op.MIN, binary(Op.MAX, x, min), max)


# Bits.


def bitwise_not(x: ArrayLike) -> Array:
    """Every bit turned; logical on bool.

    Example:
        >>> bitwise_not(0).tolist()
        -1
    """
    return unary(Op.NOT, x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that both have.

    Example:
        >>> bitwise_and(0b1100, 0b1010).tolist() == 0b1000
        True
    """
    return binary(Op.AND, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits that either has.

    Example:
        >>> bitwise_or(0b1100, 0b1010).tolist() == 0b1110
        True
    """
    return binary(Op.OR, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """The bits in which the operands differ.

    Example:
        >>> bitwise_xor(0b1100, 0b1010).tolist() == 0b0110
        True
    """
    return binary(Op.XOR, x, y)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits moved y places up; nothing is left from the width on.

    Example:
        >>> shift_left(3, 2).tolist()
        12
    """
    return binary(Op.SHL, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits moved y places down, the sign bit repeated.

    Example:
        >>> shift_right_arithmetic(-8, 1).tolist()
        -4
    """
    x, y = arrays(x, y)
    if x.dtype in SIGNED:
        return binary(Op.SHR, x, y)
    signed = np.dtype(f"i{x.dtype.itemsize}")
    bits = binary(Op.SHR, *(bind(Op.BITCAST, v, arg=signed) for v in (x, y)))
    return bitcast_convert_type(bits, x.dtype)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits moved y places down, zeros shifted in.

    Example:
        >>> shift_right_logical(-1, 31).tolist()
        1
    """
    x, y = arrays(x, y)
    if x.dtype in UNSIGNED:
        return binary(Op.SHR, x, y)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits = binary(Op.SHR, *(bind(Op.BITCAST, v, arg=unsigned) for v in (x, y)))
    return bitcast_convert_type(bits, x.dtype)


# Comparisons.


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """``x == y``.

    Example:
        >>> eq(1, 1).tolist()
        True
    """
    return binary(Op.EQ, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """``x != y``; true on NaN.

    Example:
        >>> ne(1, 2).tolist()
        True
    """
    return binary(Op.NE, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """``x < y``.

    Example:
        >>> lt(2, 2).tolist()
        False
    """
    return binary(Op.LT, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """``x <= y``.

    Example:
        >>> le(2, 2).tolist()
        True
    """
    return binary(Op.LE, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """``x > y``.

    Example:
        >>> gt(2, 2).tolist()
        False
    """
    return binary(Op.LT, y, x)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """``x >= y``.

    Example:
        >>> ge(2, 2).tolist()
        True
    """
    return binary(Op.LE, y, x)


# Choices.


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Returns `on_true` where `pred` holds, else `on_false`.

    Args:
        pred: booleans, a scalar or of the shape of the others.
        on_true: a scalar or an array.
        on_false: a scalar or an array, of the shape and dtype of `on_true`.

    Raises:
        ShapeError, DTypeError: if shapes or dtypes differ, or `pred` is not boolean.

    Example:
        >>> select(True, 1.0, 2.0).tolist()
        1.0
    """
    x, y = arrays(on_true, on_false)
    return together(Op.WHERE, array(pred), x, y)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The element of ``cases[which]``, for a boolean or integer `which`.

    Raises:
        ArgumentError: without cases, or with more than two for a boolean.

    Example:
        >>> select_n(False, 1.0, 2.0).tolist()
        1.0
    """
    which = array(which)
    element_type("select_n", which, INTEGERS | {BOOL}, "booleans or integers, which say which case")
    if not cases or (which.dtype == BOOL and len(cases) > 2):
        raise ArgumentError(
            "select_n needs as many cases as `which` has values",
            got=f"{show(which)} and {len(cases)} cases",
            hint="a boolean chooses between two; compare integers first",
        )
    first, *rest = arrays(*cases)
    if which.dtype == BOOL:
        return select(which, rest[0], first) if rest else first
    for i, case in enumerate(rest, 1):
        first = select(ge(which, i), case, first)
    return first


# Types.


def convert_element_type(x: ArrayLike, new_dtype: Any) -> Array:
    """The values in another dtype; float to integer truncates and saturates, NaN becomes 0.

    Example:
        >>> convert_element_type(2.7, "int8").tolist()
        2
    """
    return cast(array(x), dtypes.canonical(new_dtype))


def bitcast_convert_type(x: ArrayLike, new_dtype: Any) -> Array:
    """The same bits read as another dtype of one width.

    Raises:
        DTypeError: if the widths differ.

    Example:
        >>> hex(bitcast_convert_type(1.0, "uint32").tolist())
        '0x3f800000'
    """
    x, dtype = array(x), dtypes.canonical(new_dtype)
    if x.dtype == dtype:
        return x
    if dtype == BOOL or x.dtype == BOOL:
        raise DTypeError(
            "bool has no bits to be read as another dtype",
            got=f"{show(x)} to {dtype.name}",
            hint="convert it: x.astype('uint8') is 0 or 1",
        )
    out: Array = bind(Op.BITCAST, x, arg=dtype)
    return out
