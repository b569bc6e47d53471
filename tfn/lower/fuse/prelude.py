"""Prelude: the kernels that read captured arrays alone, taken out of a function and run once.

    { lambda a | w.  b = barrier[0] (panels w);  c = barrier[1] (dot a b) }
    { lambda a w b.  c = barrier[1] (dot a b) }     { lambda w.  b = barrier[0] (panels w) }

A captured array is the same in every call: so are the copies that pack it for products, weights
that are scaled or transposed, masks made of them.  Their memory lives as long as the program's
entry point.  What fusion computes where it is read stays there.
"""

from __future__ import annotations

from dataclasses import replace

from tfn.lower.fuse.analysis import output_in_memory
from tfn.lower.graph.constants import taking
from tfn.trace.jaxpr import function as make_function
from tfn.trace.jaxpr import param
from tfn.trace.op import ELEMENTWISE, MOVEMENT, Op
from tfn.trace.uop import UOp, substitute, walk

MAX_PRELUDE_BYTES = 1 << 30
"""Bytes of all values that a prelude computes: those beyond are computed in each call."""

_PURE = ELEMENTWISE | MOVEMENT
_PURE |= {Op.CONST, Op.IOTA, Op.GBARRIER, Op.DOT, Op.CONV, Op.REDUCE, Op.CONCAT, Op.GATHER}
"""Ops of a prelude; loops, sorts and effects stay in the program."""


def split(function: UOp, first: int) -> tuple[UOp, UOp | None]:
    """A function with barriers whose last parameters are values of its prelude, and the prelude.

    The prelude takes the parameters from `first` on.  None stands for it, and the first is the
    function itself, if there is nothing to take out.
    """
    early = _early(function, first)
    found = [u for u in walk(function.src, lambda u: u not in early) if u in early]
    if not found:
        return function, None
    reduced = taking(function, found)
    old = function.arg.params[first:]
    own = tuple([replace(p, index=i) for i, p in enumerate(old)])
    renamed = {param(p): param(q) for p, q in zip(old, own, strict=True)}
    return reduced, make_function(substitute(found, renamed), own)


def _early(function: UOp, first: int) -> set[UOp]:
    """The barriers that depend on parameters from `first` on and on nothing else."""
    reads: dict[UOp, bool | None] = {}  # whether it reads one; None for what does not only that
    early: set[UOp] = set()
    size_bytes = 0
    for node in walk(function.src):
        if node.op is Op.PARAM:
            reads[node] = True if node.arg.index >= first else None
        else:
            is_pure = node.op in _PURE and all(reads[s] is not None for s in node.src)
            reads[node] = any(reads[s] for s in node.src) if is_pure else None
        if node.op is Op.GBARRIER:
            early -= set(node.src[1:])  # what another kernel waits for stays a kernel
            size_bytes += node.size * node.dtype.itemsize if reads[node] else 0
            if reads[node] and size_bytes <= MAX_PRELUDE_BYTES:
                early.add(node)
    # A result is new memory in each call: what it is the memory of stays a kernel.
    return early - set(map(output_in_memory, function.src))
