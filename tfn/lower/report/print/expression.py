"""Expression printer: one operation as Python writes it, with as few parentheses as it needs.

mul (sin x) (add y 2.0)   ->   sin(a[r0]) * (v1 + 2.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfn.dtypes import BOOL, SHORT
from tfn.trace.op import Op
from tfn.trace.pattern import INFIX, PREFIX
from tfn.trace.uop import UOp

ATOM_LEVEL = 9
"""Precedence of texts that never need parentheses: names, literals, calls."""

_SWAPPED = {Op.LT: ">", Op.LE: ">="}
_BITS = frozenset({Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR})
_LOGIC = {Op.OR: ("or", 1), Op.MAX: ("or", 1), Op.AND: ("and", 3), Op.MIN: ("and", 3)}
_FUNCTIONS = {Op.MAX: "max", Op.MIN: "min", Op.WHERE: "where"}


class Text(NamedTuple):
    """An expression, and the precedence of its outermost operator."""

    text: str
    level: int = ATOM_LEVEL

    def within(self, level: int) -> str:
        """The text as an operand of an operator of this level."""
        return self.text if self.level >= level else f"({self.text})"


def literal(u: UOp) -> str:
    """A constant, in as few digits as its dtype needs to tell it from others."""
    return str(u.arg.value)


def operation(u: UOp, sources: Sequence[Text]) -> Text:
    """A node as Python writes it, from the texts of its sources."""
    if u.op is Op.CONST:
        return Text(literal(u))
    if u.op is Op.RANGE:
        return Text(f"r{u.arg.number}")
    if u.op in _SWAPPED and u.src[0].op is Op.CONST:
        return Text(f"{sources[1].within(5)} {_SWAPPED[u.op]} {sources[0].within(5)}", 4)
    if u.dtype == BOOL and u.op in _LOGIC:
        word, level = _LOGIC[u.op]
        return Text(
            f" {word} ".join((sources[0].within(level), sources[1].within(level + 1))), level
        )
    if u.dtype == BOOL and u.op is Op.NOT:
        return Text(f"not {sources[0].within(4)}", 3)
    if u.op in INFIX:
        return _infix(u, *sources)
    if u.op in PREFIX:
        return Text(f"{PREFIX[u.op]}{sources[0].within(8)}", 8)
    name = _FUNCTIONS.get(u.op, u.op.value)
    if u.op in (Op.CAST, Op.BITCAST):
        name = SHORT[u.dtype] if u.op is Op.CAST else f"bits_{SHORT[u.dtype]}"
    return Text(f"{name}({', '.join(s.text for s in sources)})")


def _infix(u: UOp, left: Text, right: Text) -> Text:
    symbol, level = INFIX[u.op]
    if u.op is Op.ADD and u.src[1].op is Op.CONST and right.text.startswith("-"):
        symbol, right = "-", Text(right.text[1:])
    if u.op in _BITS:  # Python's precedence of these is not widely known: parentheses always
        before, after = level if u.src[0].op is u.op else 8, 8
    else:  # chains of products and quotients are easily misread without parentheses
        before = level + (level == 7 and u.src[0].op in INFIX and u.src[0].op is not u.op)
        after = level + 1
    return Text(f"{left.within(before)} {symbol} {right.within(after)}", level)
