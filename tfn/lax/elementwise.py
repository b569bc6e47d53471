"""Arithmetic, comparisons, bits, choices and casts, element by element.

Operands have one shape and one dtype.  Python scalars and scalar arrays are repeated.
"""

from __future__ import annotations

from typing import Any

from tfn import dtypes
from tfn._support.validate import element_type, integer, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    BOOL,
    FLOATS,
    INEXACT,
    INTEGERS,
    SIGNED,
    UNSIGNED,
    DTypeLike,
    signed_type,
    unsigned_type,
)
from tfn.eager.arrays import weaken
from tfn.eager.operands import apply
from tfn.errors import ArgumentError, DTypeError
from tfn.lax.elementary import unary
from tfn.lax.operand import array, arrays, binary_of, expand, repeated, scalar, show, together
from tfn.numpy.arithmetic import by_squaring, earlier, later, truncated_rest
from tfn.trace.bind import bind
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def binary(op: Op, x: ArrayLike, y: ArrayLike) -> Array:
    """Binds an op of two operands."""
    return together(op, *arrays(x, y))


def cast(x: Array, dtype: Any) -> Array:
    """Converts to a canonical dtype."""
    return x if x.dtype == dtype else bind(Op.CAST, x, arg=dtype)


# Powers.


def square(x: ArrayLike) -> Array:
    """Returns ``x * x``.

    Example:
        >>> square(-3).tolist()
        9
    """
    x = array(x)
    return mul(x, x)


def reciprocal(x: ArrayLike) -> Array:
    """Returns ``1 / x``; of integers the quotient towards zero.

    Example:
        >>> reciprocal(4.0).tolist()
        0.25
    """
    x = array(x)
    return div(scalar(1, x), x)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns x to the power y, which for floating x may be an integer array.

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
    """Returns x to the power of a Python integer, by repeated squaring.

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
    out = by_squaring(mul, x, abs(y)) if y else expand(scalar(1, x), x.shape)
    return reciprocal(out) if y < 0 else out


# Two operands.


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x + y``; integers wrap around.

    Raises:
        ShapeError, DTypeError: unless both have one shape and dtype, as in all of tfn.lax.

    Example:
        >>> add(1.0, 2).tolist()
        3.0
    """
    return binary(Op.ADD, x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x - y``; integers wrap around.

    Raises:
        DTypeError, ShapeError: unless both have one dtype, of numbers, and one shape.

    Example:
        >>> sub(1.0, 3).tolist()
        -2.0
    """
    return binary(Op.SUB, x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Returns ``x * y``; integers wrap around.

    Raises:
        DTypeError, ShapeError: unless both have one dtype, of numbers, and one shape.

    Example:
        >>> mul(2.0, 3).tolist()
        6.0
    """
    if out_dtype is not None:
        x, y = (array(v).astype(out_dtype) for v in (x, y))
    return binary(Op.MUL, x, y)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x / y``; of integers the quotient towards zero, and 0 for a divisor of 0.

    Raises:
        DTypeError, ShapeError: unless both have one dtype, of numbers, and one shape.

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
    """Returns the remainder of `div` towards zero, which has the sign of x; NaN or 0 for y = 0.

    Raises:
        DTypeError, ShapeError: unless both are real, of one dtype and shape.

    Example:
        >>> rem(-7, 2).tolist(), rem(-7.5, 2.0).tolist()
        (-1, -1.5)
    """
    x, y = arrays(x, y)
    if x.dtype not in SIGNED | FLOATS:
        return binary(Op.MOD, x, y)
    return apply(_rest, [x, y], weak=x.weak_type and y.weak_type)


def _rest(x: UOp, y: UOp) -> UOp:
    shape = x.shape or y.shape
    return truncated_rest(*(u if u.shape else repeated(u, shape) for u in (x, y)))


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the larger of two values; NaN if either is NaN, 0.0 of 0.0 and -0.0.

    Complex numbers are ordered by their real parts, then by the imaginary ones.

    Raises:
        DTypeError, ShapeError: unless both are of one dtype and shape.

    Example:
        >>> max(1.0, float("nan")).tolist()
        nan
    """
    return _extreme(Op.MAX, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the smaller of two values; NaN if either is NaN, -0.0 of 0.0 and -0.0.

    Complex numbers are ordered by their real parts, then by the imaginary ones.

    Raises:
        DTypeError, ShapeError: unless both are of one dtype and shape.

    Example:
        >>> min(1.0, 2.0).tolist()
        1.0
    """
    return _extreme(Op.MIN, x, y)


def _extreme(op: Op, x: ArrayLike, y: ArrayLike) -> Array:
    return binary_of(op, later if op is Op.MAX else earlier, *arrays(x, y))


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
    return _extreme(Op.MIN, _extreme(Op.MAX, x, min), max)


# Bits.


def bitwise_not(x: ArrayLike) -> Array:
    """Inverts every bit; logical on bool.

    Raises:
        DTypeError: unless x is integer or boolean.

    Example:
        >>> bitwise_not(0).tolist()
        -1
    """
    return unary(Op.NOT, x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the bits that both operands have; logical on bool.

    Raises:
        DTypeError, ShapeError: unless both are integer or boolean, of one dtype and shape.

    Example:
        >>> bitwise_and(0b1100, 0b1010).tolist() == 0b1000
        True
    """
    return binary(Op.AND, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the bits that either operand has; logical on bool.

    Raises:
        DTypeError, ShapeError: unless both are integer or boolean, of one dtype and shape.

    Example:
        >>> bitwise_or(0b1100, 0b1010).tolist() == 0b1110
        True
    """
    return binary(Op.OR, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns the bits in which the operands differ; logical on bool.

    Raises:
        DTypeError, ShapeError: unless both are integer or boolean, of one dtype and shape.

    Example:
        >>> bitwise_xor(0b1100, 0b1010).tolist() == 0b0110
        True
    """
    return binary(Op.XOR, x, y)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Shifts bits up by y, zeros in; 0 if y is the width of the dtype or more.

    Raises:
        DTypeError, ShapeError: unless both are integer, of one dtype and shape.

    Example:
        >>> shift_left(3, 2).tolist()
        12
    """
    return binary(Op.SHL, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Shifts bits down by y, copies of the sign bit in.

    Raises:
        DTypeError, ShapeError: unless both are integer, of one dtype and shape.

    Example:
        >>> shift_right_arithmetic(-8, 1).tolist()
        -4
    """
    return _shift_right("shift_right_arithmetic", x, y, "i")


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Shifts bits down by y, zeros in; 0 if y is the width of the dtype or more.

    Raises:
        DTypeError, ShapeError: unless both are integer, of one dtype and shape.

    Example:
        >>> shift_right_logical(-1, 31).tolist()
        1
    """
    return _shift_right("shift_right_logical", x, y, "u")


def _shift_right(name: str, x: ArrayLike, y: ArrayLike, kind: str) -> Array:
    """Shifts in the signed ("i") or unsigned ("u") dtype, which fills the high bits."""
    x, y = arrays(x, y)
    element_type(name, x, INTEGERS, "integers")
    if x.dtype != y.dtype:
        raise unlike(name, (x, y))
    carrier = signed_type(x.dtype) if kind == "i" else unsigned_type(x.dtype)
    if x.dtype == carrier:
        return binary(Op.SHR, x, y)
    bits = binary(Op.SHR, *(bind(Op.BITCAST, v, arg=carrier) for v in (x, y)))
    return bitcast_convert_type(bits, x.dtype)


# Comparisons.


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x == y``; false on NaN.

    Raises:
        DTypeError, ShapeError: unless both have one dtype and one shape.

    Example:
        >>> eq(1, 1).tolist()
        True
    """
    return binary(Op.EQ, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x != y``; true on NaN.

    Raises:
        DTypeError, ShapeError: unless both have one dtype and one shape.

    Example:
        >>> ne(1, 2).tolist()
        True
    """
    return binary(Op.NE, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x < y``; false on NaN.

    Raises:
        DTypeError, ShapeError: unless both are real or boolean, of one dtype and shape.

    Example:
        >>> lt(2, 2).tolist()
        False
    """
    return binary(Op.LT, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x <= y``; false on NaN.

    Raises:
        DTypeError, ShapeError: as `lt`.

    Example:
        >>> le(2, 2).tolist()
        True
    """
    return binary(Op.LE, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x > y``; false on NaN.

    Raises:
        DTypeError, ShapeError: as `lt`.

    Example:
        >>> gt(2, 2).tolist()
        False
    """
    return binary(Op.LT, y, x)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Returns ``x >= y``; false on NaN.

    Raises:
        DTypeError, ShapeError: as `lt`.

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
    """Returns the elements of ``cases[which]``; an integer outside is clamped.

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


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Converts to another dtype; float to integer truncates and saturates, and NaN becomes 0.

    Example:
        >>> convert_element_type(2.7, "int8").tolist()
        2
    """
    return weaken(cast(array(operand), dtypes.canonical(new_dtype)), False)


def bitcast_convert_type(x: ArrayLike, new_dtype: Any) -> Array:
    """Reads the same bits as another dtype of the same width.

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
