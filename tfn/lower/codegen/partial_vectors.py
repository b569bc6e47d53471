"""Partial vectors: the first lanes of a vector as a few smaller vectors, where masks are slow.

    store y[i + lane], v, lane < 7     ->   store y[i + lane], v[0:4], 4 lanes
                                            store y[i + 4 + lane], v[4:6], 2 lanes
                                            store y[i + 6], v[6]

    x = load a[i + lane], mask         ->   x = where(mask, load a[j + lane], 0), j in bounds
                                            if i != j: x = load a[i + lane], mask

    store y[i + lane], v, splat c      ->   if c: store y[i + lane], v

AVX2 masks elements of 32 and 64 bits alone, and AMD's processors take some 20 cycles for a masked
store; older vectors have no masks at all.  There LLVM takes lanes one by one, with a branch each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tfn.dtypes import INT64
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, rebuild

MASK_REGISTERS_VECTOR_BYTES = 64
"""Bytes of the vectors of processors that have registers for masks of all element sizes."""

MASKED_LOAD_VECTOR_BYTES, MASKED_LOAD_ITEM_BYTES = 32, 4
"""Bytes of vectors and elements from which on masked loads are as fast as others: those of AVX."""

_UNMASKED = {Op.LOAD: 2, Op.STORE: 3}
"""The number of operands of an access without a mask, which comes after them."""


def split_partial_vectors(items: Sequence[UOp], target: Target) -> tuple[UOp, ...]:
    """The same instructions, with accesses of the first lanes of a vector in parts."""
    masked = any(len(u.src) > _UNMASKED.get(u.op, len(u.src)) for u in items)
    if target.vector_bytes >= MASK_REGISTERS_VECTOR_BYTES or not masked:
        return tuple(items)
    new: dict[UOp, UOp] = {}
    out: list[UOp] = []
    singles: dict[UOp, None] = {}
    loops = count(1 + max([u.arg for u in items if u.op is Op.LOOP], default=0))
    for u in items:
        v = rebuild(u, tuple([new.get(s, s) for s in u.src]))
        lanes = _first_lanes(v)
        if lanes and v.op is Op.STORE:
            _store(out, singles, v, lanes)
        elif v.op is Op.STORE and len(v.src) == 4 and v.src[3].op is Op.SPLAT:
            out.append(UOp(Op.STORE, (*v.src[:3], v.src[3].src[0]), v.arg))
        elif lanes and not _masks_loads(v, target):
            new[u] = _load(out, v, lanes)
        elif _is_masked_load(v) and not _masks_loads(v, target):
            new[u] = _load_in_bounds(out, v, next(loops))
        else:
            new[u] = v
            out.append(v)
    # Masks of one lane are for all loops, and so come before them.
    return (*singles, *(u for u in out if u not in singles))


def _masks_loads(u: UOp, target: Target) -> bool:
    wide = target.vector_bytes >= MASKED_LOAD_VECTOR_BYTES
    return wide and u.dtype.itemsize >= MASKED_LOAD_ITEM_BYTES


def _is_masked_load(u: UOp) -> bool:
    """Whether a load is of a vector under a mask, in a buffer that has as many elements."""
    masked = u.op is Op.LOAD and len(u.src) == 3 and bool(u.src[2].shape)
    whole = masked and u.arg.stride == 1 and not u.src[1].shape and u.src[0].op is Op.PARAM
    return whole and build.count(u.src[0].shape) >= u.arg.lanes


def _load_in_bounds(out: list[UOp], u: UOp, number: int) -> UOp:
    """A whole vector of which a mask selects lanes; in a loop of no iterations the masked load."""
    buffer, base, mask = u.src
    n, offset = u.arg.lanes, u.arg.offset
    address = base + const(offset, INT64)
    last = const(build.count(buffer.shape) - n, INT64)
    above = build.maximum(address, const(0, INT64))
    inside = build.minimum(above, last)
    whole = UOp(Op.LOAD, (buffer, inside), Access(0, n, 1))
    chosen = build.where(mask, whole, const(0, u.dtype, (n,)))
    outside = build.ne(address, inside)
    trips = build.cast(outside, INT64)
    loop = UOp(Op.LOOP, (const(0, INT64), trips), number)
    value = UOp(Op.ACCUMULATOR, (loop, chosen), 0)
    out += [address, above, inside, whole, chosen, outside, trips, loop, value, u]
    out.append(UOp(Op.END, (loop, value, u)))
    return value


def _first_lanes(u: UOp) -> int:
    """The number of lanes of an access under a constant mask of the first; else 0."""
    position = _UNMASKED.get(u.op)
    if position is None or len(u.src) <= position or u.arg.stride != 1 or u.src[1].shape:
        return 0
    lanes: int = u.arg.lanes
    return min(first_lanes(u.src[position]), lanes - 1)


def first_lanes(mask: UOp) -> int:
    """The number of lanes of a constant mask of the first; 0 for other masks."""
    if mask.op is not Op.LT or mask.src[0].op is not Op.LANES or mask.src[1].op is not Op.CONST:
        return 0
    return max(0, int(mask.src[1].arg.value))


def _parts(lanes: int) -> list[tuple[int, int]]:
    """The first lane and the length of each part: powers of two, the longest first."""
    parts: list[tuple[int, int]] = []
    for bit in reversed(range(lanes.bit_length())):
        if lanes >> bit & 1:
            parts.append((lanes >> bit + 1 << bit + 1, 1 << bit))
    return parts


def _load(out: list[UOp], u: UOp, lanes: int) -> UOp:
    """The first lanes, and zeros."""
    n, buffer, base = u.arg.lanes, *u.src[:2]
    value = const(0, u.dtype, (n,))
    for start, size in _parts(lanes):
        access = Access(u.arg.offset + start, size, int(size > 1))
        part = UOp(Op.LOAD, (buffer, base), access)
        wide = (
            UOp(Op.SHUFFLE, (part, part), tuple(i % size for i in range(n)))
            if size > 1
            else UOp(Op.SPLAT, (part,), n)
        )
        order = tuple(n + i - start if start <= i < start + size else i for i in range(n))
        value = UOp(Op.SHUFFLE, (value, wide), order)
        out += [part, wide, value]
    return value


def _store(out: list[UOp], singles: dict[UOp, None], u: UOp, lanes: int) -> None:
    """Stores of the first lanes; a single one is that of a mask, which is no branch."""
    buffer, base, value, mask = u.src
    n = u.arg.lanes
    for start, size in _parts(lanes):
        offset = u.arg.offset + start
        if size > 1:
            part = UOp(Op.SHUFFLE, (value, value), tuple(range(start, start + size)))
            out += [part, UOp(Op.STORE, (buffer, base, part), Access(offset, size, 1))]
            continue
        first = UOp(Op.SHUFFLE, (value, value), tuple((start + i) % n for i in range(n)))
        single = UOp(Op.LT, (mask.src[0], const(1, mask.src[1].dtype, mask.src[1].shape)))
        store = UOp(Op.STORE, (buffer, base, first, single), Access(offset, n, 1))
        singles[single] = None
        out += [first, store]
