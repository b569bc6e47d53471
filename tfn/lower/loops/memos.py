"""Kept values (MEMO) of a nest: whether its order of loops lets a result hold them meanwhile.

The reduction that keeps a row has to run once, before all loops that read it, on the same thread::

    for r0: (for r1: v0 += (k[r0, r1] := x));  for r2: k[r0, r2] / v0    kept
    for r2: for r0: ...                                                  computed again
"""

from __future__ import annotations

from dataclasses import replace

from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops.loop_nest import Nest
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, mapped, nodes


def checked(n: Nest) -> Nest:
    """The nest, its values computed again unless all that are kept may be."""
    memos = [u for u in nodes(n.body) if u.op is Op.MEMO]
    keeps = all(_in_order(n, u) and _contiguous(u) for u in memos)
    return n if keeps else replace(n, body=computed_again(n.body))


def computed_again(body: UOp) -> UOp:
    """The body with nothing kept."""

    def computed(u: UOp, again: UOp) -> UOp:
        return again.src[0] if u.op is Op.MEMO else again

    return mapped([body], computed, order=nodes(body))[0]


def _in_order(n: Nest, memo: UOp) -> bool:
    """Whether the reduction that keeps a row is a loop outside of all that it does not depend on.

    Without a loop the row is in registers, and loads would wait for stores of other widths.
    """
    if len(memo.src) == 3:
        return True
    fold = memo.src[3]
    if all(r.arg.place is not Place.LOOP for r in fold.src[1:]):
        return False
    rows = dependences(n.body)[fold]
    loops = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
    around = [r in rows for r in loops]
    alone = all(r in rows for r in loops if r.arg.place is Place.PARALLEL)
    return alone and around == sorted(around, reverse=True)


def _contiguous(memo: UOp) -> bool:
    """Whether vectors are kept as they are: the elements of a vector follow each other."""
    terms, _ = affine(memo.src[2])
    return all(abs(k) == 1 for r, k in terms.items() if r.op is Op.RANGE and _is_lane(r))


def _is_lane(r: UOp) -> bool:
    return bool(r.arg.place is Place.LANE)
