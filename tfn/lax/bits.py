"""Bit operations: population count, leading zeros, bitcasts, views, neighbours, less precision."""

from __future__ import annotations

from functools import partial
from typing import Any

from tfn import dtypes
from tfn._support.validate import element_type, integer, unlike
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    BOOL,
    FLOATS,
    INT64,
    INTEGERS,
    NARROW,
    SIGNED,
    UINT64,
    DType,
    DTypeLike,
    canonical,
    unsigned_type,
    wide_type,
    width_bits,
)
from tfn.eager.operands import apply
from tfn.errors import ShapeError
from tfn.lax.elementwise import bitcast_convert_type as of_one_width
from tfn.lax.operand import array, arrays, show
from tfn.numpy.number_parts import neighbour
from tfn.trace import build
from tfn.trace.op import Shape
from tfn.trace.uop import UOp
from tfn.transforms.custom_jvp import custom_jvp


def _word(x: UOp) -> UOp:
    """The bits of integers as unsigned numbers, of a byte at least."""
    kind = unsigned_type(x.dtype)
    return build.cast(build.bitcast(x, kind), wide_type(kind))


def _steps(u: UOp) -> list[int]:
    """1, 2, 4, ... below the number of bits."""
    return [1 << i for i in range((8 * u.dtype.itemsize).bit_length() - 1)]


def _ones(u: UOp) -> UOp:
    """The number of bits set, by sums of neighbouring bits, then of neighbouring sums.

    Source: Warren, "Hacker's delight", section 5-1.
    """
    width = 8 * u.dtype.itemsize
    for step in _steps(u):
        pattern = sum(((1 << step) - 1) << at for at in range(0, width, 2 * step))
        u = (u & pattern) + ((u >> step) & pattern)
    return u


def _count(x: UOp) -> UOp:
    return build.cast(_ones(_word(x)), x.dtype)


def _leading(x: UOp) -> UOp:
    u = _word(x)
    for step in _steps(u):
        u = u | (u >> step)
    return build.cast(width_bits(x.dtype) - _ones(u), x.dtype)


def _integer(name: str, x: ArrayLike) -> Array:
    value = array(x)
    element_type(name, value, INTEGERS, "integers")
    return value


def population_count(x: ArrayLike) -> Array:
    """Returns the number of bits that are set.

    Raises:
        DTypeError: unless x is integer.

    Example:
        >>> import numpy as np
        >>> population_count(np.array([0, 7, -1], "int8")).tolist()
        [0, 3, 8]
    """
    value = _integer("population_count", x)
    return apply(_count, [value], weak=value.weak_type)


def clz(x: ArrayLike) -> Array:
    """Returns the number of zeros above the highest bit that is set; the width of the dtype for 0.

    Raises:
        DTypeError: unless x is integer.

    Example:
        >>> import numpy as np
        >>> clz(np.array([0, 1, -1], "int32")).tolist()
        [32, 31, 0]
    """
    value = _integer("clz", x)
    return apply(_leading, [value], weak=value.weak_type)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Returns the upper half of the product of integers, of twice their bits.

    Raises:
        DTypeError, ShapeError: unless both have one integer dtype and one shape.

    Example:
        >>> import numpy as np
        >>> mulhi(np.uint8(200), np.uint8(100)).item()
        78
    """
    operands = [_integer("mulhi", v) for v in arrays(x, y)]
    if operands[0].dtype != operands[1].dtype or operands[0].shape != operands[1].shape:
        raise unlike("mulhi", operands)
    return apply(_upper_half, operands, weak=all(v.weak_type for v in operands))


def _upper_half(x: UOp, y: UOp) -> UOp:
    width, signed = width_bits(x.dtype), x.dtype in SIGNED
    if width <= 32:
        wide = INT64 if signed else UINT64
        return build.cast((build.cast(x, wide) * build.cast(y, wide)) >> width, x.dtype)
    # In halves: (a + b) (c + d), with the carries of the middle terms.
    a, c = x >> 32, y >> 32
    b, d = ((build.bitcast(v, UINT64) & 0xFFFFFFFF) for v in (x, y))
    low = (b * d) >> 32
    b, d, low = (build.bitcast(v, x.dtype) for v in (b, d, low))
    middle = a * d + low
    rest = b * c + (middle & 0xFFFFFFFF)
    return a * c + (middle >> 32) + (rest >> 32)


def _parted(x: UOp, dtype: DType) -> UOp:
    """Splits wide elements into several narrow ones along a new axis, the lowest bits first."""
    bits, width = _word(x), width_bits(dtype)
    count = width_bits(x.dtype) // width
    parts = [build.cast(bits >> (width * i), unsigned_type(dtype)) for i in range(count)]
    joined = build.concat([build.reshape(part, (*x.shape, 1)) for part in parts], x.ndim)
    return build.bitcast(joined, dtype)


def _joined(x: UOp, dtype: DType) -> UOp:
    """Joins several narrow elements along the last axis to a wide one, the lowest bits first."""
    shape: Shape = x.shape[:-1]
    kind, width = unsigned_type(dtype), width_bits(x.dtype)
    wide = build.cast(_word(x), wide_type(kind))
    total = build.zeros(shape, wide.dtype)
    for i in range(x.shape[-1]):
        part = build.shrink(wide, (*(0,) * len(shape), i), (*shape, i + 1))
        total = total | (build.reshape(part, shape) << (width * i))
    return build.bitcast(build.cast(total, kind), dtype)


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Reads the same bits as another dtype.

    A narrower dtype gives a last axis of the parts, the lowest bits first; a wider one takes it.

    Raises:
        DTypeError: for bool.
        ShapeError: if the last axis is not that of the parts of a wider dtype.

    Example:
        >>> import numpy as np
        >>> hex(bitcast_convert_type(1.0, "uint32").item())
        '0x3f800000'
        >>> bitcast_convert_type(np.uint32(258), "uint8").tolist()
        [2, 1, 0, 0]
    """
    x, dtype = array(operand), dtypes.canonical(new_dtype)
    have, width = width_bits(x.dtype), width_bits(dtype)
    if have == width or BOOL in (x.dtype, dtype):
        return of_one_width(x, dtype)
    if have > width:
        return apply(_parted, [x], dtype)
    parts = width // have
    if x.shape[-1:] != (parts,):
        raise ShapeError(
            f"{dtype.name} is made of {parts} elements along the last axis",
            got=show(x),
            hint=f"reshape it to (..., {parts})",
        )
    return apply(_joined, [x], dtype)


def view(x: Array, dtype: DTypeLike | None = None) -> Array:
    """The bytes of the elements as those of another dtype; the last axis changes with its width.

    Args:
        x: array of any shape.
        dtype: the dtype of the result; None keeps that of `x`.

    Returns:
        An array of the shape of `x`, but for its last axis where the widths differ.

    Raises:
        ShapeError: if the bytes of the last axis are not those of whole elements.

    Example:
        >>> import tfn.numpy as tnp
        >>> tnp.ones(2).view("int32")
        Array([1065353216, 1065353216], dtype=int32)
    """
    target = x.dtype if dtype is None else canonical(dtype)
    before, after = x.dtype.itemsize, target.itemsize
    if before == after:
        return bitcast_convert_type(x, target)
    if not x.shape or x.shape[-1] * before % after:
        raise ShapeError(
            "the last axis has no whole elements of this dtype",
            got=f"{x.dtype.name}{list(x.shape)} as {target.name}",
            hint="reshape the array first",
        )
    *rows, last = x.shape
    if before < after:
        return bitcast_convert_type(x.reshape(*rows, last * before // after, -1), target)
    return bitcast_convert_type(x, target).reshape(*rows, last * before // after)


# Floats.


def _floats(name: str, *operands: ArrayLike) -> list[Array]:
    xs = arrays(*operands)
    if any(x.dtype not in FLOATS or x.dtype != xs[0].dtype or x.shape != xs[0].shape for x in xs):
        raise unlike(name, xs, "floats of one dtype and shape")
    return xs


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Returns the next float after x1 towards x2.

    Raises:
        DTypeError: unless both have one floating dtype and one shape.

    Example:
        >>> nextafter(1.0, 2.0).item() - 1
        1.1920928955078125e-07
    """
    operands = _floats("nextafter", x1, x2)
    return apply(neighbour, operands, weak=all(v.weak_type for v in operands))


def _rounded(x: UOp, exponent_bits: int, mantissa_bits: int) -> UOp:
    """Rounds to the nearest float of the given format, by integer arithmetic on the bits of x."""
    if x.dtype in NARROW:
        wide = _rounded(build.cast(x, wide_type(x.dtype)), exponent_bits, mantissa_bits)
        return build.cast(wide, x.dtype)
    info = dtypes.finfo(x.dtype)
    carrier = unsigned_type(x.dtype)
    mantissa, width = int(info.nmant), 8 * x.dtype.itemsize
    bits = build.bitcast(x, carrier)
    sign = bits & (1 << (width - 1))
    size = bits & ((1 << (width - 1)) - 1)
    dropped = mantissa - mantissa_bits
    if dropped > 0:  # round half to even: add just below half, plus the last bit that stays
        odd = (size >> dropped) & 1
        size = ((size + ((1 << (dropped - 1)) - 1) + odd) >> dropped) << dropped
    exponents = width - 1 - mantissa
    infinity = ((1 << exponents) - 1) << mantissa
    if exponent_bits < exponents:
        bias, least = (1 << (exponents - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        above = size > (((bias + least) << mantissa) | ((1 << mantissa) - 1))
        below = size <= (((bias - least) << mantissa) | ((1 << mantissa) - 1))
        size = build.where(above, build.full_like(size, infinity), size)
        size = build.where(below, build.full_like(size, 0), size)
    return build.where(build.ne(x, x), x, build.bitcast(sign | size, x.dtype))


@partial(custom_jvp, nondiff_argnums=(1, 2))
def _reduced(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    return apply(_rounded, [x], exponent_bits, mantissa_bits)


@_reduced.defjvp
def _reduced_jvp(exponent_bits: int, mantissa_bits: int, primals: Any, tangents: Any) -> Any:
    (x,), (dx,) = primals, tangents
    return _reduced(x, exponent_bits, mantissa_bits), dx


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds floats to a given number of bits of exponent and mantissa, ties to even.

    Values that are too large become infinite, values that are too small 0 of their sign, and NaN
    stays NaN.  The derivative is that of the identity.

    Args:
        operand: floats of any shape; the result has their shape and dtype.
        exponent_bits: bits of the exponent, at least 1; as many as the dtype has, or more, change
            nothing.
        mantissa_bits: bits of the mantissa without the implicit one, at least 0; more change
            nothing.

    Raises:
        DTypeError: unless the operand is floating.
        ArgumentError: for less than one bit of exponent, or negative numbers of bits.

    Example:
        >>> import numpy as np
        >>> reduce_precision(np.array([1.01, 70000.0], "float32"), 5, 10).tolist()
        [1.009765625, inf]
    """
    (x,) = _floats("reduce_precision", operand)
    exponent_bits = integer("reduce_precision", "exponent_bits", exponent_bits, 1)
    mantissa_bits = integer("reduce_precision", "mantissa_bits", mantissa_bits, 0)
    out: Array = _reduced(x, exponent_bits, mantissa_bits)
    return out
