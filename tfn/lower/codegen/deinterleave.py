"""(De)interleaved access: stride-2 loads and stores as whole vectors and shuffles.

Real and imaginary parts of complex numbers alternate in memory.  Before -> after, in the
instructions of a kernel::

    x = load a[i + 2*lane];  y = load a[i + 1 + 2*lane]

    low = load a[i + lane];  high = load a[i + n + lane]
    x = shuffle low high, 0 2 4 ...;  y = shuffle low high, 1 3 5 ...

and stores likewise.  Only where both are in one straight run of instructions: then exactly the
same elements are read and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tfn.dtypes import BOOL
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, rebuild

ACCESSES = frozenset({Op.LOAD, Op.STORE})
RUN_ENDS = frozenset({Op.LOOP, Op.LEAVE, Op.END})
"""Ops that end a straight run of instructions."""

Pair = tuple[UOp, UOp]
"""The accesses of the even and of the odd elements of one stretch of memory."""


def deinterleave(items: Sequence[UOp]) -> tuple[UOp, ...]:
    """The same instructions, with accesses of even and odd elements merged in pairs."""
    pairs = _pairs(items)
    if not pairs:
        return tuple(items)
    new: dict[UOp, UOp] = {}
    stored: set[UOp] = set()
    out: list[UOp] = []
    for u in items:
        rebuilt = rebuild(u, tuple([new.get(s, s) for s in u.src]))
        pair = pairs.get(u)
        if pair is None:
            new[u] = rebuilt
            out.append(rebuilt)
        elif u.op is Op.LOAD:
            if u not in new:  # its partner has not been met yet
                vectors, lanes = _load_halves(rebuilt, pair[0].arg), u.arg.lanes
                halves = [UOp(Op.SHUFFLE, vectors, tuple(range(i, 2 * lanes, 2))) for i in range(2)]
                new |= zip(pair, halves, strict=True)
                out += [*vectors, *halves]
        else:
            # Both values exist only at the later store, which writes for both.
            stored.add(u)
            if stored >= set(pair):
                even, odd = (new.get(s.src[2], s.src[2]) for s in pair)
                out += _store_interleaved(rebuilt, pair[0].arg, even, odd)
    return tuple(out)


def _pairs(items: Sequence[UOp]) -> dict[UOp, Pair]:
    """Loads, and stores, of the even and of the odd elements of one stretch, by both of them."""
    read = {u.src[0] for u in items if u.op is Op.LOAD}
    updated = {u.src[0] for u in items if u.op is Op.STORE} & read  # their order matters
    pairs: dict[UOp, Pair] = {}
    seen: dict[tuple[UOp | Op, ...], dict[Access, UOp]] = {}
    for u in items:
        if u.op in RUN_ENDS:
            seen = {}
        elif u.op in ACCESSES and u.src[0] not in updated and _is_strided(u):
            others = seen.setdefault((u.op, *u.src[:2]), {})
            for step in (-1, 1):
                other = others.get(replace(u.arg, offset=u.arg.offset + step))
                if other is not None and other not in pairs and u not in pairs:
                    pair = (other, u) if step < 0 else (u, other)
                    pairs[u] = pairs[other] = pair
            others[u.arg] = u
    return pairs


def _is_strided(u: UOp) -> bool:
    """Whether an access of a vector has stride 2, and no predicate."""
    access, operands = u.arg, 2 if u.op is Op.LOAD else 3
    regular = access.stride == 2 and access.lanes > 1 and not u.src[1].shape
    return regular and len(u.src) == operands and u.src[0].dtype != BOOL


def _load_halves(u: UOp, first: Access) -> Pair:
    """The whole stretch, as two vectors."""
    low, high = (
        UOp(Op.LOAD, u.src, Access(first.offset + i * first.lanes, first.lanes, 1))
        for i in range(2)
    )
    return low, high


def _store_interleaved(u: UOp, first: Access, even: UOp, odd: UOp) -> list[UOp]:
    """Two vectors, interleaved and stored as a whole stretch."""
    n, out = first.lanes, list[UOp]()
    for i in range(2):
        alternating = tuple(k // 2 + k % 2 * n for k in range(i * n, i * n + n))
        vector = UOp(Op.SHUFFLE, (even, odd), alternating)
        src = (*u.src[:2], vector)
        out += [vector, UOp(Op.STORE, src, Access(first.offset + i * n, n, 1))]
    return out
