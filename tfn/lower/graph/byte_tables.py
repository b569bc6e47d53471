"""Functions of a byte as tables: what is computed of one quantized value, before it meets another.

    q: u8[N].  y = (q - 119) * s.  z = round(clip(y / 6 + 0.5) / t) * t.  round(y * z / v)
    ->   table = barrier (the same of q = 0, ..., 255).  table[q]

Between two roundings a network of 8 bits divides and rounds again: a hard swish of 112 x 112 x 16
codes took 270 us of 345, and takes 130 by a table.  Scales of the network are captured, so that the
table is one of the prelude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfn.dtypes import INT32, int8, uint8
from tfn.lower.index.intervals import limits
from tfn.trace import build
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, mapped, rebuild, walk

ENTRIES = 256

MIN_ELEMENTS = 16 * ENTRIES
"""Elements from which on the table costs little beside them."""

MIN_COST = 24
"""Operations in a row that take as long, by vectors, as the load of an element from a table."""

COST = {Op.DIV: 4, Op.ROUND: 2, Op.EXP: 12, Op.ERF: 16, Op.TANH: 16, Op.LOGISTIC: 16, Op.LOG: 12}
"""Operations that an op counts for, if more than one."""

_BYTES = {uint8.dtype, int8.dtype}
_REPEATED = {Op.EXPAND, Op.RESHAPE, Op.PERMUTE}


def byte_tables(outputs: Sequence[UOp]) -> list[UOp]:
    """The outputs, with costly functions of a byte read from tables."""
    order = list(walk(outputs))
    if not any(map(_is_code, order)):
        return list(outputs)
    codes = _codes(order)
    cost = dict[UOp, int]()  # of the longest chain of operations
    ends = {u for u in outputs if u in codes}
    for u in order:
        ends.update(s for s in u.src if s in codes and codes[s] is not codes.get(u))
        if codes.get(u, u) is not u:
            cost[u] = COST.get(u.op, 1) + max(cost.get(s, 0) for s in u.src)
    tables = _tables([u for u in order if u in ends and cost.get(u, 0) >= MIN_COST], codes)
    new = dict[UOp, UOp]()

    def looked_up(node: UOp, u: UOp) -> UOp:
        if node in tables:
            code = new[codes[node]]  # which may be read from a table itself
            index = build.cast(code, INT32) - limits(code.dtype)[0]
            index = build.reshape(index, (*index.shape, 1))
            u = build.reshape(build.gather(tables[node], index, (1,)), node.shape)
        new[node] = u
        return u

    return mapped(outputs, looked_up, order=order) if tables else list(outputs)


def _is_code(u: UOp) -> bool:
    return u.dtype in _BYTES and u.size >= MIN_ELEMENTS


def _codes(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """The bytes that a node is computed of, with numbers that are the same for all elements."""
    codes, uniform = dict[UOp, UOp](), set[UOp]()
    for u in order:
        if u.op is Op.CONST or u.size == 1 or (u.op in _REPEATED and u.src[0] in uniform):
            uniform.add(u)
            continue
        of = {codes.get(s) for s in u.src if s not in uniform}
        code = of.pop() if u.op in ELEMENTWISE and len(of) == 1 else None
        if code is not None:
            codes[u] = code
        elif u.op not in _REPEATED and _is_code(u):
            codes[u] = u
    return codes


def _tables(ends: Sequence[UOp], codes: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """The functions of all bytes, in the order of their numbers."""
    new, shape = dict[UOp, UOp](), (ENTRIES,)
    for u in walk(ends, lambda u: codes.get(u, u) is not u):
        if u not in codes:
            number = u
            while number.op is not Op.CONST and number.size > 1:
                number = number.src[0]
            whole = number if number.op is Op.CONST else build.reshape(number, (1,))
            new[u] = build.expand(whole, shape)
        elif codes[u] is u:
            new[u] = build.cast(build.iota(shape, 0, INT32) + limits(u.dtype)[0], u.dtype)
        else:
            new[u] = rebuild(u, tuple([new[s] for s in u.src]))
    return {u: UOp(Op.GBARRIER, (new[u],)) for u in ends}
