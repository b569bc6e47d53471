"""Legalisation: operations that no language has, as operations that all have.

    q = x // y              ->   t = y == 0 or y == -1; d = where(t, 1, y)
                                 q = quotient(x, d); r = x - q * d
                                 q = where((r ^ d) < 0 and r != 0, q - 1, q)
                                 q = where(y == -1, -x, q); q = where(y == 0, 0, q)

    float32(b), b bfloat16  ->   bitcast(uint32(bitcast(b)) << 16)

So renderers are tables of single instructions.  It is the last step before the text: the pictures
of kernels, and the passes that look at indices, see the operations of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.dtypes import BFLOAT16, FLOAT32, SIGNED, UINT32, uint16
from tfn.trace.build import bitcast, cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, rebuild, walk


def legalized(items: Sequence[UOp]) -> tuple[UOp, ...]:
    """The same instructions, in operations that all languages have."""
    if not any(u.op in LEGAL for u in items):
        return tuple(items)
    new: dict[UOp, UOp] = {}
    out: list[UOp] = []
    placed: list[set[UOp]] = [set()]  # in each loop that is open: those before dominate
    for u in items:
        v = rebuild(u, tuple([new.get(s, s) for s in u.src]))
        rule = LEGAL.get(v.op)
        new[u] = value = v if rule is None else rule(v)
        if value is v:
            out.append(v)
        else:
            steps = _steps(value, set[UOp]().union(v.src, *placed))
            placed[-1].update(steps)
            out += steps
        if u.op is Op.LOOP:
            placed.append(set())
        elif u.op is Op.END:
            placed.pop()
    return tuple(out)


def _steps(value: UOp, known: set[UOp]) -> list[UOp]:
    """The instructions of a value, but those that there are already."""
    nodes = walk([value], lambda s: s not in known)
    return [s for s in nodes if s not in known and s.op is not Op.CONST]


def _number(value: int, like: UOp) -> UOp:
    return const(value, like.dtype, like.shape)


def _where(condition: UOp, x: UOp, y: UOp) -> UOp:
    return UOp(Op.WHERE, (condition, x, y))


def _equal(x: UOp, value: int) -> UOp:
    return UOp(Op.EQ, (x, _number(value, x)))


def _division(u: UOp) -> UOp:
    """Floor division and modulo of integers; division by zero gives 0, never a trap.

    By powers of two they are a shift and a mask, of negative numbers too.
    """
    x, y = u.src
    signed, is_modulo = u.dtype in SIGNED, u.op is Op.MOD
    constant = int(y.arg.value) if y.op is Op.CONST else 0
    if constant > 0 and not constant & (constant - 1):
        shift = constant.bit_length() - 1
        return x & _number(constant - 1, x) if is_modulo else x >> _number(shift, x)
    zero, one = _number(0, x), _number(1, x)
    divisor, traps, negates = y, None, None
    if constant <= 0:
        by_zero = traps = _equal(y, 0)
        if signed:  # x // -1 overflows for the smallest x: it is -x, which wraps around
            negates = _equal(y, -1)
            traps = by_zero | negates
        divisor = _where(traps, one, y)
    quotient = UOp(Op.QUOTIENT, (x, divisor))
    rest = x - quotient * divisor
    if signed:  # truncated to floored: one less where the signs differ and there is a remainder
        adjust = UOp(Op.LT, (rest ^ divisor, zero)) & UOp(Op.NE, (rest, zero))
        rest = _where(adjust, rest + divisor, rest)
        quotient = _where(adjust, quotient - one, quotient)
    if traps is None:
        return rest if is_modulo else quotient
    if is_modulo:
        return _where(traps, zero, rest)
    if negates is not None:
        quotient = _where(negates, -x, quotient)
    return _where(by_zero, zero, quotient)


def _cast(u: UOp) -> UOp:
    """Casts of bfloat16, the upper half of a float32: widened by a shift, rounded half to even."""
    (x,) = u.src
    if BFLOAT16 not in (x.dtype, u.dtype) or FLOAT32 not in (x.dtype, u.dtype):
        return u  # decompose goes through float32
    if u.dtype == FLOAT32:
        return bitcast(cast(bitcast(x, uint16.dtype), UINT32) << 16, FLOAT32)
    bits = bitcast(x, UINT32)
    rounded = bits + ((bits >> 16) & 1) + 0x7FFF
    # Rounding could carry the bits of a NaN into those of a number: it is made quiet instead.
    chosen = _where(UOp(Op.NE, (x, x)), bits | 0x400000, rounded)
    return bitcast(cast(chosen >> 16, uint16.dtype), BFLOAT16)


LEGAL: dict[Op, Callable[[UOp], UOp]] = {
    **dict.fromkeys((Op.FLOORDIV, Op.MOD), _division),
    Op.CAST: _cast,
}
"""The operations that become others; the functions return one that is legal as it is."""
