"""Vector axes of reductions: lanes, several sums side by side, pairs of products, rows as streams.

for r in rows: sum over k of x[r, k]
->  for 4 rows at once: for k / 32: unrolled 4: lanes 8: sums; then their lanes are added up
"""

from __future__ import annotations

from math import prod

from tfn.dtypes import FLOATS, INT32, INT64, int8, int16, uint8
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest, sum_order
from tfn.lower.loops.byte_products import GROUP, of_bytes
from tfn.lower.loops.cost_model import (
    COMPARISONS,
    MAX_PERIOD,
    UNKNOWN_STRIDE,
    Model,
    few_operations,
    loop_body,
    model_of,
)
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import (
    Bind,
    Split,
    SplitAt,
    SumLanesLast,
    Tile,
    block_loop,
    linear_sums,
)
from tfn.lower.loops.restructuring import split_at_boundaries
from tfn.lower.loops.tensorize import terms_of, unwidened
from tfn.lower.target.matrix_units import adds_four_bytes, matrix_units, multiplies_bytes
from tfn.lower.target.register_tile import PART_BYTES
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.op import ELEMENTWISE, Op
from tfn.trace.uop import UOp, walk

MEMORY_STREAMS = 4
"""Regions of memory that a long reduction reads side by side.

Hardware prefetches each stream by itself, so several keep more requests in flight: sums went from
34 to 48 GB/s.
"""

MIN_STREAMED_ELEMENTS = 1 << 14
"""Elements of a reduction from which on it alone is cut into streams: 64 KiB, more than L1."""

MIN_STREAMED_ROW_ELEMENTS = 1 << 8
"""Elements of a row from which on several rows are reduced as streams: 1 KiB of float32.

Shorter rows are over before a prefetcher has recognised them.
"""

MAX_SHORT_ROW_VECTORS = 8
"""Vectors of a row that is unrolled whole, with its reductions, so that it stays in registers.

A softmax of 8192 x 80 took 477 us in loops, 289 unrolled.
"""

SHIFTS = frozenset({Op.SHL, Op.SHR})

PAIRED = frozenset({int8.dtype, uint8.dtype, int16.dtype})
"""Dtypes whose products are added in pairs, as int16."""

MAX_ROWS_OF_BLOCKS = 8
"""Rows by which a block is multiplied at once: each has a sum in a register."""

MIN_ROWS_TO_TURN = 4
"""Rows from which on it pays to transpose the blocks by which they are multiplied.

8 rows by 1,536 of 576 nibbles took 237 us with vectors along blocks, 360 with a minimum each; now
161 and 155.
"""

INTERLEAVED_VECTORS = 4
"""Vectors of a small body side by side: their instructions do not wait for each other."""

MIN_PARALLEL_TILES = 16
"""Iterations that the parallel loop should have, so that threads finish at about the same time.

Below it, the loop is fused with the next inner one.
"""


def vectorise_reductions(n: Nest, model: Model) -> Nest:
    """Reductions outside of the vector axis get one of their own, and several sums side by side."""
    lanes, row_vectors = model.lanes, short_row_vectors(model)
    for i in range(len(loop_nest.folds(n.body))):
        fold = loop_nest.folds(n.body)[i]  # as it is now: an inner reduction may have got lanes
        own = _reduction_lane(n, fold)
        parts = sum_order.partial_sums(fold, model.target)
        if parts is not None:
            n = _partial_sums(n, fold, parts, own, lanes)
        elif own is not None:
            n = _unroll_deciding(n, fold, own, model.accumulators // 2)
            fold = loop_nest.folds(n.body)[i]
            blocks = any(isinstance(opt, SplitAt) for opt in n.opts)  # their addresses are steps
            small = few_operations(u for u in loop_body(fold) if not blocks or u.dtype != INT64)
            row = prod([r.arg.size for r in fold.src[1:]])
            side_by_side = row_vectors or (INTERLEAVED_VECTORS if small else 1)
            block, loops = model.registers * lanes, n.loops
            # argmax keeps two registers, the largest value and its index, and compares in two more:
            # 39,350 float64 took 12 us with as many sums as for a sum, 6.5 without spills.
            per_stream = model.registers // MEMORY_STREAMS // (1 if fold.arg.index is None else 4)
            if small and own.arg.size >= MIN_STREAMED_ELEMENTS and own.arg.size % block == 0:
                n = Split(own.arg.number, own.arg.size // MEMORY_STREAMS, Place.LOOP).apply(n)
                stream, own = n.newest(2)
                n = Bind(stream.arg.number, Place.UPCAST).apply(n)
                side_by_side = per_stream
            elif small and row >= MIN_STREAMED_ROW_ELEMENTS and fold.src[-1] is own:
                unrolled = [r.arg.size for r in fold.src[1:] if r.arg.place is Place.UPCAST]
                sums = side_by_side * prod(unrolled)
                n = _stream_rows(n, fold, _row_streams(fold, model, sums))
                side_by_side = side_by_side if n.loops == loops else min(side_by_side, per_stream)
            n, own = _paired(n, loop_nest.folds(n.body)[i], own, model)
            if own.arg.size < lanes and _blocks_in_a_vector(n, own, model):
                lanes = own.arg.size
            vectors = -(-own.arg.size // lanes)
            if blocks and vectors <= INTERLEAVED_VECTORS and own.arg.size % lanes == 0:
                side_by_side = vectors  # a block, whose scale is computed once
            n = Tile(own.arg.number, min(vectors, side_by_side), lanes).apply(n)
            n = _sum_lanes_last(n, n.newest(1)[0], model)
    return n


def rows_of_blocks(n: Nest, model: Model) -> Nest:
    """The rows by which blocks of narrow integers are multiplied, unrolled if there are several.

    What a block is made of is then unpacked once for all rows, and vectors run along it::

        for r in R: for w in W: sum over b of d[w, b] * (sum over k of q[w, b, k] * x[r, b, k])
        ->  for w in W: for r in R / 8: for 8 rows at once: ..
    """
    folds = loop_nest.folds(n.body)
    for inner in folds:
        products = terms_of(inner.src[0]) if inner.dtype == INT32 else []
        if [u.op for u in products] != [Op.MUL]:
            continue
        factors = products[0].src
        scaled = any(f.dtype in FLOATS and inner in walk([f.src[0]]) for f in folds)
        if scaled and {unwidened(s).dtype for s in factors} <= PAIRED:
            a, b = ({*n.loops} & {*model.depends[s]} for s in factors)
            if a - b and b - a:
                # In the order of loops: of equal sizes, a set gives one at random.
                rows = min((r for r in n.loops if r in a ^ b), key=lambda r: r.arg.size)
                size: int = rows.arg.size
                amount = max(k for k in range(1, MAX_ROWS_OF_BLOCKS + 1) if size % k == 0)
                n = Split(rows.arg.number, amount, Place.UPCAST).apply(n) if amount > 1 else n
                turned = _turned_blocks(n, model.target) if amount >= MIN_ROWS_TO_TURN else None
                return turned or n
    return n


def _turned_blocks(n: Nest, target: Target) -> Nest | None:
    """Rows of weights as lanes: code generation transposes squares of their bytes in registers::

        for w in W: for 8 rows at once: for b in B: s += d[w, b] * (sum over k of q[w, b, k] ..)
        ->  for w in W / 8: for 8 rows at once: for 8 lanes of w: for b in B: ..

    Scales are a vector then, eight sums of a block become floats at once, and no lanes are added in
    the end.  None where instructions do not add such products exactly, or add fours of them.
    """
    model = model_of(n, target)
    n = split_at_boundaries(n, target, model.lanes)
    model = model if n is model.nest else model_of(n, target)
    (inner, *others) = [f for f in loop_nest.folds(n.body) if f.dtype == INT32]
    exact = multiplies_bytes(target) and not adds_four_bytes(target) and of_bytes(inner, False)
    if others or not exact or target.batch_invariant:
        return None
    inside, own, lanes = loop_body(inner), inner.src[-1], model.lanes
    groups = (GROUP * lanes, PART_BYTES)
    weights = [
        r
        for r in n.loops
        if r.arg.place is Place.LOOP and r in model.depends[inner] and r.arg.size % lanes == 0
    ]
    steps = [
        [model.stride(u, terms, r) for r in (own, *weights)]
        for u, terms, _ in model.accesses
        if u in inside
    ]
    neighbours = all(along == 1 and UNKNOWN_STRIDE not in across for along, *across in steps)
    if len(weights) != 1 or own.arg.size not in groups or not neighbours:
        return None
    n = Tile(weights[0].arg.number, 1, lanes).apply(n)
    for r in inner.src[1:-1]:
        n = Bind(r.arg.number, Place.UPCAST).apply(n)
    n = Split(own.arg.number, GROUP, Place.UNIT).apply(n)
    return Bind(n.newest(2)[0].arg.number, Place.UPCAST).apply(n)


def _unroll_deciding(n: Nest, fold: UOp, own: UOp, most: int) -> Nest:
    """Unrolls short loops of a reduction that decide conditions and shifts, as parts of bytes do.

    Args:
        n: the nest.
        fold: the reduction.
        own: the range of it that is to be the vector axis.
        most: sums that they may become.
    """
    depends, inside = dependences(n.body), loop_body(fold)
    decided = [s for u in inside if u.op in COMPARISONS for s in u.src]
    decided += [u.src[1] for u in inside if u.op in SHIFTS]
    known = [s for s in decided if all(u.op is not Op.LOAD for u in walk([s]))]
    deciding = {r for s in known for r in depends[s]} - {own}
    for r in fold.src[-2:0:-1]:
        if r in deciding and r.arg.size <= min(MAX_PERIOD, most) and loop_nest.is_whole(n, r):
            n = Bind(r.arg.number, Place.UPCAST).apply(n)
            most //= r.arg.size
    return n


def _paired(n: Nest, fold: UOp, own: UOp, model: Model) -> tuple[Nest, UOp]:
    """A sum of products of narrow integers, some of which an instruction adds in each lane.

    Its loop is then over pairs of neighbours, or over fours of bytes.
    """
    number = own.arg.number
    if fold.arg.op is not Op.ADD or fold.dtype != INT32:
        return n, own
    products = terms_of(fold.src[0])
    factors = [unwidened(s) for u in products for s in u.src]
    if {u.op for u in products} != {Op.MUL} or {u.dtype for u in factors} - PAIRED:
        return n, own
    inside = loop_body(fold)
    steps = [abs(model.stride(u, terms, own)) for u, terms, _ in model.accesses if u in inside]
    if set(steps) - {0, 1}:
        return n, own
    adds_bytes = adds_four_bytes(model.target)
    if own.arg.size % GROUP == 0 and multiplies_bytes(model.target) and of_bytes(fold, adds_bytes):
        fours = Split(number, GROUP, Place.UNIT).apply(n)
        four = fours.newest(2)[0]
        if four.arg.size % model.lanes == 0 or _blocks_in_a_vector(fours, four, model):
            return fours, four
    units = matrix_units(model.target, int16.dtype)
    if own.arg.size % 2 or not any(not u.has_tiles and u.columns == model.lanes for u in units):
        return n, own
    n = Split(number, 2, Place.UNIT).apply(n)
    return n, n.newest(2)[0]


def _blocks_in_a_vector(n: Nest, own: UOp, model: Model) -> int:
    """The short blocks that fill a vector, whose lanes the sum around them adds; 0 if none do."""
    blocks, rest = divmod(model.lanes, own.arg.size)
    if rest or blocks < 2:
        return 0
    tried = Bind(own.arg.number, Place.LANE).apply(n)
    pair = linear_sums(tried, tried.loop(own.arg.number))
    if pair is None or any(sum_order.partial_sums(f, model.target) for f in pair):
        return 0
    return blocks if block_loop(tried, pair[1], blocks) else 0


def _sum_lanes_last(n: Nest, lane: UOp, model: Model) -> Nest:
    """Lanes of a sum that another one adds up are added after that, and not in each iteration.

    Scaled sums of blocks, as quantised weights have: 4,096 squared int8 by blocks took 5.7 ms.
    """
    pair = linear_sums(n, lane)
    if pair is None or any(sum_order.partial_sums(f, model.target) for f in pair):
        return n
    blocks = max(1, model.lanes // lane.arg.size)
    n = SumLanesLast(lane.arg.number, blocks).apply(n)
    lane = n.newest(1)[0] if blocks > 1 else lane
    (outer,) = (f for f in loop_nest.folds(n.body) if f.src[-1] is lane)
    rows = (r.arg.size for r in dependences(n.body)[outer] if r.arg.place is Place.UPCAST)
    return _stream_rows(n, outer, _row_streams(outer, model, prod(rows)))


def _partial_sums(n: Nest, fold: UOp, parts: int, own: UOp | None, lanes: int) -> Nest:
    """A reduction of a given number of partial sums: in lanes if it may have a vector axis."""
    last = fold.src[-1]
    if parts == 1 or any(r.arg.place is not Place.LOOP for r in fold.src[1:]):
        return n
    if last is not own:
        return Split(last.arg.number, parts, Place.UPCAST).apply(n)
    if last.arg.size >= MIN_STREAMED_ROW_ELEMENTS and fold.src[1:] == (last,):
        n = _stream_rows(n, fold, MEMORY_STREAMS)
    return Tile(last.arg.number, parts // lanes, lanes).apply(n)


def _row_streams(fold: UOp, model: Model, sums: int) -> int:
    """The rows side by side, each with some vectors of sums.

    Of a product of loaded values, one is no register of its own.  Of a sum of computed values,
    such as a dequantised row by a vector, registers for these are left: (4096, 4096) nibbles took
    2.4 ms with four rows, two.
    """
    values = [u for u in loop_body(fold) if u.op in ELEMENTWISE and u.dtype != INT64]
    computed = [u for u in values if u.op is not Op.CAST]
    if len(computed) <= 1:
        return MEMORY_STREAMS
    return max(k for k in (1, 2, MEMORY_STREAMS) if k == 1 or k * sums <= model.accumulators)


def _stream_rows(n: Nest, fold: UOp, streams: int) -> Nest:
    """The reduction of many rows and nothing else, a row of each of several regions at once::

    for r in range(N): f(r)   ->   for a in range(N / 4): f(a), f(a + N / 4), ...
    """
    inside = {*walk([fold])}  # and what it adds up
    is_only = inside.issuperset(loop_nest.folds(n.body)) and not loop_nest.in_order(n.body)
    if not n.loops or streams == 1 or not is_only or set(n.loops) != set(dependences(n.body)[fold]):
        return n
    first = n.loops[0]
    if first.arg.size % streams or first.arg.size < streams * MIN_PARALLEL_TILES:
        return n
    n = Split(first.arg.number, first.arg.size // streams, Place.LOOP).apply(n)
    return Bind(n.newest(2)[0].arg.number, Place.UPCAST).apply(n)


def _reduction_lane(n: Nest, fold: UOp) -> UOp | None:
    """The reduced range to vectorise: no value may depend on two vector axes.

    So there is none inside of a vector axis, nor where an inner reduction, which has its own,
    depends on the range.
    """
    depends = dependences(n.body)
    if any(r.arg.place is Place.LANE for r in (*depends[fold], *fold.src[1:])):
        return None
    vectorised = [
        u
        for u in walk([fold.src[0]])
        if u.op is Op.FOLD and any(r.arg.place is Place.LANE for r in u.src[1:])
    ]
    excluded = {r for u in vectorised for r in depends[u]}
    candidates = [
        r
        for r in fold.src[1:]
        if r.arg.place is Place.LOOP and r.arg.size > 1 and r not in excluded
    ]
    return candidates[-1] if candidates else None


def short_row_vectors(model: Model) -> int:
    """The vectors of a row if it is short and all reductions are along such rows; else 0.

    Unrolled whole, values that both a reduction and the row are made of are computed once: of a
    softmax the exponentials, which stay in registers.
    """
    loops, folds = model.nest.loops, loop_nest.folds(model.nest.body)
    if not loops or not folds or loop_nest.in_order(model.nest.body):
        return 0
    row = loops[-1]
    along_rows = all(
        len(f.src) == 2
        and f.src[1].arg.size == row.arg.size
        and f.arg.index is None
        and row not in model.depends[f]
        for f in folds
    )
    vectors: int = -(-row.arg.size // model.lanes)
    return vectors if along_rows and vectors <= MAX_SHORT_ROW_VECTORS else 0
