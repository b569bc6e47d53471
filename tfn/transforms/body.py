"""The functions inside loops and branches, as the rules of those need them.

A FUNCTION is opened on fresh leaves, so that a transform can work on its graph, and closed again.
`residuals` finds what a linear graph takes from the computation beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfn.trace.build import spread, zeros
from tfn.trace.jaxpr import Jaxpr, function, inline, param
from tfn.trace.op import Leaf, Op, Param
from tfn.trace.uop import UOp, substitute, walk


class Lanes(NamedTuple):
    """A value under `vmap`: with the new axis in front, or the same in every lane."""

    graph: UOp
    many: bool

    def full(self, size: int) -> UOp:
        """The value with the new axis."""
        return self.graph if self.many else spread(self.graph, size)


def fresh(like: UOp | Param) -> UOp:
    """A new leaf of a shape and dtype."""
    return UOp(Op.LEAF, (), Leaf(like.shape, like.dtype))


def opened(f: UOp) -> tuple[list[UOp], list[UOp]]:
    """Fresh leaves for the parameters of a FUNCTION, and its outputs over them."""
    inputs = [fresh(p) for p in f.arg.params]
    return inputs, inline(Jaxpr(f), inputs)


def closed(outputs: Iterable[UOp], inputs: Sequence[UOp]) -> UOp:
    """The FUNCTION of graphs over leaves, which are all the leaves that they have."""
    params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(inputs))
    return function(substitute(outputs, dict(zip(inputs, map(param, params)))), params)


def filled(u: UOp | None, like: UOp) -> UOp:
    """A node, or zeros where None stands for them."""
    return zeros(like.shape, like.dtype) if u is None else u


def depending(outputs: Sequence[UOp], inputs: Iterable[UOp]) -> dict[UOp, None]:
    """The nodes that depend on some of their leaves, sources first, beginning with those."""
    found = dict.fromkeys(inputs)
    for node in walk(outputs):
        if node.op is not Op.FUNCTION and not found.keys().isdisjoint(node.src):
            found[node] = None
    return found


_VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP})
_NUMBERS = frozenset({Op.CONST, Op.IOTA, Op.FUNCTION})


def residuals(outputs: Sequence[UOp], inputs: Sequence[UOp]) -> list[UOp]:
    """The nodes that graphs need beside what is linear in the inputs.

    Constants are made again and views taken again, so that nothing is kept twice.
    """
    linear = depending(outputs, inputs)
    found: dict[UOp, None] = {}
    seen: set[UOp] = set()
    waiting = [u for u in outputs if u not in linear]
    waiting += [s for node in linear for s in node.src if s not in linear]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op in _VIEWS:
            waiting.extend(node.src)
        elif node.op not in _NUMBERS:
            found[node] = None
    return list(found)
