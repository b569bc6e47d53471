"""Dependence analysis: the ranges that each node of a kernel depends on.

A value can be computed in any loop nest that has these ranges, and is computed in the outermost:
loop-invariant code motion, vectorisation and costs all follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes


@lru_cache(maxsize=64)
def dependences(body: UOp) -> Mapping[UOp, tuple[UOp, ...]]:
    """For each node the ranges it depends on, in the order of their numbers.

    A FOLD does not depend on the ranges that it reduces; a RANGE depends on itself alone.
    """
    # Sets of ranges are bit masks, so that unions are cheap; nodes of one mask share one tuple.
    bits: dict[UOp, int] = {}
    range_of: dict[int, UOp] = {}
    masks: dict[UOp, int] = {}
    ranges_of: dict[int, tuple[UOp, ...]] = {}
    depends: dict[UOp, tuple[UOp, ...]] = {}
    for node in nodes(body):
        mask = 0
        if node.op is Op.RANGE:
            mask = bits[node] = 1 << len(bits)
            range_of[mask] = node
        elif node.op is Op.FOLD:
            mask = masks[node.src[0]]
            for r in node.src[1:]:
                mask &= ~bits[r]
        else:
            for s in node.src:
                mask |= masks[s]
        masks[node] = mask
        order = ranges_of.get(mask)
        if order is None:
            ranges, rest = [], mask  # a mask has few bits, however many ranges there are
            while rest:
                lowest = rest & -rest
                ranges.append(range_of[lowest])
                rest ^= lowest
            order = ranges_of[mask] = tuple(sorted(ranges, key=lambda r: r.arg.number))
        depends[node] = order
    return depends
