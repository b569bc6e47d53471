"""Rewrite laws as data: two graphs over holes, the condition for their equality, and a sort.

    law("mod-mod", (x % c) % d, x % d, where=(c > 0) & (d > 0) & (c % d < 1), over=INDEX)

A hole is a pattern variable: it matches any value of its sort, or any constant.  One law is run
(`matcher`, `builder`), printed, and proved: the tests give every law to z3 over its sort.  Sorts
exist because laws differ by them: ``(x * c) // c -> x`` holds in Z and fails in 32 bits;
``x + 0 -> x`` is false at -0.0.
"""

from __future__ import annotations

from collections.abc import Callable

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, FLOAT32, FLOATS, INT32, INT64, INTEGERS, DType
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const, walk


@frozen
class Sort:
    """The values that a law speaks of.

    Attributes:
        name: as laws print it.
        dtype: of the holes of this sort in a law.
        dtypes: of the values that they match.
        unbounded: whether the law is about Z, and so only for arithmetic that never wraps around.
    """

    name: str
    dtype: DType
    dtypes: frozenset[DType]
    unbounded: bool = False

    def __str__(self) -> str:
        return self.name


INDEX = Sort("INDEX", INT64, frozenset({INT64}), unbounded=True)
INT = Sort("INT", INT32, INTEGERS)
FLOAT = Sort("FLOAT", FLOAT32, FLOATS)
BITS = Sort("BITS", BOOL, frozenset({BOOL}))


@frozen
class Hole:
    """The argument of a LEAF that matches any value of a dtype, or, if `constant`, any CONST."""

    name: str
    dtype: DType
    constant: bool = False
    shape: Shape = ()


@frozen
class Law:
    """`lhs` becomes `rhs` wherever `where` is true of every element; over one sort.

    Example:
        >>> x, c = hole("x", INDEX), hole("c", INDEX, constant=True)
        >>> print(law("mod-mod", (x % c) % c, x % c, where=c > 0, over=INDEX))
        (x % c) % c -> x % c  where c > 0  over INDEX
    """

    name: str
    lhs: UOp
    rhs: UOp
    where: UOp | None
    over: Sort

    def __str__(self) -> str:
        condition = "" if self.where is None else f"  where {infix(self.where)}"
        return f"{infix(self.lhs)} -> {infix(self.rhs)}{condition}  over {self.over}"


def hole(name: str, over: Sort, constant: bool = False) -> UOp:
    """The hole of a name: the same name is the same value throughout a law."""
    return UOp(Op.LEAF, (), Hole(name, over.dtype, constant))


def law(name: str, lhs: UOp, rhs: UOp, over: Sort, where: UOp | None = None) -> Law:
    """A law; its right side and its condition may use only what its left side binds."""
    bound = {u for u in walk([lhs]) if u.op is Op.LEAF}
    used = {u for u in walk([rhs] if where is None else [rhs, where]) if u.op is Op.LEAF}
    assert lhs.op not in (Op.LEAF, Op.CONST), f"law {name} would match everything"
    assert lhs.dtype == rhs.dtype, f"law {name} changes the dtype"
    assert used <= bound, f"law {name} uses holes that its left side does not bind"
    return Law(name, lhs, rhs, where, over)


Bindings = dict[UOp, UOp]
Matcher = Callable[[UOp, Bindings], bool]
Builder = Callable[[Bindings, DType, Shape], UOp]


def matcher(pattern: UOp, over: Sort) -> Matcher:
    """A closure that says whether a node has the form of `pattern`, and binds its holes."""
    return _matcher(pattern, over, set())


def _matcher(pattern: UOp, over: Sort, bound: set[UOp]) -> Matcher:
    if pattern.op is Op.LEAF:
        if pattern in bound:
            return lambda node, bindings: bindings[pattern] is node
        bound.add(pattern)
        dtypes = over.dtypes if pattern.dtype == over.dtype else frozenset({pattern.dtype})
        return _binder(pattern, dtypes, pattern.arg.constant)
    if pattern.op is Op.CONST:
        return _literal(pattern, over)
    assert pattern.arg is None, f"{pattern} is not an op that a law can match"
    # The pattern that fails fastest is matched first; holes are bound in this order too.
    order = sorted(range(len(pattern.src)), key=lambda i: _rank(pattern.src[i]))
    parts = [(i, _matcher(pattern.src[i], over, bound)) for i in order]
    return _operation(pattern.op, parts)


def _rank(pattern: UOp) -> int:
    if pattern.op is Op.CONST:
        return 0
    if pattern.op is Op.LEAF:
        return 1 if pattern.arg.constant else 3
    return 2


def _operation(op: Op, parts: list[tuple[int, Matcher]]) -> Matcher:
    if len(parts) == 1:
        ((_, only),) = parts
        return lambda node, bindings: node.op is op and only(node.src[0], bindings)
    if len(parts) == 2:
        (i, first), (j, second) = parts
        return lambda node, bindings: (
            node.op is op and first(node.src[i], bindings) and second(node.src[j], bindings)
        )
    return lambda node, bindings: (
        node.op is op and all(part(node.src[i], bindings) for i, part in parts)
    )


def _binder(hole: UOp, dtypes: frozenset[DType], constant: bool) -> Matcher:
    def bind(node: UOp, bindings: Bindings) -> bool:
        if (constant and node.op is not Op.CONST) or node.dtype not in dtypes:
            return False
        bindings[hole] = node
        return True

    return bind


def _literal(pattern: UOp, over: Sort) -> Matcher:
    value = pattern.arg.value
    dtypes = over.dtypes if pattern.dtype == over.dtype else frozenset({pattern.dtype})
    bits = {dtype: const(value, dtype).arg.bits for dtype in dtypes}
    return lambda node, bindings: node.op is Op.CONST and bits.get(node.dtype, -1) == node.arg.bits


def builder(pattern: UOp, over: Sort) -> Builder:
    """A closure that makes `pattern` from bindings, for a dtype of the sort and a shape."""
    if pattern.op is Op.LEAF:
        return lambda bindings, dtype, shape: bindings[pattern]
    if pattern.op is Op.CONST:
        value = pattern.arg.value
        if pattern.dtype != over.dtype:
            fixed = pattern.dtype
            return lambda bindings, dtype, shape: const(value, fixed, shape)
        return lambda bindings, dtype, shape: const(value, dtype, shape)
    op, parts = pattern.op, tuple(builder(s, over) for s in pattern.src)
    return lambda bindings, dtype, shape: UOp(
        op, tuple([part(bindings, dtype, shape) for part in parts])
    )


# fmt: off
INFIX = {
    Op.OR: ("|", 1), Op.XOR: ("^", 2), Op.AND: ("&", 3),
    Op.EQ: ("==", 4), Op.NE: ("!=", 4), Op.LT: ("<", 4), Op.LE: ("<=", 4),
    Op.SHL: ("<<", 5), Op.SHR: (">>", 5),
    Op.ADD: ("+", 6), Op.SUB: ("-", 6),
    Op.MUL: ("*", 7), Op.DIV: ("/", 7), Op.FLOORDIV: ("//", 7), Op.MOD: ("%", 7),
}
PREFIX = {Op.NEG: "-", Op.NOT: "~"}
# fmt: on


def infix(u: UOp) -> str:
    """A small graph as a person writes it: ``(x // c) * c + x % c``."""
    return _infix(u, 0)


def _infix(u: UOp, around: int) -> str:
    if u.op is Op.LEAF and isinstance(u.arg, Hole):
        return u.arg.name
    if u.op is Op.CONST:
        return str(u.arg.value)
    if u.op is Op.RANGE:
        return f"r{u.arg.number}"
    if u.op is Op.LT and u.src[0].op is Op.CONST:
        return _wrap(f"{_infix(u.src[1], 5)} > {_infix(u.src[0], 5)}", 4, around)
    if u.op in INFIX:
        symbol, level = INFIX[u.op]
        x, y = u.src
        # a / b * c without parentheses would read as a / (b * c) to many people.
        mixed = level == 7 and x.op in INFIX and not x.op is u.op is Op.MUL
        text = f"{_infix(x, level + mixed)} {symbol} {_infix(y, level + 1)}"
        return _wrap(text, level, around)
    if u.op in PREFIX:
        return f"{PREFIX[u.op]}{_infix(u.src[0], 8)}"
    return f"{u.op.value}({', '.join(_infix(s, 0) for s in u.src)})"


def _wrap(text: str, level: int, around: int) -> str:
    return f"({text})" if level < around else text
