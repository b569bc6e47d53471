"""Values that take turns in memory, as complex numbers do, read and written as whole vectors.

Before -> after, in the instructions of a kernel::

    x = load a[i + 2*lane];  y = load a[i + 1 + 2*lane]

    low = load a[i + lane];  high = load a[i + n + lane]
    x = shuffle low high, 0 2 4 ...;  y = shuffle low high, 1 3 5 ...

and stores likewise.  Only where both are there, in one run of instructions: then exactly the same
elements are read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfn.dtypes import BOOL
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, rebuild

ACCESSES = frozenset({Op.LOAD, Op.STORE})
ENDS = frozenset({Op.LOOP, Op.LEAVE, Op.END})
"""Between two of these is one run of instructions."""


def interleave(items: Sequence[UOp]) -> tuple[UOp, ...]:
    """The same instructions, with what loads and stores every second element done two by two."""
    partners = _partners(items)
    if not partners:
        return tuple(items)
    new: dict[UOp, UOp] = {}
    stored: set[UOp] = set()
    out: list[UOp] = []
    for u in items:
        made = rebuild(u, tuple([new.get(s, s) for s in u.src]))
        pair = partners.get(u)
        if pair is None:
            new[u] = made
            out.append(made)
        elif u.op is Op.LOAD:
            if u not in new:  # not done with its partner
                vectors = _halves(made, pair[0].arg)
                lanes = u.arg.lanes
                found = [UOp(Op.SHUFFLE, vectors, tuple(range(i, 2 * lanes, 2))) for i in range(2)]
                new |= zip(pair, found, strict=True)
                out += [*vectors, *found]
        else:
            stored.add(u)
            if stored >= set(pair):  # the later one writes for both
                out += _stores(made, pair[0].arg, *(new.get(s.src[2], s.src[2]) for s in pair))
    return tuple(out)


def _partners(items: Sequence[UOp]) -> dict[UOp, tuple[UOp, UOp]]:
    """Loads, and stores, of the even and of the odd elements of one stretch of memory."""
    read = {u.src[0] for u in items if u.op is Op.LOAD}
    kept = {u.src[0] for u in items if u.op is Op.STORE} & read  # their order matters
    found: dict[UOp, tuple[UOp, UOp]] = {}
    seen: dict[tuple[UOp | Op, ...], dict[Access, UOp]] = {}
    for u in items:
        if u.op in ENDS:
            seen = {}
        elif u.op in ACCESSES and u.src[0] not in kept and _alternates(u):
            others = seen.setdefault((u.op, *u.src[:2]), {})
            for step in (-1, 1):
                other = others.get(replace(u.arg, offset=u.arg.offset + step))
                if other is not None and other not in found and u not in found:
                    pair = (other, u) if step < 0 else (u, other)
                    found[u] = found[other] = pair
            others[u.arg] = u
    return found


def _alternates(u: UOp) -> bool:
    access, plain = u.arg, 2 if u.op is Op.LOAD else 3
    regular = access.stride == 2 and access.lanes > 1 and not u.src[1].shape
    return regular and len(u.src) == plain and u.src[0].dtype != BOOL


def _halves(u: UOp, first: Access) -> tuple[UOp, UOp]:
    """The whole stretch, as two vectors."""
    low, high = (
        UOp(Op.LOAD, u.src, Access(first.offset + i * first.lanes, first.lanes, 1))
        for i in range(2)
    )
    return low, high


def _stores(u: UOp, first: Access, even: UOp, odd: UOp) -> list[UOp]:
    """Two vectors, merged and stored as a whole stretch."""
    n, out = first.lanes, list[UOp]()
    for i in range(2):
        turns = tuple(k // 2 + k % 2 * n for k in range(i * n, i * n + n))
        merged = UOp(Op.SHUFFLE, (even, odd), turns)
        src = (*u.src[:2], merged)
        out += [merged, UOp(Op.STORE, src, Access(first.offset + i * n, n, 1))]
    return out
