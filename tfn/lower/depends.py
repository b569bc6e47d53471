"""Which ranges a value depends on: all that its placement, and its sharing, follow from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes


@lru_cache(maxsize=64)
def dependences(body: UOp) -> Mapping[UOp, tuple[UOp, ...]]:
    """For each node the ranges it depends on, in the order of their numbers."""
    sets: dict[UOp, frozenset[UOp]] = {}
    shared: dict[frozenset[UOp], tuple[UOp, ...]] = {}
    out: dict[UOp, tuple[UOp, ...]] = {}
    for node in nodes(body):
        if node.op is Op.RANGE:
            found = frozenset({node})
        elif node.op is Op.FOLD:
            found = sets[node.src[0]] - frozenset(node.src[1:])
        elif len(node.src) == 1:
            found = sets[node.src[0]]
        else:
            found = frozenset[UOp]().union(*[sets[s] for s in node.src])
        sets[node] = found
        order = shared.get(found)
        if order is None:
            order = shared[found] = tuple(sorted(found, key=lambda r: r.arg.number))
        out[node] = order
    return out
