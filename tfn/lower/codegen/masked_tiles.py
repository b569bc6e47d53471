"""Sums that nobody looks at are not summed up: those of a tile that a mask hides as a whole.

    s[q, k] = where(k <= q, a[q] @ b[k], -1e9)

    for tile: for depth: sums += ...          ->   for tile: if k0 <= q0 + 3: for depth: sums += ...

A mask counts if it compares sums of ranges, and of what does not vary within a tile, by integers
that do not wrap around.  What is hidden may be anything, so no value changes, be it NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

from tfn._support.frozen import frozen
from tfn.dtypes import INTEGERS
from tfn.lower.index.affine import affine, plus, span
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import Facts
from tfn.lower.index.laws import simplify
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes, walk

INSIDE = frozenset({Place.UPCAST, Place.LANE, Place.UNIT})
"""Where the ranges of a tile are."""

FAR = 1 << 30
"""Numbers from memory are taken to be below this, so that sums of a few do not wrap around."""


@frozen
class Mask:
    """A condition that holds somewhere in a tile only if a sum over its outer loops is <= `most`.

    Attributes:
        terms: what varies from tile to tile, with coefficients.
        most: the bound.
        read: numbers from memory among the terms; nothing is known if they are not below `FAR`.
    """

    terms: tuple[tuple[UOp, int], ...]
    most: int
    read: tuple[UOp, ...]


@lru_cache(maxsize=64)
def wanted(body: UOp) -> Mapping[UOp, tuple[Mask, ...]]:
    """For each reduction the masks outside of which nobody looks at it."""
    order = nodes(body)
    if not {Op.FOLD, Op.WHERE} <= {u.op for u in order}:
        return {}
    depends = dependences(body)
    under: dict[UOp, tuple[UOp, ...]] = {}
    found: dict[UOp, tuple[Mask, ...]] = {}
    for node in reversed(order):
        here = under.get(node, ())
        if node.op is Op.FOLD and here:
            around = {r for r in depends[node] if r.arg.place not in INSIDE}
            found[node] = tuple(m for u in here for m in _masks(simplify(u), around))
        for i, s in enumerate(node.src):
            mine = here
            if node.op is Op.WHERE and i:
                mine = (*here, node.src[0] if i == 1 else ~node.src[0])
            under[s] = tuple(u for u in under[s] if u in mine) if s in under else mine
    return {u: masks for u, masks in found.items() if masks}


def _masks(condition: UOp, around: AbstractSet[UOp]) -> list[Mask]:
    """What a condition says of whole tiles, by the loops that are around them."""
    if condition.op is Op.AND:
        return [m for s in condition.src for m in _masks(s, around)]
    if condition.op not in (Op.LT, Op.LE):
        return []
    low, high = condition.src
    if low.dtype not in INTEGERS:
        return []
    read = tuple(u for u in walk(condition.src) if u.op is Op.LOAD)
    facts = Facts(dict.fromkeys(read, (-FAR, FAR)))
    if not (facts.exact(low) and facts.exact(high) and all(_known(u, around) for u in read)):
        return []
    terms, constant = affine(low)
    others, other = affine(high)
    most = other - constant - (condition.op is Op.LT)
    outer: dict[UOp, int] = {}
    for u, k in plus(terms, others, -1).items():
        at = u.src[0] if u.op is Op.CAST else u
        if _known(at, around):
            outer[at] = outer.get(at, 0) + k
        else:
            least, largest = facts.interval(at)
            most -= min(k * least, k * largest)
    always = span(outer, 0, facts)[1] <= most
    return [] if always else [Mask(tuple(outer.items()), most, read)]


def _known(u: UOp, around: AbstractSet[UOp]) -> bool:
    """Whether a number is the same all over a tile."""
    return all(r in around for r in walk([u]) if r.op is Op.RANGE)
