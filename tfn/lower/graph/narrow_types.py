"""Narrow lowering: values of 8 bits at most become bytes, and arithmetic on them is widened.

Before -> after, for ``b = a * a`` with a: f8_e4m3fn[3]::

    { lambda ; a:f8_e4m3fn[3]. let b:f8_e4m3fn[3] = mul a a in (b,) }
    { lambda ; a:u8[3]. let x:f32[3] = decode a; y:f32[3] = mul x x; b:u8[3] = encode y in (b,) }

A value is a byte in memory, with the bits of the type at its low end.  Ops that move elements move
bytes; all others are computed in float32, int8 or uint8, and rounded or wrapped once.  Decoding and
encoding are integer instructions, by a row of `FORMATS` for each floating type.

Where a target multiplies bfloat16 by a matrix unit, so are large products of floats, whose values
and products are exact in it and in float32: each element is decoded once, and copied::

    dot a b   ->   dot (copy cast decode a) (copy cast decode b), with sums in float32

No later pass and no kernel sees a narrow dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import (
    BFLOAT16,
    FLOAT32,
    FLOATS,
    INT32,
    NARROW,
    NARROW_SIGNED,
    UINT32,
    DType,
    float4_e2m1fn,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    highest,
    int8,
    lowest,
    uint8,
    wide_type,
    width_bits,
)
from tfn.lower.graph.intermediates import free_sizes
from tfn.lower.math.floats import nearby
from tfn.trace import build, source_lines
from tfn.trace.argument import Param
from tfn.trace.build import bitcast, cast, where
from tfn.trace.jaxpr import function as make_function
from tfn.trace.jaxpr import param
from tfn.trace.op import SEVERAL, STORAGE, Op
from tfn.trace.regions import results
from tfn.trace.uop import UOp, const, rebuild, walk

BYTE = uint8.dtype

MIN_COPIED_ROWS = 64
"""Rows and columns of a product from which on its operands are decoded before, to bfloat16.

A unit of four warps takes as many rows.  Fewer read each element few times, and a copy of two bytes
for each byte would take longer than the product.  Not measured.
"""


@frozen
class Format:
    """The bits of a floating type: a sign if it has one, then an exponent, then a fraction.

    Attributes:
        fraction_bits: after the leading one.
        bias: of the exponent.
        largest: the code of the largest finite number.
        overflow: the code of numbers that are larger, and of infinity.
        nan: the code of NaN; None if there is none, and then NaN becomes -0.0.
        has_infinity: whether `overflow` is infinity.
        has_negative_zero: whether it has one; if not, its code is NaN.
    """

    fraction_bits: int
    bias: int
    largest: int
    overflow: int
    nan: int | None
    has_infinity: bool = False
    has_negative_zero: bool = True


# fmt: off
FORMATS: dict[DType, Format] = {
    float4_e2m1fn.dtype: Format(1, 1, 0x7, 0x7, None),
    float8_e3m4.dtype: Format(4, 3, 0x6F, 0x70, 0x78, has_infinity=True),
    float8_e4m3.dtype: Format(3, 7, 0x77, 0x78, 0x7C, has_infinity=True),
    float8_e4m3fn.dtype: Format(3, 7, 0x7E, 0x7F, 0x7F),
    float8_e4m3fnuz.dtype: Format(3, 8, 0x7F, 0x80, 0x80, has_negative_zero=False),
    float8_e4m3b11fnuz.dtype: Format(3, 11, 0x7F, 0x80, 0x80, has_negative_zero=False),
    float8_e5m2.dtype: Format(2, 15, 0x7B, 0x7C, 0x7E, has_infinity=True),
    float8_e5m2fnuz.dtype: Format(2, 16, 0x7F, 0x80, 0x80, has_negative_zero=False),
}
"""Formats with a sign; float8_e8m0fnu is the exponent of a float32 alone.

Source: the README of ml_dtypes, whose conversions these are, of infinities and NaN too.
"""
# fmt: on


def decode(byte: UOp, dtype: DType) -> UOp:
    """The values of bytes: float32, int8 or uint8."""
    if dtype == float8_e8m0fnu.dtype:
        return _power_of_two(byte)
    if dtype in FORMATS:
        return _decoded_float(byte, dtype)
    unused = 8 - width_bits(dtype)
    if dtype in NARROW_SIGNED:
        return bitcast(byte << unused, int8.dtype) >> unused
    return byte & ((1 << width_bits(dtype)) - 1)


def encode(x: UOp, dtype: DType) -> UOp:
    """The bytes of values of any other dtype: the nearest number, of two the even one.

    Integers wrap around; a float becomes the nearest integer toward zero that there is.
    """
    if dtype == float8_e8m0fnu.dtype:
        return _exponent(nearby(x, dtype))
    if dtype in FORMATS:
        return _encoded_float(nearby(x, dtype), dtype)
    if x.dtype in FLOATS:
        ends = (const(end(dtype), INT32, x.shape) for end in (lowest, highest))
        x = build.minimum(build.maximum(cast(x, INT32), next(ends)), next(ends))
    return cast(x, BYTE) & ((1 << width_bits(dtype)) - 1)


_FRACTION_BITS, _BIAS = 23, 127  # of float32
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


def _decoded_float(byte: UOp, dtype: DType) -> UOp:
    row, sign_at = FORMATS[dtype], width_bits(dtype) - 1
    word = cast(byte, UINT32) & ((2 << sign_at) - 1)
    magnitude = word & ((1 << sign_at) - 1)
    scale = 2.0 ** (1 - row.bias - row.fraction_bits)
    shift = _FRACTION_BITS - row.fraction_bits
    normal = (magnitude << shift) + ((_BIAS - row.bias) << _FRACTION_BITS)
    # Subnormal numbers by a product: their bits in float32 would need a count of zeros.
    small = bitcast(cast(magnitude, FLOAT32) * scale, UINT32)
    value = where(magnitude < (1 << row.fraction_bits), small, normal)
    special = const(_NAN, UINT32, byte.shape)
    if row.has_infinity:
        is_infinity = build.eq(magnitude, const(row.overflow, UINT32, byte.shape))
        special = where(is_infinity, const(_INFINITY, UINT32, byte.shape), special)
    if row.largest < (1 << sign_at) - 1:
        value = where(magnitude > row.largest, special, value)
    sign = (word >> sign_at) & 1
    if not row.has_negative_zero:
        negative_zero = build.eq(word, const(row.overflow, UINT32, byte.shape))
        value = where(negative_zero, special, value)
    return bitcast(value | (sign << 31), FLOAT32)


def _encoded_float(x: UOp, dtype: DType) -> UOp:
    row, sign_at = FORMATS[dtype], width_bits(dtype) - 1
    word = bitcast(x, UINT32)
    magnitude, sign = word & 0x7FFFFFFF, word >> 31
    shift = _FRACTION_BITS - row.fraction_bits
    odd = (magnitude >> shift) & 1
    normal = (magnitude + odd + ((1 << (shift - 1)) - 1)) >> shift
    normal = normal - ((_BIAS - row.bias) << row.fraction_bits)
    steps = bitcast(magnitude, FLOAT32) * 2.0 ** (row.bias - 1 + row.fraction_bits)
    is_small = magnitude < ((_BIAS + 1 - row.bias) << _FRACTION_BITS)
    safe = where(is_small, steps, build.full_like(steps, 0.0))
    small = cast(UOp(Op.ROUND, (safe,)), UINT32)
    code = where(is_small, small, normal)
    code = where(code > row.largest, const(row.overflow, UINT32, x.shape), code)
    signed = sign << sign_at
    if not row.has_negative_zero:
        signed = where(build.eq(code, build.full_like(code, 0)), build.full_like(code, 0), signed)
    code = code | signed
    is_nan = magnitude > _INFINITY
    nan = const((1 << sign_at) if row.nan is None else row.nan, UINT32, x.shape)
    nan = nan ^ (sign << sign_at) if row.has_negative_zero else nan
    return cast(where(is_nan, nan, code), BYTE)


def _power_of_two(byte: UOp) -> UOp:
    word = cast(byte, UINT32)
    least = const(1 << (_FRACTION_BITS - 1), UINT32, byte.shape)  # 2**-127 is subnormal
    value = where(build.eq(word, build.full_like(word, 0)), least, word << _FRACTION_BITS)
    is_nan = build.eq(word, const(0xFF, UINT32, byte.shape))
    return bitcast(where(is_nan, const(_NAN, UINT32, byte.shape), value), FLOAT32)


def _exponent(x: UOp) -> UOp:
    """Powers of two: of two as near the larger; there is no zero and no sign, both are NaN."""
    word = bitcast(x, UINT32)
    half = 1 << (_FRACTION_BITS - 1)
    normal = (word + half) >> _FRACTION_BITS
    subnormal = cast(word > half, UINT32)  # as ml_dtypes rounds it
    code = where(word < 2 * half, subnormal, normal)
    nothing = build.eq(word, build.full_like(word, 0)) | (word > _INFINITY)  # signs too
    return cast(where(nothing, const(0xFF, UINT32, x.shape), code), BYTE)


# The pass.


def lower_narrow(function: UOp, bfloat16_unit: bool = False) -> UOp:
    """Returns a closed function without narrow values: its buffers hold bytes.

    With `bfloat16_unit`, for a target that has one, large products of floats are of bfloat16.
    """
    return _lower_body(function, bfloat16_unit) if has_narrow(function) else function


def has_narrow(function: UOp) -> bool:
    """Whether there is a narrow value in a function, or in the body of a loop inside of it."""
    return has_values(function, NARROW)


def has_values(function: UOp, dtypes: Container[DType]) -> bool:
    """Whether a value of some dtypes is in a function, or in the body of a loop inside of it."""
    stack, seen = [function], {function}
    while stack:
        f = stack.pop()
        if any(p.dtype in dtypes for p in f.arg.params):
            return True
        for node in walk([f]):
            of_node = [dtype for _, dtype in results(node)] if node.op in SEVERAL else []
            if any(dtype in dtypes for dtype in (node.dtype, *of_node)):
                return True
            if node.op is Op.FUNCTION and node not in seen:
                seen.add(node)
                stack.append(node)
    return False


def evaluated(
    outputs: Sequence[UOp],
    params: Mapping[UOp, Any],
    nested: Callable[[UOp], UOp],
    rule: Callable[[UOp, list[Any]], Any],
) -> list[Any]:
    """The values of graphs, each a node or several, from those of parameters.

    Args:
        outputs: graphs.
        params: the values of some nodes.
        nested: from a FUNCTION to the one that takes its place.
        rule: from a node and the values of its sources to its value.
    """
    values: dict[UOp, Any] = dict(params)
    for node in walk(outputs):
        if node in values:
            continue
        if node.op is Op.FUNCTION:
            values[node] = nested(node)
            continue
        src = [values[s] for s in node.src]
        values[node] = src[0][node.arg] if node.op is Op.GET else rule(node, src)
        if source_lines.enabled():
            source_lines.inherit(values[node], node)
    return [values[u] for u in outputs]


def _lower_body(function: UOp, bfloat16_unit: bool) -> UOp:
    params: list[Param] = []
    values: dict[UOp, UOp] = {}
    for p in function.arg.params:
        params.append(replace(p, dtype=BYTE) if p.dtype in NARROW else p)
        values[param(p)] = param(params[-1])
    outputs = rewrite(function.src, values, bfloat16_unit)
    return make_function(outputs, tuple(params))


def rewrite(outputs: Sequence[UOp], params: Mapping[UOp, UOp], bfloat16_unit: bool) -> list[UOp]:
    """Returns the outputs, narrow ones as bytes, from the values of the parameters."""

    def value(node: UOp, src: list[Any]) -> Any:
        if node.op in SEVERAL:
            return _SEVERAL_RESULTS.get(node.op, _region)(node, src)
        if bfloat16_unit and _is_large_product(node):
            return _of_bfloat16(node, *src)
        if node.dtype in NARROW or any(s.dtype in NARROW for s in node.src):
            return _RULES.get(node.op, _widened)(node, *src)
        return rebuild(node, tuple(src))

    return evaluated(outputs, params, lambda f: lower_narrow(f, bfloat16_unit), value)


def _values(node: UOp, src: Sequence[UOp]) -> list[UOp]:
    """The sources of a node in the dtypes that it is computed in."""
    return [
        decode(x, old.dtype) if old.dtype in NARROW else x
        for old, x in zip(node.src, src, strict=True)
    ]


def _widened(node: UOp, *src: UOp) -> UOp:
    """An op on wide values, and its result encoded."""
    arg = node.arg
    if node.op in (Op.DOT, Op.CONV):
        arg = replace(arg, dtype=wide_type(arg.dtype))
    result = UOp(node.op, tuple(_values(node, src)), arg)
    return encode(result, node.dtype) if node.dtype in NARROW else result


def _is_large_product(node: UOp) -> bool:
    """Whether a node is a product of narrow floats that a matrix unit may multiply."""
    if node.op is not Op.DOT or any(s.dtype not in FORMATS for s in node.src):
        return False
    wide = wide_type(node.arg.dtype)
    if wide not in FLOATS or wide.itemsize > FLOAT32.itemsize:
        return False
    return min(free_sizes(node)) >= MIN_COPIED_ROWS


def _of_bfloat16(node: UOp, *src: UOp) -> UOp:
    """A product of copies in bfloat16, with sums in float32, and its result encoded."""
    copies = [UOp(Op.GBARRIER, (cast(x, BFLOAT16),)) for x in _values(node, src)]
    result = UOp(Op.DOT, tuple(copies), replace(node.arg, dtype=FLOAT32))
    return encode(result, node.dtype) if node.dtype in NARROW else cast(result, node.dtype)


def _moved(node: UOp, *src: UOp) -> UOp:
    """The same op on bytes."""
    return UOp(node.op, src, node.arg)


def _const(node: UOp) -> UOp:
    return const(node.arg.bits, BYTE, node.shape)


def _iota(node: UOp) -> UOp:
    return encode(UOp(Op.IOTA, (), replace(node.arg, dtype=INT32)), node.dtype)


def _cast(node: UOp, x: UOp) -> UOp:
    (value,) = _values(node, [x])
    return encode(value, node.dtype) if node.dtype in NARROW else cast(value, node.dtype)


def _bitcast(node: UOp, x: UOp) -> UOp:
    """The same byte: types whose bits are fewer have them at its low end."""
    return (
        x
        if node.dtype in NARROW and x.dtype == BYTE
        else bitcast(x, BYTE if node.dtype in NARROW else node.dtype)
    )


def _places(node: UOp, operand: UOp, indices: UOp, *updates: UOp) -> UOp:
    """Windows are moved as bytes, but for sums of them; places are numbers."""
    if node.op is Op.SCATTER and node.arg.op is not Op.WHERE:
        return _widened(node, operand, indices, *updates)
    kind = node.src[1].dtype
    at = decode(indices, kind) if kind in NARROW else indices
    return UOp(node.op, (operand, at, *updates), node.arg)


# fmt: off
_RULES: dict[Op, Callable[..., UOp]] = {
    **dict.fromkeys(STORAGE, _moved),
    Op.CONST: _const,
    Op.IOTA: _iota,
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
    **dict.fromkeys((Op.GATHER, Op.SCATTER), _places),
}
"""Ops that move bytes or make them; all others are `_widened`."""
# fmt: on


# Nodes with several results.


def _region(node: UOp, src: Sequence[UOp]) -> list[UOp]:
    """A loop, a branch or a call: its functions are of bytes already."""
    return build.several(rebuild(node, tuple(src)))


def _sort(node: UOp, src: Sequence[UOp]) -> list[UOp]:
    """Keys in wider types, with the bytes beside them: encoding would lose what a NaN carries."""
    count = node.arg.keys
    narrow = [i for i, key in enumerate(node.src[:count]) if key.dtype in NARROW]
    keys = _values(node, src)[:count]
    operands = (*keys, *src[count:], *(src[i] for i in narrow))
    ordered = build.several(UOp(node.op, operands, node.arg))
    bytes_ = dict(zip(narrow, ordered[len(src) :], strict=True))
    return [bytes_.get(i, x) for i, x in enumerate(ordered[: len(src)])]


@frozen
class NarrowHostFunction:
    """A function of the host over narrow arrays, called with bytes.

    Attributes:
        run: the user's function.
        results, operands: the dtype of each.
    """

    run: Callable[[Sequence[Any], Sequence[Any]], None]
    results: tuple[DType, ...]
    operands: tuple[DType, ...]

    def __call__(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """Calls the function on views of the bytes."""
        self.bound(results, operands)()

    def bound(self, results: Sequence[Any], operands: Sequence[Any]) -> Callable[[], object]:
        """The call on these arrays: their views are made once."""
        bind = getattr(self.run, "bound", None) or partial(partial, self.run)
        bound: Callable[[], object] = bind(
            [x.view(dtype) for x, dtype in zip(results, self.results, strict=True)],
            [x.view(dtype) for x, dtype in zip(operands, self.operands, strict=True)],
        )
        return bound


def _host(node: UOp, src: Sequence[UOp]) -> list[UOp]:
    types, operands = results(node), tuple(s.dtype for s in node.src)
    kinds = tuple(dtype for _, dtype in types)
    if not NARROW.intersection((*kinds, *operands)):
        return build.several(rebuild(node, tuple(src)))
    run = NarrowHostFunction(node.arg.run, kinds, operands)
    bytes_ = tuple((shape, BYTE if dtype in NARROW else dtype) for shape, dtype in types)
    return build.several(UOp(node.op, tuple(src), replace(node.arg, run=run, results=bytes_)))


_SEVERAL_RESULTS: dict[Op, Callable[[UOp, Sequence[UOp]], list[UOp]]] = {
    Op.TUPLE: lambda node, src: list(src),
    Op.SORT: _sort,
    Op.HOST: _host,
}
"""Ops with several results; those without a row have functions: see `_region`."""
