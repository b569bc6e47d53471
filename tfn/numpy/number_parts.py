"""Parts of numbers: mantissas and neighbours of floats, divisors of integers, bits in bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfn._support.validate import no_out, one_of
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    BOOL,
    FLOAT32,
    FLOATS,
    INT32,
    INTEGERS,
    NARROW,
    SIGNED,
    DType,
    finfo,
    wide_type,
)
from tfn.eager.arrays import weaken
from tfn.eager.operands import apply, array_of, broadcast_shape, fit, inexact, need, together
from tfn.numpy.arithmetic import abs as magnitude
from tfn.numpy.arithmetic import composed, signed, unsigned_abs
from tfn.numpy.logic import truth
from tfn.numpy.manipulation import flat_or_axis
from tfn.numpy.rounding import trunc
from tfn.trace import build
from tfn.trace.argument import Param
from tfn.trace.build import bitcast, cast, eq, full_like, ne, reshape, unary
from tfn.trace.build import where as choose
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

Pair = tuple[Array, Array]


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The step function: 0 below zero, 1 above, `x2` at zero.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> heaviside(tnp.array([-1.0, 0.0, 2.0]), 0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    step = composed(_heaviside, "heaviside", x1, x2, floating=True, real=True)
    return weaken(step, False)


def _heaviside(x: UOp, at_zero: UOp) -> UOp:
    zero = full_like(x, 0)
    step = choose(eq(x, zero), at_zero, cast(zero < x, x.dtype))
    return choose(ne(x, x), x, step)


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The neighbour of x among the floats of its dtype, in the direction of y.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError: for complex numbers.

    Example:
        >>> float(nextafter(1.0, 2.0)) - 1.0
        1.1920928955078125e-07
    """
    return composed(neighbour, "nextafter", x, y, floating=True, real=True)


def neighbour(x: UOp, y: UOp) -> UOp:
    """The next float after each x in the direction of y."""
    need("nextafter", x.dtype, FLOATS - NARROW, "floats of 16 bits at least")
    # Floats of one sign have the order of their bits; next to zero is the smallest subnormal.
    integer = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits, zero = bitcast(x, integer), full_like(x, 0)
    up = x < y
    outwards = ~(up ^ (zero < x))
    neighbour_bits = choose(outwards, bits + 1, bits - 1)
    sign = full_like(bits, np.iinfo(integer).min)
    tiny = choose(up, full_like(bits, 1), sign | 1)
    result = bitcast(choose(eq(x, zero), tiny, neighbour_bits), x.dtype)
    return choose(ne(x, x) | ne(y, y), x + y, choose(eq(x, y), y, result))


def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next float away from zero; negative for negative numbers.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> spacing(1.0).item() == 2**-23
        True
    """
    return composed(_spacing, "spacing", x, floating=True, real=True)


def _spacing(x: UOp) -> UOp:
    end = choose(x < 0, full_like(x, -np.inf), full_like(x, np.inf))
    infinite = eq(unary(Op.ABS, x), full_like(x, np.inf))
    return choose(infinite, full_like(x, np.nan), neighbour(x, end) - x)


def frexp(x: ArrayLike, /) -> Pair:
    """The mantissa, at least 0.5 and below 1, and the exponent of 2.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> [y.tolist() for y in frexp(6.0)]
        [0.75, 3]
    """
    x = array_of("frexp", x)
    dtype = inexact((x.dtype, False))[0]
    need("frexp", dtype, FLOATS, "real numbers")
    return apply(_mantissa, (x,), dtype), apply(_exponent, (x,), dtype)


def _scaled(x: UOp) -> tuple[UOp, UOp]:
    """The number scaled to a normal one, and the exponent of the scale."""
    limits = finfo(x.dtype)
    small = unary(Op.ABS, x) < full_like(x, float(limits.smallest_normal))
    lift = int(limits.nmant) + 2
    by = choose(small, full_like(x, 2.0**lift), full_like(x, 1))
    none = const_like(x, 0)
    return x * by, choose(small, const_like(x, lift), none)


def const_like(x: UOp, value: int) -> UOp:
    """An int32 constant of the shape of `x`."""
    return full_like(build.zeros(x.shape, INT32), value)


def _exponent(x: UOp, dtype: DType) -> UOp:
    dtype = wide_type(dtype)
    x = cast(x, dtype)
    normal, lifted = _scaled(x)
    limits = finfo(dtype)
    integer = np.dtype(f"int{8 * dtype.itemsize}")
    bits = bitcast(normal, integer) >> int(limits.nmant)
    field = cast(bits & ((1 << int(limits.nexp)) - 1), INT32)
    plain = field - (1 << (int(limits.nexp) - 1)) + 2 - lifted
    special = eq(x, full_like(x, 0)) | ~(unary(Op.ABS, x) < full_like(x, np.inf))
    return choose(special, const_like(x, 0), plain)


def _mantissa(x: UOp, dtype: DType) -> UOp:
    return cast(_times_power(cast(x, dtype), -_exponent(x, dtype)), dtype)


FARTHEST_EXPONENT = 1 << 13
"""Two to a power beyond this is infinite, or zero, times any float."""


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The product ``x1 * 2**x2``, of integers x2.

    Raises:
        DTypeError: unless `x2` holds integers.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> ldexp(0.75, 3).item()
        6.0
    """
    exponent = array_of("ldexp", x2)
    need("ldexp", exponent.dtype, INTEGERS, "integer exponents")
    x = array_of("ldexp", x1)
    dtype = inexact((x.dtype, False))[0]
    shape = broadcast_shape("ldexp", x.shape, exponent.shape)
    return apply(_ldexp, (x, exponent), dtype, shape)


def _ldexp(x: UOp, exponent: UOp, dtype: DType, shape: Shape) -> UOp:
    if exponent.dtype.itemsize > 1:  # in its own dtype: some machines have no 64 bits
        far = full_like(exponent, FARTHEST_EXPONENT)
        exponent = build.minimum(exponent, far)
        if exponent.dtype in SIGNED:
            exponent = build.maximum(exponent, -far)
    return cast(_times_power(fit(x, dtype, shape), fit(exponent, INT32, shape)), dtype)


def _times_power(x: UOp, exponent: UOp) -> UOp:
    """x times 2 to the power of an integer, in 32 bits at least."""
    wide = x if x.dtype.itemsize >= 4 else cast(x, FLOAT32)
    return UOp(Op.LDEXP, (wide, cast(exponent, np.dtype(f"i{wide.dtype.itemsize}"))))


def modf(x: ArrayLike, /, out: None = None) -> Pair:
    """The fraction and the whole part, both with the sign of x.

    Example:
        >>> [y.tolist() for y in modf(-2.5)]
        [-0.5, -2.0]
    """
    no_out("modf", out)
    x = array_of("modf", x)
    x = x.astype(inexact((x.dtype, False))[0])
    return apply(_fraction, (x,)), trunc(x)


def _fraction(x: UOp) -> UOp:
    """The digits after the point, with the sign of x; 0 of infinities."""
    size = unsigned_abs(x)
    fraction = size - unary(Op.FLOOR, size)
    fraction = choose(eq(size, full_like(size, np.inf)), full_like(size, 0), fraction)
    return choose(signed(x), -fraction, fraction)


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor of integers; gcd(0, 0) is 0.

    Raises:
        DTypeError: unless both hold integers.
        ShapeError: if the shapes do not broadcast.

    Source: Euclid, Elements, book VII, propositions 1 and 2.

    Example:
        >>> gcd(12, 18).item()
        6
    """
    return _of_integers(_gcd, "gcd", x1, x2)


def _of_integers(body: Callable[..., UOp], name: str, *values: ArrayLike) -> Array:
    operands, dtype, _ = together(name, *values)
    need(name, dtype, INTEGERS, "integers")
    return composed(body, name, *operands)


def _gcd(x: UOp, y: UOp) -> UOp:
    return cast(_common(unsigned_abs(x), unsigned_abs(y)), x.dtype)


def _common(x: UOp, y: UOp) -> UOp:
    """The greatest common divisor of unsigned integers."""
    params = (Param(0, x.shape, x.dtype), Param(1, x.shape, x.dtype))
    a, b = map(param, params)
    zero = full_like(b, 0)
    more = build.reduce(ne(b, zero), Op.MAX, tuple(range(b.ndim)), False)
    body = function([choose(eq(b, zero), a, b), a % b], params)  # a % 0 is 0
    return build.repeat_while(function([more], params), body, [], [], [x, y])[0]


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple of integers; 0 if one of them is 0.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> lcm(4, 6).item()
        12
    """
    return _of_integers(_lcm, "lcm", x1, x2)


def _lcm(x: UOp, y: UOp) -> UOp:
    first, second = unsigned_abs(x), unsigned_abs(y)
    return cast(first // _common(first, second) * second, x.dtype)  # 0 // 0 is 0


def bitwise_count(x: ArrayLike, /) -> Array:
    """The number of set bits of the absolute value of an integer, as uint8.

    Raises:
        DTypeError: unless `x` holds integers or booleans.

    Source: H. S. Warren, "Hacker's Delight", 2nd edition, 5-1.

    Example:
        >>> bitwise_count(0b1011).item()
        3
    """
    x = array_of("bitwise_count", x)
    need("bitwise_count", x.dtype, INTEGERS | {BOOL}, "integers")
    if x.dtype == BOOL:
        return x.astype("uint8")
    return apply(_population, (magnitude(x),))


def _population(x: UOp) -> UOp:
    width = 8 * x.dtype.itemsize
    u = bitcast(x, np.dtype(f"uint{width}"))

    def mask(byte: int) -> int:
        return int.from_bytes(bytes([byte]) * x.dtype.itemsize, "little")

    u = u - ((u >> 1) & mask(0x55))
    u = (u & mask(0x33)) + ((u >> 2) & mask(0x33))
    u = (u + (u >> 4)) & mask(0x0F)
    total = cast(u & 0xFF, np.dtype("uint8"))
    for byte in range(1, x.dtype.itemsize):
        total = total + cast((u >> (8 * byte)) & 0xFF, np.dtype("uint8"))
    return total


def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """The truths of eight elements along an axis in each byte, the last one filled up with zeros.

    Args:
        a: booleans or integers, of which those that are not zero are true.
        axis: axis that is packed, counted from the end if negative; None takes the flat array.
        bitorder: "big" for the first element in the highest bit of a byte, "little" for the lowest.

    Returns:
        A uint8 array, the axis an eighth as long, rounded up.

    Raises:
        DTypeError: unless `a` holds booleans or integers.
        ArgumentError: unless `bitorder` is "big" or "little".
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> packbits(tnp.array([1, 0, 1])).tolist()
        [160]
    """
    a, at = _bits("packbits", a, axis, bitorder, INTEGERS | {BOOL})
    return apply(_packed, (a,), at, bitorder == "little")


def _bits(
    name: str, a: ArrayLike, axis: int | None, order: str, allowed: frozenset[DType]
) -> tuple[Array, int]:
    one_of(name, "bitorder", order, ("big", "little"))
    a = array_of(name, a)
    need(name, a.dtype, allowed, "booleans or integers")
    return flat_or_axis(name, a, axis)


def _packed(a: UOp, axis: int, little: bool) -> UOp:
    byte = np.dtype("uint8")
    line = cast(truth(build.moveaxis(a, axis, a.ndim - 1)), byte)
    missing = -line.shape[-1] % 8
    zeros = (0,) * (line.ndim - 1)
    line = build.pad(line, (*zeros, 0), (*zeros, missing))
    groups = reshape(line, (*line.shape[:-1], line.shape[-1] // 8, 8))
    place = build.iota(groups.shape, groups.ndim - 1, byte)
    shift = place if little else full_like(place, 7) - place
    return build.moveaxis(build.add_up(groups << shift, (groups.ndim - 1,)), a.ndim - 1, axis)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes along an axis, as uint8 numbers 0 and 1.

    Args:
        a: uint8 array.
        axis: axis along which bits are put, counted from the end if negative; None takes the flat
            array.
        count: number of bits along the axis, zeros beyond the end; if negative, so many are cut
            off; None takes all.
        bitorder: "big" for the first element in the highest bit of a byte, "little" for the lowest.

    Returns:
        A uint8 array with `count` elements along the axis, 8 for each byte by default.

    Raises:
        DTypeError: unless `a` holds uint8.
        ArgumentError: unless `bitorder` is "big" or "little".
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> unpackbits(tnp.array([5], "uint8"), count=8).tolist()
        [0, 0, 0, 0, 0, 1, 0, 1]
    """
    a, at = _bits("unpackbits", a, axis, bitorder, frozenset({np.dtype("uint8")}))
    size = 8 * a.shape[at]
    bit_count = size if count is None else count if count >= 0 else max(size + count, 0)
    return apply(_unpacked, (a,), at, bit_count, bitorder == "little")


def _unpacked(a: UOp, axis: int, count: int, little: bool) -> UOp:
    line = build.moveaxis(a, axis, a.ndim - 1)
    shape = (*line.shape, 8)
    place = build.iota(shape, line.ndim, line.dtype)
    shift = place if little else full_like(place, 7) - place
    bits = (build.broadcast_in_dim(line, shape, range(line.ndim)) >> shift) & 1
    bits = reshape(bits, (*line.shape[:-1], 8 * line.shape[-1]))
    zeros = (0,) * (bits.ndim - 1)
    kept_count = min(count, bits.shape[-1])
    bits = build.shrink(bits, (*zeros, 0), (*bits.shape[:-1], kept_count))
    bits = build.pad(bits, (*zeros, 0), (*zeros, count - kept_count))
    return build.moveaxis(bits, a.ndim - 1, axis)
