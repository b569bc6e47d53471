"""Decomposition: elementwise ops in terms of the few that renderers have instructions for.

    sin x : f32[]      ->  cast, fma, add, ..., where, xor
    add a b : bf16[]   ->  cast(add (cast a) (cast b))       computed in float32, rounded once

The ops that remain are `BASIC`.  Of these, MAX and MIN propagate NaN; ROUND is half to even; CAST
of a float to an integer saturates and takes NaN to 0; SHL and SHR have a count in range; FLOORDIV
and MOD are of integers, floor, and give 0 for a divisor of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOATS, INT32, DType, int8, int16, uint8, uint16
from tfn.lower.index.intervals import Facts, limits
from tfn.lower.math import (
    erf,
    exponential,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    logarithm,
    missing_instructions,
    power,
    remainder,
    trigonometric,
)
from tfn.lower.math.floats import divide, magnitude, nearby, with_sign
from tfn.trace import records
from tfn.trace.build import bitcast, cast, maximum, minimum, where
from tfn.trace.op import COMPARE, ELEMENTWISE, Op
from tfn.trace.oracle import ROTATIONS
from tfn.trace.uop import UOp, const, rebuild, walk

Rule = Callable[..., UOp]
HALF_FLOATS = frozenset({FLOAT16, BFLOAT16})
"""Dtypes that are stored only: arithmetic on them is computed in float32."""

SHORT_INTEGERS = frozenset({int8.dtype, int16.dtype, uint8.dtype, uint16.dtype})

THREEFRY_INSTRUCTIONS = 110
"""Instructions of a THREEFRY: twenty rounds, and five additions of keys."""

FUNCTION_INSTRUCTIONS = 35
"""Instructions of an elementary function on average; the bounds of each are in its test."""

# fmt: off
BASIC = frozenset({
    Op.NEG, Op.ABS, Op.FLOOR, Op.CEIL, Op.ROUND, Op.NOT, Op.SQRT, Op.ADD, Op.SUB, Op.MUL, Op.DIV,
    Op.FMA, Op.FLOORDIV, Op.MOD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.LT,
    Op.LE, Op.EQ, Op.NE, Op.WHERE, Op.CAST, Op.BITCAST, Op.LDEXP,
})
"""The elementwise ops that remain: each renderer has a row for each of them."""
# fmt: on

INSTRUCTIONS = (
    dict.fromkeys(Op, 0)
    | dict.fromkeys(ELEMENTWISE, FUNCTION_INSTRUCTIONS)
    | dict.fromkeys(BASIC, 1)
    | {Op.THREEFRY: THREEFRY_INSTRUCTIONS}
)
"""About how many instructions an op becomes."""


def sign(node: UOp, x: UOp) -> UOp:
    """-1, 0 or 1; a float zero keeps its sign, NaN stays."""
    if x.dtype in FLOATS:
        one = const(1, x.dtype, x.shape)
        return where(const(0, x.dtype, x.shape) < magnitude(x), with_sign(one, x), x)
    y = minimum(x, const(1, x.dtype, x.shape))
    return y if x.dtype.kind == "u" else maximum(y, const(-1, x.dtype, x.shape))


def rsqrt(node: UOp, x: UOp) -> UOp:
    """``1 / sqrt(x)``."""
    return divide(1.0, UOp(Op.SQRT, (x,)))


def shift(node: UOp, x: UOp, count: UOp) -> UOp:
    """A shift by any count: by the width or more, or by a negative count, all bits are lost."""
    width = 8 * x.dtype.itemsize
    if _in_range(count, width):
        return rebuild(node, (x, count))
    unsigned = bitcast(count, _unsigned(count.dtype))  # a negative count is a large one
    shifted = UOp(node.op, (x, count & (width - 1)))
    signed = node.op is Op.SHR and x.dtype.kind == "i"
    outside = x >> (width - 1) if signed else const(0, x.dtype, x.shape)
    return where(unsigned < width, shifted, outside)


def _in_range(count: UOp, width: int) -> bool:
    if count.op is Op.AND:
        return any(_in_range(s, width) for s in count.src)
    if count.op is Op.XOR:  # the width is a power of two: numbers below it have no higher bits
        return all(_in_range(s, width) for s in count.src)
    return count.op is Op.CONST and 0 <= int(count.arg.value) < width


def _unsigned(dtype: DType) -> DType:
    return np.dtype(f"u{dtype.itemsize}")


def threefry(node: UOp, *words: UOp) -> UOp:
    """Threefry-2x32 in twenty rounds; both words of the result share every node.

    Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    k0, k1, x0, x1 = words
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for block in range(5):
        for r in ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << r) | (x1 >> (32 - r)))
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + (keys[(block + 2) % 3] + (block + 1))
    result: UOp = (x0, x1)[node.arg]
    return result


def modulo(node: UOp, x: UOp, y: UOp) -> UOp:
    """Modulo: of integers basic, of floats by the exact algorithm."""
    return remainder.modulo(x, y) if x.dtype in FLOATS else rebuild(node, (x, y))


def convert(node: UOp, x: UOp) -> UOp:
    """A cast; to and from 16-bit floats by way of float32.

    A clipped float that was cast to few bits is cast without them: ``i32(u8(i32(min(..., 255))))``.
    """
    if x.op is Op.CAST and x.dtype in SHORT_INTEGERS and node.dtype.itemsize > x.dtype.itemsize:
        whole, (low, high) = x.src[0], limits(x.dtype)
        if whole.dtype == INT32:
            least, most = Facts().interval(whole)
            x = whole if low <= least and most <= high else x
    # Processors convert 16-bit floats from and to float32 only.
    if x.dtype == node.dtype or FLOAT32 in (x.dtype, node.dtype):
        return cast(x, node.dtype)
    if x.dtype in HALF_FLOATS or node.dtype in HALF_FLOATS:
        return cast(nearby(x, node.dtype), node.dtype)
    return rebuild(node, (x,))


def function(f: Rule) -> Rule:
    """The rule of an elementary function, which needs the operands only."""
    return lambda node, *operands: f(*operands)


# fmt: off
DECOMPOSE: dict[Op, Rule] = {
    Op.DETACH: lambda node, x: x,
    Op.CAST: convert,
    Op.SIGN: sign,
    Op.RSQRT: rsqrt,
    Op.MOD: modulo,
    Op.SHL: shift,
    Op.SHR: shift,
    Op.THREEFRY: threefry,
    Op.EXP: function(exponential.exp),
    Op.EXP2: function(exponential.exp2),
    Op.EXPM1: function(exponential.expm1),
    Op.LOG: function(logarithm.log),
    Op.LOG2: function(logarithm.log2),
    Op.LOG1P: function(logarithm.log1p),
    Op.SIN: function(trigonometric.sin),
    Op.COS: function(trigonometric.cos),
    Op.TAN: function(trigonometric.tan),
    Op.ASIN: function(inverse_trigonometric.asin),
    Op.ACOS: function(inverse_trigonometric.acos),
    Op.ATAN: function(inverse_trigonometric.atan),
    Op.ATAN2: function(inverse_trigonometric.atan2),
    Op.SINH: function(hyperbolic.sinh),
    Op.COSH: function(hyperbolic.cosh),
    Op.TANH: function(hyperbolic.tanh),
    Op.ASINH: function(hyperbolic.asinh),
    Op.ACOSH: function(hyperbolic.acosh),
    Op.ATANH: function(hyperbolic.atanh),
    Op.LOGISTIC: function(hyperbolic.logistic),
    Op.CBRT: function(power.cbrt),
    Op.POW: function(power.pow),
    Op.ERF: function(erf.erf),
    Op.ERFC: function(erf.erfc),
    Op.ERFINV: function(erf.erf_inv),
    Op.LGAMMA: function(gamma.lgamma),
    Op.DIGAMMA: function(gamma.digamma),
}
"""The rule of each op: its replacement, from the node and its new sources."""
# fmt: on


EMULATED: dict[Op, Rule] = {
    Op.FLOOR: missing_instructions.floor,
    Op.CEIL: missing_instructions.ceil,
    Op.ROUND: missing_instructions.nearest,
    Op.FMA: missing_instructions.fma,
    Op.LDEXP: missing_instructions.ldexp,
    Op.CAST: missing_instructions.convert,
}
"""The rule of each basic op that a target may lack: its emulation by others."""


def decompose(roots: Sequence[UOp], lacks: frozenset[Op] = frozenset()) -> list[UOp]:
    """The roots with every elementwise op in terms of `BASIC`, at any stage and of any shape.

    It is idempotent.  Ops of `BASIC` that a target `lacks` are replaced too.
    """
    new: dict[UOp, UOp] = {}
    for node in walk(roots):
        new[node] = _rewrite(node, tuple([new.get(s, s) for s in node.src]))
    sink = records.sink()
    if sink is not None:
        functions = [u for u in new if u.op in DECOMPOSE and new[u].op is not u.op]
        sink += [records.Record(u.op.value, u, new[u]) for u in functions]
    decomposed = [new[root] for root in roots]
    return _emulate(decomposed, lacks) if lacks else decomposed


def _emulate(roots: Sequence[UOp], lacks: frozenset[Op], known: Sequence[UOp] = ()) -> list[UOp]:
    """The roots without ops that a target lacks; values that are `known` are without already."""
    new: dict[UOp, UOp] = dict(zip(known, known))
    for node in walk(roots, lambda u: u not in new):
        if node in new:
            continue
        src = tuple([new.get(s, s) for s in node.src])
        if node.op in lacks:
            known = () if node.arg is None else (node.arg,)
            emulated = EMULATED[node.op](*src, *known)
            # What it is made of may be lacking, too: down to the operands, which are done.
            new[node] = _emulate([emulated], lacks - {node.op}, src)[0]
        else:
            new[node] = rebuild(node, src)
    return [new[root] for root in roots]


_COMPUTED = ELEMENTWISE - {Op.WHERE, Op.CAST, Op.BITCAST, Op.DETACH}


def _rewrite(node: UOp, src: tuple[UOp, ...]) -> UOp:
    rule = DECOMPOSE.get(node.op)
    # In float32, products and sums of 16-bit floats are exact enough to be rounded once.
    if node.op in _COMPUTED and src[0].dtype in HALF_FLOATS:
        wide = tuple([_widen(s) for s in src])
        like = UOp(node.op, wide, node.arg)
        value = like if rule is None else rule(like, *wide)
        return value if node.op in COMPARE else cast(value, node.dtype)
    return rebuild(node, src) if rule is None else rule(node, *src)


def _widen(x: UOp) -> UOp:
    if x.op is Op.CONST:  # now, rather than in every iteration
        return const(float(x.arg.value), FLOAT32, x.shape)
    return cast(x, FLOAT32)
