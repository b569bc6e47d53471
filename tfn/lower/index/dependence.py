"""Which ranges a value depends on: all that its placement, and its sharing, follow from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes


@lru_cache(maxsize=64)
def dependences(body: UOp) -> Mapping[UOp, tuple[UOp, ...]]:
    """For each node the ranges it depends on, in the order of their numbers."""
    bits: dict[UOp, int] = {}  # of each range; of a node, those of all that it depends on
    sets: dict[UOp, int] = {}
    shared: dict[int, tuple[UOp, ...]] = {}
    out: dict[UOp, tuple[UOp, ...]] = {}
    for node in nodes(body):
        found = 0
        if node.op is Op.RANGE:
            found = bits[node] = 1 << len(bits)
        elif node.op is Op.FOLD:
            found = sets[node.src[0]]
            for r in node.src[1:]:
                found &= ~bits[r]
        else:
            for s in node.src:
                found |= sets[s]
        sets[node] = found
        order = shared.get(found)
        if order is None:
            ranges = [r for r, bit in bits.items() if found & bit]
            order = shared[found] = tuple(sorted(ranges, key=lambda r: r.arg.number))
        out[node] = order
    return out
