"""Kept rows: expensive values that a reduction and later loops over its row share, computed once.

Before -> after, for a softmax, whose result `k` holds the exponentials until it is written::

    for r1: v1 += exp(a[r1] - v0)           for r1: v1 += (k[r1] := exp(a[r1] - v0))
    for r2: k[r2] = exp(a[r2] - v0) / v1    for r2: k[r2] = k[r2] / v1

A row is still in the cache when the next loop reads it, so a load and a store replace an elementary
function.  `MEMO` is the identity of its first operand: a pass without a rule for it computes twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn.dtypes import FLOATS
from tfn.lower.fuse.indexing import Index, Indexer, flat
from tfn.lower.index.dependence import dependences
from tfn.lower.math.decompose import FUNCTION_INSTRUCTIONS, INSTRUCTIONS
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, rebuild, substitute, walk

Store = tuple[UOp, UOp, Index]
"""A barrier, its value, and the index at which that is stored."""

MIN_KEPT_INSTRUCTIONS = FUNCTION_INSTRUCTIONS
"""Instructions of a value from which on it is kept: those of one elementary function.

A store and a load of a row in the L1 cache take about 2 cycles a vector of 8, an exponential 7.
"""

MIN_KEPT_ELEMENTS = 128
"""Elements of a row from which on it is kept.

Shorter ones are in registers, or wait for their own stores: 1,024 softmaxes of 64 take 35 us either
way, of bfloat16 63 us computed again and 90 kept.
"""

MAX_TRIED = 4
"""Values of a kernel that are tried, so that the time of lowering stays linear in its size."""

NOT_KEPT = frozenset({Op.MUL, Op.CAST, Op.BITCAST, Op.DETACH})
"""Ops whose results are not kept: a product may be part of an FMA, a cast's operand is better."""


def keep_rows(indexer: Indexer, stores: Sequence[Store]) -> list[Store]:
    """The stores of a kernel, with one value kept that several loops over its rows would compute.

    Of several such values the one is kept that spares most instructions.
    """
    values, index = [value for _, value, _ in stores], stores[0][2]
    requests: dict[UOp, dict[UOp, Index]] = {}
    for (node, own, predicate), value in indexer.memo.items():
        if predicate is None and node.op in ELEMENTWISE - NOT_KEPT and node.dtype in FLOATS:
            requests.setdefault(node, {})[value] = own
    shared = {node: at for node, at in requests.items() if len(at) > 1}
    if not shared:
        return list(stores)
    cost = _instructions(values, index)
    spared = {
        node: (len(at) - 1) * min(cost.get(u, 0) for u in at)
        for node, at in shared.items()
        if min(cost.get(u, 0) for u in at) >= MIN_KEPT_INSTRUCTIONS
        and all(_is_along(own, index) for own in at.values())
    }
    for node in sorted(spared, key=lambda node: -spared[node])[:MAX_TRIED]:
        results = [b for b, _, _ in stores if (b.shape, b.dtype) == (node.shape, node.dtype)]
        if not results:
            continue
        buffer = indexer.buffer(results[-1])
        kept = _kept(values, shared[node], index, buffer, node.shape)
        # The kept value may not be overwritten before the last store has read it.
        end = next(i for i, (b, _, _) in enumerate(stores) if b is results[-1])
        changed = [i for i, (old, new) in enumerate(zip(values, kept)) if old is not new]
        if changed and changed[-1] <= end:
            return [(b, new, at) for (b, _, at), new in zip(stores, kept)]
    return list(stores)


def _is_along(own: Index, index: Index) -> bool:
    """Whether an index differs from that of the stores only where whole axes are reduced."""
    return len(own) == len(index) and all(
        a is b or (a.op is Op.RANGE and b.op is Op.RANGE and a.arg.size == b.arg.size)
        for a, b in zip(own, index, strict=True)
    )


def _instructions(values: Sequence[UOp], index: Index) -> dict[UOp, int]:
    """The instructions on the longest path to each value from memory, or from a reduction.

    What the loops around all reductions compute, such as the deviation of a row, does not count.
    """
    depends = dependences(UOp(Op.TUPLE, tuple(values)))
    inner = {r for u in depends if u.op is Op.FOLD for r in u.src[1:]}
    for rows in (set(depends[u]) for u in depends if u.op is Op.FOLD):
        inner |= {r for r in index if r not in rows}
    cost: dict[UOp, int] = {}
    for u, ranges in depends.items():
        known = u.op in (Op.FOLD, Op.LOAD) or inner.isdisjoint(ranges)
        cost[u] = 0 if known else INSTRUCTIONS[u.op] + max([cost[s] for s in u.src], default=0)
    return cost


def _kept(
    values: Sequence[UOp], at: dict[UOp, Index], index: Index, buffer: UOp, shape: tuple[int, ...]
) -> list[UOp]:
    """The values of stores, of which the first reduction puts the uses, and the others read them.

    Args:
        values: of the stores.
        at: the uses of one value at different indices, which are loops of reductions or of stores.
        index: that of the stores.
        buffer, shape: of a result that holds the value meanwhile.
    """
    order = list(walk(values))
    holders = [u for u in order if u.op is Op.FOLD and u.arg.index is None and _uses(u, at)]
    # The first in order depends on no other one; its own uses are at the indices of its loops.
    if not holders:
        return list(values)
    first, ((put, own),) = holders[0], [*_uses(holders[0], at).items()][:1]
    reduced = {a for a, b in zip(own, index, strict=True) if a is not b}
    short = prod(r.arg.size for r in reduced) < MIN_KEPT_ELEMENTS
    if short or len(_uses(first, at)) != 1 or reduced != set(first.src[1:]):
        return list(values)
    ranges = {u for u in walk([put]) if u.op is Op.RANGE}
    if not all(a.op is Op.CONST or a in ranges for a in own):
        return list(values)  # the reduction is outside of a loop over equal rows
    new: dict[UOp, UOp] = {}
    memo = UOp(Op.MEMO, (put, buffer, flat(shape, own)))
    kept_first = substitute([first], {put: memo})[0]
    for u in order:
        if u is first:
            new[u] = kept_first
        elif u in at and u is not put:
            src = tuple([new.get(s, s) for s in u.src])
            new[u] = UOp(Op.MEMO, (rebuild(u, src), buffer, flat(shape, at[u]), kept_first))
        else:
            new[u] = rebuild(u, tuple([new.get(s, s) for s in u.src]))
    return [new[v] for v in values]


def _uses(fold: UOp, at: dict[UOp, Index]) -> dict[UOp, Index]:
    """The uses of a value in the loops of a reduction, not in reductions inside of it."""
    inside = walk([fold.src[0]], lambda u: u.op is not Op.FOLD)
    return {u: at[u] for u in inside if u in at and set(fold.src[1:]).intersection(at[u])}
