"""Prefix sums over the threads of a group, of any commutative monoid.

    thread   0 1 2 3              each thread learns what those before it have, and the total
    value    3 1 4 1   ->   0 3 4 8,  9

Within a warp it is a butterfly: at a distance of 1, 2, 4, ... threads exchange the totals of their
blocks, and those of the upper block add that of the lower to their prefix.  Where threads of a warp
do not exchange values, local memory does.  The totals of warps are then added up by each thread.
The order of additions follows from the number of threads alone.

A loop that carries such a sum, RECUR, is shared by the threads of a group: each has every 256th
element of its own, some at a time, and the loop carries the total::

    for r in 5000: c = c + x[r]; y[r] = c

    ->  for a in 3:  x0, ..., x7 = x[a * 2048 + thread], ..., x[a * 2048 + 7 * 256 + thread]
                     y[..] = c + prefix x0 + x0;  c = c + total x0;  ...

Source: Blelloch 1990, "Prefix sums and their applications".
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import INT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.emitter import Emitter
from tfn.lower.loops.grid_opt_ops import monoid
from tfn.lower.target.grid import Grid
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

BLOCK_THREADS = 32
"""Threads of a butterfly: a warp."""

Pair = tuple[UOp, UOp]
"""A reduction over the threads before a thread, and one over all threads."""


def prefixes(
    code: Builder, op: Op, values: Sequence[UOp], thread: UOp, machine: Grid
) -> list[Pair]:
    """The reductions over all threads before each one, and over all threads, of several values.

    All threads come here together, and have to meet before they come again: it has local memory.

    Args:
        op: a commutative monoid.
        values: of each thread; all go through the same barriers.
        thread: the number of a thread, as a range of all threads, a power of two.
    """
    threads, count = thread.arg.size, len(values)
    block = min(threads, BLOCK_THREADS)
    by_exchange = machine.exchanges and machine.warp_threads == block
    dtype = values[0].dtype
    identity = const(build.identity(op, dtype), dtype)
    pairs = [(identity, code.place(value)) for value in values]
    memory = None if by_exchange else code.local_memory(2 * count * threads, dtype)
    distance, half = 1, 0
    while distance < block:
        if memory is None:
            others = [code.exchange(total, distance) for _, total in pairs]
        else:
            for i, (_, total) in enumerate(pairs):
                code.store(memory, thread + (half + i * threads), total)
            code.barrier()
            other = code.place(thread ^ distance)
            others = [code.load(memory, other + (half + i * threads)) for i in range(count)]
            half = count * threads - half  # the next go to the other half: one barrier is enough
        is_upper = build.eq((thread // distance) % 2, const(1, INT64))
        pairs = [
            (
                code.place(build.where(is_upper, UOp(op, (other, before)), before)),
                code.place(UOp(op, (total, other))),
            )
            for (before, total), other in zip(pairs, others, strict=True)
        ]
        distance *= 2
    return pairs if threads == block else _over_blocks(code, op, pairs, thread, block)


def _over_blocks(
    code: Builder, op: Op, pairs: Sequence[Pair], thread: UOp, block: int
) -> list[Pair]:
    """The same over all blocks, whose totals all threads of a block have."""
    blocks, dtype = thread.arg.size // block, pairs[0][1].dtype
    totals = code.local_memory(blocks * len(pairs), dtype)
    number, is_first = code.place(thread // block), build.eq(thread % block, const(0, INT64))
    for i, (_, total) in enumerate(pairs):
        code.store(totals, number + i * blocks, total, is_first)
    code.barrier()
    loads = [
        [code.load(totals, const(i * blocks + j, INT64)) for j in range(blocks)]
        for i in range(len(pairs))
    ]
    results = []
    for (before, _), parts in zip(pairs, loads, strict=True):
        earlier = const(build.identity(op, dtype), dtype)
        whole = parts[0]
        for j, part in enumerate(parts[:-1]):
            is_later = const(j, INT64) < number
            earlier = code.place(build.where(is_later, UOp(op, (earlier, part)), earlier))
        for part in parts[1:]:
            whole = code.place(UOp(op, (whole, part)))
        results.append((code.place(UOp(op, (earlier, before))), whole))
    return results


def emit_shared(emitter: Emitter, node: UOp, machine: Grid) -> None:
    """The instructions of a RECUR that the threads of a group share."""
    assert emitter.threads is not None, "a loop is shared by the threads of a group"
    found, at, code = monoid(node), emitter.at, Builder(emitter.code)
    assert found is not None, "the loop carries a reduction"
    op, carry, value = found
    (r, first, _, *rest), arg = node.src, node.arg
    stores, last_stores = rest[: arg.stores], rest[arg.stores :]
    thread, threads = emitter.threads.thread, arg.threads
    step = threads * arg.elements
    identity = const(build.identity(op, carry.dtype), carry.dtype)
    start = emitter.emit(first)
    loop = code.open(0, -(-r.arg.size // step))
    total = code.carry(loop, start)
    places: list[UOp] = []
    insides: list[UOp | None] = []
    values: list[UOp] = []
    for i in range(arg.elements):
        places.append(code.place(loop * step + (thread + i * threads)))
        inside = code.place(places[-1] < r.arg.size) if r.arg.size % step else None
        insides.append(inside)
        with at.looping(r, places[-1]), emitter.threads.only(r, inside):
            x = emitter.emit(value)
        values.append(x if inside is None else code.place(build.where(inside, x, identity)))
    so_far = total
    for i, (before, whole) in enumerate(prefixes(code, op, values, thread, machine)):
        with at.looping(r, places[i]), emitter.threads.only(r, insides[i]):
            emitter.values[at.key(carry)] = code.place(UOp(op, (so_far, before)))
            for store in stores:
                emitter.store(store)
        so_far = code.place(UOp(op, (so_far, whole)))
    if r.arg.size > step:
        code.barrier()
    code.close(loop, (total, so_far))
    with at.looping(r, loop):
        emitter.values[at.key(carry)] = total
        for store in last_stores:
            emitter.store(store)
