"""Tables: values that depend on no argument and are costly to compute, taken out of a function.

    { lambda ; a. let r = sin iota; b = a * r in b }   ->   { lambda ; a r. let b = a * r in b }
                                                            { lambda ; . let r = sin iota in r }

The loader of the program computes the tables once, by a program of their own, and passes them as
further inputs: roots of unity, positions' sines, windows.  What is cheap stays where it is read: a
mask of comparisons costs less than the memory that it would take.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.lower.math.decompose import FUNCTION_INSTRUCTIONS, INSTRUCTIONS
from tfn.trace.argument import Param
from tfn.trace.jaxpr import function as make_function
from tfn.trace.jaxpr import param
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op
from tfn.trace.uop import UOp, substitute, walk

MIN_TABLE_INSTRUCTIONS = 1 << 12
"""Instructions of scalars from which on a table pays: about 0.1 us by vectors."""

MAX_TABLE_BYTES = 1 << 20
"""Bytes of a table up to which it is kept: half of an L2 cache."""

MAX_TABLES_BYTES = 1 << 23
"""Bytes of all tables of a program."""

_FREE = ELEMENTWISE | MOVEMENT | {Op.CONST, Op.IOTA, Op.GBARRIER, Op.DOT, Op.REDUCE, Op.CONCAT}
"""Ops of tables; other ops, of loops and effects among them, stay in the program."""


def hoist(function: UOp) -> tuple[UOp, UOp | None]:
    """A function whose last parameters are its tables, and the function that computes them.

    None stands for the second, and the first is the function itself, if there is no table.
    """
    tables = _tables(function)
    if not tables:
        return function, None
    return taking(function, tables), make_function(tables, ())


def taking(function: UOp, values: Sequence[UOp]) -> UOp:
    """The function with some of its values as last parameters."""
    first = len(function.arg.params)
    params = tuple([Param(i, u.shape, u.dtype) for i, u in enumerate(values, first)])
    new = dict(zip(values, map(param, params), strict=True))
    return make_function(substitute(function.src, new), (*function.arg.params, *params))


def _tables(function: UOp) -> list[UOp]:
    """The tables of a function, in order: computed values that others than tables read."""
    free: dict[UOp, bool] = {}
    found: dict[UOp, None] = {}
    for node in walk(function.src):
        if node.op is Op.FUNCTION:
            free[node] = False
            continue
        free[node] = node.op in _FREE and all(free[s] for s in node.src)
        if not free[node]:
            for s in node.src:
                if s.op is not Op.FUNCTION and free[s]:
                    found[_computed(s)] = None
    chosen, total_bytes = [], 0
    for node in found:
        size_bytes = node.size * node.dtype.itemsize
        if size_bytes <= MAX_TABLE_BYTES and _is_costly(node):
            total_bytes += size_bytes
            if total_bytes <= MAX_TABLES_BYTES:
                chosen.append(node)
    return chosen


def _computed(node: UOp) -> UOp:
    """The value of which a node is a view."""
    while node.op in MOVEMENT - {Op.CONCAT} or node.op is Op.GBARRIER:
        node = node.src[0]
    return node


def _is_costly(table: UOp) -> bool:
    instructions = 0
    for node in walk([table]):
        if node.op in (Op.DOT, Op.REDUCE):
            instructions += FUNCTION_INSTRUCTIONS * max(s.size for s in (node, *node.src))
        instructions += INSTRUCTIONS[node.op] * node.size
    enough = MIN_TABLE_INSTRUCTIONS, FUNCTION_INSTRUCTIONS * table.size
    return instructions >= max(enough)
