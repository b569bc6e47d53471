"""Causal masks: a reduction skips the tiles that a mask hides entirely.

    s[q, k] = where(k <= q, a[q] @ b[k], -1e9)        a causal mask

    for tile: for depth: sums += ...          ->   for tile: if k0 <= q0 + 3: for depth: sums += ...

A mask counts if it compares affine forms of ranges, and of values that do not vary within a tile,
in integers that do not wrap around.  A hidden value may be anything, so no result changes, be it
NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache

from tfn._support.frozen import frozen
from tfn.dtypes import INTEGERS
from tfn.lower.index.affine import add_scaled, affine, sum_interval
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import Facts
from tfn.lower.index.simplify import simplify
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes, walk

TILE_PLACES = frozenset({Place.UPCAST, Place.LANE, Place.UNIT})
"""The places of ranges within a tile; all others are loops over tiles."""

LOADED_BOUND = (1 << 30) - 1
"""Magnitude that integers from memory are assumed to have at most, and are tested for at run time.

A quarter of the range of 32 bits: neither sum nor difference of two such numbers wraps around.
"""


@frozen
class TileMask:
    """A condition that holds somewhere in a tile only if a sum over its outer loops is <= `bound`.

    Attributes:
        terms: values that vary from tile to tile, with coefficients.
        bound: the largest sum with which the tile is not hidden.
        loaded: integers from memory among the terms; the tile is run if one is above
            `LOADED_BOUND`.
    """

    terms: tuple[tuple[UOp, int], ...]
    bound: int
    loaded: tuple[UOp, ...]


@lru_cache(maxsize=64)
def tile_masks(body: UOp) -> Mapping[UOp, tuple[TileMask, ...]]:
    """For each reduction the masks outside of which its value is not used."""
    order = nodes(body)
    if not {Op.FOLD, Op.WHERE} <= {u.op for u in order}:
        return {}
    depends = dependences(body)
    guards: dict[UOp, tuple[UOp, ...]] = {}  # conditions under which all users of a node are used
    masks: dict[UOp, tuple[TileMask, ...]] = {}
    for node in reversed(order):  # users before their operands
        conditions = guards.get(node, ())
        if node.op is Op.FOLD and conditions:
            outer = {r for r in depends[node] if r.arg.place not in TILE_PLACES}
            masks[node] = tuple(m for u in conditions for m in _masks(simplify(u), outer))
        for i, s in enumerate(node.src):
            inherited = conditions
            if node.op is Op.WHERE and i:
                inherited = (*conditions, node.src[0] if i == 1 else ~node.src[0])
            # Of several users only common conditions hold for the operand.
            guards[s] = tuple(u for u in guards[s] if u in inherited) if s in guards else inherited
    return {u: of_reduction for u, of_reduction in masks.items() if of_reduction}


def _masks(condition: UOp, outer: AbstractSet[UOp]) -> list[TileMask]:
    """A condition as masks of whole tiles, by the loops around them."""
    if condition.op is Op.AND:
        return [m for s in condition.src for m in _masks(s, outer)]
    if condition.op not in (Op.LT, Op.LE):
        return []
    low, high = condition.src
    if low.dtype not in INTEGERS:
        return []
    loaded = tuple(u for u in walk(condition.src) if u.op is Op.LOAD)
    facts = Facts(dict.fromkeys(loaded, (-LOADED_BOUND, LOADED_BOUND)))
    no_wrap = facts.exact(low) and facts.exact(high)
    if not (no_wrap and all(_is_uniform(u, outer) for u in loaded)):
        return []
    # low - high <= 0, or < 0, as an affine form: its part within the tile at its least.
    terms, constant = affine(low)
    other_terms, other_constant = affine(high)
    bound = other_constant - constant - (condition.op is Op.LT)
    outer_terms: dict[UOp, int] = {}
    for u, k in add_scaled(terms, other_terms, -1).items():
        value = u.src[0] if u.op is Op.CAST else u
        if _is_uniform(value, outer):
            outer_terms[value] = outer_terms.get(value, 0) + k
        else:
            least, largest = facts.interval(value)
            bound -= min(k * least, k * largest)
    never_hidden = sum_interval(outer_terms, 0, facts)[1] <= bound
    return [] if never_hidden else [TileMask(tuple(outer_terms.items()), bound, loaded)]


def _is_uniform(u: UOp, outer: AbstractSet[UOp]) -> bool:
    """Whether a value is the same all over a tile."""
    return all(r in outer for r in walk([u]) if r.op is Op.RANGE)
