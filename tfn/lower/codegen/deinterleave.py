"""(De)interleaved access: accesses of stride 2, 3 and 4 as whole vectors and shuffles.

Real and imaginary parts of complex numbers alternate in memory, as do the coordinates of points and
the colours of pixels.  Before -> after, in the instructions of a kernel::

    x = load a[i + 2*lane];  y = load a[i + 1 + 2*lane]

    low = load a[i + lane];  high = load a[i + n + lane]
    x = shuffle low high, 0 2 4 ...;  y = shuffle low high, 1 3 5 ...

and stores likewise, where all parts are in one straight run of instructions.  A load without the
other parts becomes vectors and shuffles, too; the last vector ends where the load does::

    x = load a[i + 2*lane]   ->   low = load a[i + lane];  high = load a[i + n - 1 + lane]
                                  x = shuffle low high, 0 2 4 ... n + 1, n + 3 ...

Stores of the first lanes alone become one under a mask of as many lanes as they write together::

    store y[i + 2*lane], x, lane < 2        low = shuffle x z, 0 n 1 n+1 ...
    store y[i + 1 + 2*lane], z, lane < 2    store y[i + lane], low, lane < 4

Nothing is read or written that lies outside of the stretch.

Where all vectors of a run are halves of such stretches, and nothing asks for the number of a lane,
lanes may have any order, if all have the same.  Then shuffles stay within 16 bytes, which takes one
instruction instead of two::

    low = r0 i0 r1 i1;  high = r2 i2 r3 i3   ->   x = r0 r2 r1 r3;  y = i0 i2 i1 i3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tfn.dtypes import BOOL
from tfn.lower.codegen.partial_vectors import first_lanes
from tfn.lower.loops.cost_model import MAX_STRIDE
from tfn.trace.argument import Access
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, rebuild

ACCESSES = frozenset({Op.LOAD, Op.STORE})
RUN_ENDS = frozenset({Op.LOOP, Op.LEAVE, Op.END})
"""Ops that end a straight run of instructions."""

BLOCK_BYTES = 16
"""Bytes within which vectors of AVX are shuffled by one instruction."""

Parts = tuple[UOp, ...]
"""The accesses of each part of one stretch of memory: as many as their stride."""


def deinterleave(items: Sequence[UOp]) -> tuple[UOp, ...]:
    """The same instructions, with the accesses of all parts of a stretch merged."""
    groups, alone = _groups(items)
    if not groups and not alone:
        return tuple(items)
    new: dict[UOp, UOp] = {}
    stored: set[UOp] = set()
    out: list[UOp] = []
    masks: dict[UOp, None] = {}
    unordered = _unordered(items, groups)
    for u in items:
        rebuilt = rebuild(u, tuple([new.get(s, s) for s in u.src]))
        parts = groups.get(u)
        if u in alone:
            vectors = _load_span(rebuilt)
            out += dict.fromkeys(vectors)
            last = (u.arg.stride - 1) * u.arg.lanes
            places = [k * u.arg.stride for k in range(u.arg.lanes)]
            ahead = u.arg.stride - 1  # by which the last vector begins earlier
            new[u] = _picked(out, vectors, [k + ahead if k >= last - ahead else k for k in places])
        elif parts is None:
            new[u] = rebuilt
            out.append(rebuilt)
        elif u.op is Op.LOAD:
            if u not in new:  # the others have not been met yet
                vectors = _load_whole(rebuilt, parts[0].arg)
                out += vectors
                for i, part in enumerate(parts):
                    lanes = [i + len(parts) * k for k in range(u.arg.lanes)]
                    if u in unordered:
                        lanes = _within_blocks(u, i)
                    new[part] = _picked(out, vectors, lanes)
        else:
            # All values exist only at the last store, which writes for all.
            stored.add(u)
            if stored >= set(parts):
                values = [new.get(s.src[2], s.src[2]) for s in parts]
                _store_whole(out, masks, rebuilt, parts[0].arg, values, u in unordered)
    # Masks are for all loops, and so come before them, once.
    return (*masks, *(u for u in out if u not in masks))


def _groups(items: Sequence[UOp]) -> tuple[dict[UOp, Parts], set[UOp]]:
    """Loads, and stores, of all parts of one stretch, by each of them; and loads without others."""
    read = {u.src[0] for u in items if u.op is Op.LOAD}
    updated = {u.src[0] for u in items if u.op is Op.STORE} & read  # their order matters
    groups: dict[UOp, Parts] = {}
    loads: list[UOp] = []
    seen: dict[tuple[UOp | Op, ...], dict[Access, UOp]] = {}
    for u in items:
        if u.op in RUN_ENDS:
            seen = {}
        elif u.op in ACCESSES and u.src[0] not in updated and _is_strided(u):
            others = seen.setdefault((u.op, *u.src[:2], *u.src[3:]), {})
            others[u.arg] = u
            loads += [u] if u.op is Op.LOAD else []
            for first in range(u.arg.offset - u.arg.stride + 1, u.arg.offset + 1):
                parts = tuple(
                    [
                        part
                        for i in range(u.arg.stride)
                        if (part := others.get(replace(u.arg, offset=first + i))) is not None
                        and part not in groups
                    ]
                )
                if len(parts) == u.arg.stride:
                    groups |= dict.fromkeys(parts, parts)
                    break
    return groups, {u for u in loads if u not in groups}


def _unordered(items: Sequence[UOp], groups: Mapping[UOp, Parts]) -> set[UOp]:
    """The accesses of pairs in runs whose vectors may have their lanes in another order."""
    runs: list[list[UOp]] = [[]]
    run_of: dict[UOp, int] = {}
    mixed: set[int] = set()  # runs whose vectors others use, or the ends of loops
    for u in items:
        is_end = u.op in RUN_ENDS
        mixed |= {
            run_of[s]
            for s in u.src
            if s.shape and s in run_of and s.op is not Op.SPLAT
            if is_end or run_of[s] != len(runs) - 1
        }
        if is_end:
            runs.append([])
        else:
            runs[-1].append(u)
            run_of[u] = len(runs) - 1
    found: set[UOp] = set()
    times = Counter(u for run in runs for u in run if u in groups)
    for i, run in enumerate(runs):
        pairs = [v for v in run if v in groups]
        inside = set(run)
        if i not in mixed and pairs and all(times[v] == 1 for v in pairs):
            # Blocks of other elements would have another order.
            same = len({v.src[0].dtype.itemsize for v in pairs}) == 1
            same = same and all(_any_order(v, groups, inside, pairs[0].arg.lanes) for v in run)
            found.update(pairs if same else ())
    return found


def _any_order(u: UOp, groups: Mapping[UOp, Parts], run: AbstractSet[UOp], lanes: int) -> bool:
    """Whether an instruction takes and gives vectors with their lanes in any order."""
    vectors = [s for s in u.src if s.shape and s.op is not Op.PARAM]
    if any(s not in run and s.op not in (Op.CONST, Op.SPLAT) for s in vectors):
        return False
    if u in groups:
        block = BLOCK_BYTES // u.src[0].dtype.itemsize
        whole = u.arg.lanes == lanes and block > 1 and lanes % block == 0
        return u.arg.stride == 2 and whole and len(u.src) <= 3
    scalar = not u.shape and not vectors
    return scalar or u.op in ELEMENTWISE or u.op is Op.SPLAT


def _within_blocks(u: UOp, part: int) -> list[int]:
    """The lanes of one of two parts, first those of the lower vector, block by block."""
    n, block = u.arg.lanes, BLOCK_BYTES // u.src[0].dtype.itemsize
    return [
        vector * n + b + part + 2 * j
        for b in range(0, n, block)
        for vector in (0, 1)
        for j in range(block // 2)
    ]


def _is_strided(u: UOp) -> bool:
    """Whether an access of a vector has a small stride, and no predicate but for first lanes."""
    access, operands = u.arg, 2 if u.op is Op.LOAD else 3
    regular = 2 <= access.stride <= MAX_STRIDE and access.lanes > 1 and not u.src[1].shape
    whole = len(u.src) == operands or (u.op is Op.STORE and first_lanes(u.src[3]) > 0)
    return regular and whole and u.src[0].dtype != BOOL


def _load_whole(u: UOp, first: Access) -> list[UOp]:
    """The whole stretch, as so many vectors as it has parts."""
    n = first.lanes
    return [UOp(Op.LOAD, u.src, Access(first.offset + i * n, n, 1)) for i in range(first.stride)]


def _load_span(u: UOp) -> list[UOp]:
    """The stretch from the first to the last element, as so many vectors as the stride says.

    None ends after it: of few lanes, those before the last vector may begin where it does.
    """
    n, stride, first = u.arg.lanes, u.arg.stride, u.arg.offset
    last = (stride - 1) * (n - 1)
    starts = [min(i * n, last) for i in range(stride - 1)] + [last]
    return [UOp(Op.LOAD, u.src, Access(first + start, n, 1)) for start in starts]


def _store_whole(
    out: list[UOp],
    masks: dict[UOp, None],
    u: UOp,
    first: Access,
    values: Sequence[UOp],
    unordered: bool,
) -> None:
    """Add instructions that interleave the parts and store them as a whole stretch.

    The mask of the last vector, of which fewer lanes are left, is added to `masks`.
    """
    n, count = first.lanes, len(values)
    total = (min(first_lanes(u.src[3]), n) if len(u.src) > 3 else n) * count
    for i in range(-(-total // n)):
        numbers = [e % count * n + e // count for e in range(i * n, i * n + n)]
        if unordered:
            half = BLOCK_BYTES // u.src[0].dtype.itemsize // 2
            starts = [b + i * half for b in range(0, n, 2 * half)]
            numbers = [part * n + b + j for b in starts for j in range(half) for part in (0, 1)]
        vector, left = _picked(out, values, numbers), total - i * n
        mask = (UOp(Op.LANES, (), n) < left,) if left < n else ()
        masks |= dict.fromkeys(mask)
        access = Access(first.offset + i * n, n, 1)
        out.append(UOp(Op.STORE, (*u.src[:2], vector, *mask), access))


def _picked(out: list[UOp], vectors: Sequence[UOp], numbers: Sequence[int]) -> UOp:
    """The lanes of these numbers, counted through all vectors, by shuffles of two at a time."""
    n = len(numbers)
    value = vectors[0]
    for i in range(1, len(vectors)):
        # Lanes that an earlier vector has are in place, but for those of the first.
        placed = [k if i > 1 else number for k, number in enumerate(numbers)]
        order = tuple(
            number - i * n + n if number // n == i else placed[k] if number // n < i else 0
            for k, number in enumerate(numbers)
        )
        value = UOp(Op.SHUFFLE, (value, vectors[i]), order)
        out.append(value)
    return value
