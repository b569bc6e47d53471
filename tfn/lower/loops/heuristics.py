"""Scheduling heuristics: the opt-ops of a kernel, by an analytical model of the target, no search.

Three decisions, in this order.  *Merge* neighbouring loops that every address steps through as
one.  Choose the *vector axis*: for each candidate the model counts loads and stores, contiguous
ones by the vector, others one by one, and takes the cheapest.  Choose the *register tile*: for a
contraction the rows and vectors that waste least within the accumulators that the registers hold,
for anything else enough independent vectors to hide latencies.  Then the outermost loop is shared
among the threads, if there is enough to share::

    for i: for j: for k: sum
    ->  parallel i / 6: for j / 64: unrolled 6 x 4: lanes 16: for k: sum

Nothing here depends on how many threads there are, so results do not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest, sum_order
from tfn.lower.loops.cost_model import (
    COMPARISONS,
    MAX_PERIOD,
    MAX_STRIDE,
    UNKNOWN_STRIDE,
    Model,
    few_operations,
    is_plain_load,
    loop_body,
    model_of,
)
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Bind, Fuse, Reorder, Split, Tile, UnrollRecurrence
from tfn.lower.loops.reduction_lanes import (
    INTERLEAVED_VECTORS,
    MIN_PARALLEL_TILES,
    rows_of_blocks,
    short_row_vectors,
    vectorise_reductions,
)
from tfn.lower.loops.restructuring import (
    largest_strides,
    longest_strides_outside,
    merge_loops,
    split_at_boundaries,
)
from tfn.lower.loops.tensorize import tensorize
from tfn.lower.target.register_tile import (
    MAX_LANES_TO_TRANSPOSE,
    best_tile,
    cached_vectors,
    free_registers,
    tile_cost,
)
from tfn.lower.target.target import Target
from tfn.trace import records
from tfn.trace.argument import Place
from tfn.trace.build import count
from tfn.trace.op import Op
from tfn.trace.records import Cost, Record, changed
from tfn.trace.uop import UOp, nodes, walk

MAX_SCATTER_ROWS = 4
"""Elements of outer loops for which a scatter computes its index once, unrolled: code grows."""

REGISTERS_PER_ROW_VECTOR = 3
"""Registers that each vector of an unrolled row is taken to need: more rows at once would spill."""

INTERLEAVED_COLUMN_SUMS = 8
"""The same for sums along columns: additions have latency, and each is a chain of them.

Sums over the first axis took 79 us with four, 55 with eight.
"""

MIN_TILE_ROWS = 6
"""Iterations from which on a loop may be the rows of a register tile, whatever others there are.

With fewer rows, each load of a vector of columns is not used often enough.
"""


def choose(n: Nest, target: Target) -> Nest:
    """The nest with its loops merged, vectorised, tiled and shared."""
    start = begin(n, target)
    if any(r.arg.place is Place.UNIT for r in start.nest.loops):
        rule, n = "block-matrix-tiles", _block_matrix_tiles(start, target)
    elif start.contraction is not None:
        rule, n = "block-registers", _block_registers(start, start.contraction)
    else:
        rule, n = "vectorise", _vectorise(start)
    changed(rule, start.nest, n)
    return finish(n, start.model)


class Start(NamedTuple):
    """A nest whose loops are merged, with its vector axis chosen, before tiling.

    Attributes:
        lane: the vector axis, which may be one of a reduction's ranges.
        contraction: the reduction that is to get a register tile.
    """

    nest: Nest
    model: Model
    lane: UOp | None
    contraction: UOp | None


def begin(n: Nest, target: Target) -> Start:
    """Decides all that the bits of results depend on: beam search begins here, and keeps it."""
    n = changed("longest-strides-outside", n, longest_strides_outside(n, model_of(n, target)))
    rows = rows_of_blocks(n, model_of(n, target))
    of_blocks, n = rows is not n, changed("rows-of-blocks", n, rows)
    n = changed("split-at-boundaries", n, split_at_boundaries(n, target, model_of(n, target).lanes))
    n = changed("merge-loops", n, merge_loops(n, target))
    model = model_of(n, target)
    if of_blocks:
        return Start(n, model, None, None)
    lane = model.vector_axis(loop_nest.in_order(n.body))
    _record_vector_axis(model, lane)
    contraction = next((f for f in loop_nest.folds(n.body) if model.is_contraction(f)), None)
    if contraction is None or not model.reuses_loads(contraction, lane):
        return Start(n, model, lane, None)
    parts = sum_order.partial_sums(contraction, target)
    if parts is not None and parts > 1 and lane in n.loops:
        return Start(n, model, lane, None)  # each sum takes many accumulators already
    tensorized = tensorize(n, contraction, target) if parts is None else None
    if tensorized is not None:
        changed("tensorize", n, tensorized[0])
        n, lane = tensorized
    elif lane in contraction.src[1:]:  # dot products: vectors along the reduced axis
        side_by_side = (parts or model.lanes) // model.lanes
        n = changed("dot-products", n, Tile(lane.arg.number, side_by_side, model.lanes).apply(n))
    model = model if n is model.nest else model_of(n, target)
    contraction = next(f for f in loop_nest.folds(n.body) if model.is_contraction(f))
    return Start(n, model, lane, contraction)


def finish(n: Nest, model: Model) -> Nest:
    """Vectorises the reductions of a tiled nest, and parallelises its outermost loop."""
    n = changed("vectorise-reductions", n, _reorder(vectorise_reductions(n, model)))
    n = changed("parallelise", n, _parallelise(n, loop_nest.in_order(n.body)))
    return loop_nest.simplified(n)


def _record_vector_axis(model: Model, lane: UOp | None) -> None:
    """Records the model's nanoseconds for each candidate, the chosen one first."""
    sink = records.sink()
    if sink is not None:
        in_order = loop_nest.in_order(model.nest.body)
        others = [r for r in model.vector_axes(in_order) if r is not lane]
        candidates = ([] if lane is None else [lane]) + others
        costs = [Cost(f"{loop_nest.name(r)}, ns", model.cost_ns(r)) for r in candidates]
        costs.append(Cost("no vectors, ns", model.cost_ns(None)))
        reason = "along the cheapest axis, by the model's count of contiguous and other accesses"
        sink.append(Record("vector-axis", model.nest, model.nest, reason, tuple(costs)))


def estimated_ns(n: Nest, target: Target) -> int:
    """Estimated nanoseconds on one core."""
    return int(model_of(n, target).total_ns())


# Contractions: register tiles, and blocks that stay in a cache.


def _block_registers(start: Start, fold: UOp) -> Nest:
    """Register blocking of a contraction: rows by vectors of sums are open at once.

    If the operand that is loaded by vectors does not fit in the cache, its loops run outside those
    over blocks of rows: one panel of it stays in the cache while the rows of the other stream by.
    """
    n, model, lane, _ = start
    a, b = (set(model.depends[s]) for s in fold.src[0].src)
    outside = [r for r in n.loops if r in a & b]
    if lane not in n.loops:  # dot products
        columns = _tile_side([r for r in n.loops if r in b - a], model)
        rows = _tile_side([r for r in n.loops if r in a - b], model)
        height, width = best_tile(
            _size(rows), _size(columns), 1, model.accumulators, model.registers
        )
        _record_tile(n, _size(rows), _size(columns), 1, (height, width))
        if rows is not None:
            n = Split(rows.arg.number, height, Place.UPCAST).apply(n)
        if columns is not None:
            outside += [r for r in n.loops if r in b - a and r is not columns]
            n, steps = _streams(n, columns, width)
            outside.append(steps)
    else:
        other = (a ^ b) if lane in a & b else b - a if lane in a else a - b
        rows = _tile_side([r for r in n.loops if r in other], model)
        size: int = lane.arg.size
        cached = cached_vectors(prod(r.arg.size for r in fold.src[1:]), model.target)
        operand = fold.src[0].src[0]
        narrow = operand.src[0].dtype if operand.op is Op.CAST else operand.dtype
        registers = free_registers(model.target, narrow)
        height, width = best_tile(
            _size(rows), size, model.lanes, model.accumulators, registers, cached
        )
        _record_tile(n, _size(rows), size, model.lanes, (height, width))
        if rows is not None:
            n = Split(rows.arg.number, height, Place.UPCAST).apply(n)
        panel, others = _uncached_ranges(model, fold, lane)
        blocks = n.newest(2)[0] if rows is not None else None
        n = Tile(lane.arg.number, width, model.lanes).apply(n)
        columns = n.newest(3)[0]
        outside += [r for r in n.loops if panel and (r is columns or r in panel)]
        outside += [r for r in n.loops if others and (r is blocks or r in others)]
    return _reorder(n, outside)


def _streams(n: Nest, columns: UOp, width: int) -> tuple[Nest, UOp]:
    """The columns of dot products side by side, each from a region of its own, and their loop.

    A row of weights is over soon, and the next one of the same region follows it in memory, which
    the processor prefetches::

        for c in range(N): f(c)   ->   for s in range(N / 2): f(s), f(s + N / 2)
    """
    size: int = columns.arg.size
    streams = max(k for k in range(1, width + 1) if size % k == 0)
    if streams == 1 or not loop_nest.is_whole(n, columns):
        n = Split(columns.arg.number, width, Place.UPCAST).apply(n)
        return n, n.newest(2)[0]
    n = Split(columns.arg.number, size // streams, Place.LOOP).apply(n)
    stream, steps = n.newest(2)
    return Bind(stream.arg.number, Place.UPCAST).apply(n), steps


def _record_tile(n: Nest, rows: int, columns: int, lanes: int, best: tuple[int, int]) -> None:
    """Records the chosen register tile beside one sum, and one row of as many vectors."""
    sink = records.sink()
    if sink is not None:
        tiles = dict.fromkeys((best, (1, 1), (1, best[0] * best[1])))
        costs = tuple(
            Cost(f"{high} x {wide} vectors, steps", tile_cost(rows, columns, lanes, high, wide))
            for high, wide in tiles
        )
        reason = f"{best[0]} rows by {best[1]} vectors of sums for {rows} by {columns} elements"
        sink.append(Record("register-tile", n, n, reason, costs))


def _uncached_ranges(model: Model, fold: UOp, lane: UOp) -> tuple[set[UOp], set[UOp]]:
    """The ranges of the operand that is loaded by vectors, if it takes more than half the cache.

    The other half is for the rows that stream by, and for the result.  If it takes less, the second
    set is the ranges of the other operand, where that takes more: it streams by once.
    """
    sides = [(s, set(model.depends[s])) for s in fold.src[0].src]
    (vectors, own), (rows, others) = sides if lane in sides[0][1] else sides[::-1]
    own, others = own - others, others - own

    def is_uncached(operand: UOp, ranges: set[UOp]) -> bool:
        terms = prod(r.arg.size for r in ranges.union(fold.src[1:]))
        # Windows that overlap read an element several times.
        held = sum(count(u.src[0].shape) for u in walk([operand]) if u.op is Op.LOAD)
        return bool(operand.dtype.itemsize * min(terms, held) > model.cache_bytes // 2)

    if lane not in own:
        return set(), set()
    if is_uncached(vectors, own):
        return own, set()
    return set(), others if is_uncached(rows, others) else set()


def _block_matrix_tiles(start: Start, target: Target) -> Nest:
    """Cache blocking of a contraction on a matrix unit.

    As many columns as half of L2 holds stay there while all rows stream by, or else rows.
    """
    n, model, _, fold = start
    assert fold is not None
    a, b = (set(model.depends[s]) for s in fold.src[0].src)
    if any(r.arg.place is Place.UNIT for r in n.loops if r in b):
        a, b = b, a
    loops = [r for r in n.loops if r.arg.place is Place.LOOP]
    batch = [r for r in loops if r in a & b]
    depth = prod(r.arg.size for r in fold.src[1:])
    itemsize = max(u.dtype.itemsize for u in walk([fold]) if u.op is Op.LOAD)
    for side in (b - a, a - b):
        inner = [r for r in loops if r in side]
        others = [r for r in loops if r not in batch and r not in inner]
        side_bytes = depth * prod(r.arg.size for r in n.loops if r in side) * itemsize
        if 2 * side_bytes <= target.l2_bytes:
            return _reorder(n, [*batch, *others])
        outer = max(inner, key=lambda r: r.arg.size)
        most = max(1, target.l2_bytes * outer.arg.size // (2 * side_bytes))
        amount = max(k for k in range(1, most + 1) if outer.arg.size % k == 0)
        if loop_nest.is_whole(n, outer) and amount > 1:
            n = Split(outer.arg.number, amount, Place.LOOP).apply(n)
            return _reorder(n, [*batch, n.newest(2)[0], *others])
    return _reorder(n, [*batch, *(r for r in loops if r in b - a)])


def _size(r: UOp | None) -> int:
    return 1 if r is None else int(r.arg.size)


def _tile_side(loops: list[UOp], model: Model) -> UOp | None:
    """The loop for the other side of a register tile: long enough, and of the smallest stride.

    Rows far apart in memory each need their own page and cache sets.
    """
    strides = largest_strides(model)
    long = [r for r in loops if r.arg.size >= min(MIN_TILE_ROWS, max(r.arg.size for r in loops))]
    return min(long, key=lambda r: strides.get(r, 0), default=None)


# Everything else: vectors side by side.


def _vectorise(start: Start) -> Nest:
    """A kernel without a contraction: a vector axis, and independent vectors along it."""
    n, model, lane, _ = start
    lanes, small, in_order = model.lanes, model.is_small, loop_nest.in_order(n.body)
    for r, period in _condition_periods(n, lane).items():
        n = Split(r.arg.number, period, Place.UPCAST).apply(n)
    if lane is not None and lane in n.loops:
        vectors = -(-lane.arg.size // lanes)
        depends = dependences(n.body)  # of the body that the splits above have changed
        column_sums = [f for f in loop_nest.folds(n.body) if lane in depends[f]]
        row_vectors = short_row_vectors(model)
        # The loops of a reduction decide, not the epilogue, which runs once for each sum.
        light = small or (
            bool(column_sums) and all(few_operations(loop_body(f)) for f in column_sums)
        )
        most = INTERLEAVED_COLUMN_SUMS if small and column_sums else INTERLEAVED_VECTORS
        parts = max([sum_order.partial_sums(f, model.target) or 1 for f in column_sums], default=1)
        # Elements that are updated one by one gain nothing from vectors side by side.
        updates = any(s.op is Op.STORE and s.arg is not None for s in n.body.src)
        light = light and (not updates or _is_contiguous(model, lane, True))
        upcast = row_vectors or min(vectors, most if light and parts == 1 else 1)
        for r in _reduced_squares(model, lane, column_sums):
            n, upcast = Split(r.arg.number, lanes, Place.UPCAST).apply(n), 1
        recurrences = _recurrence_squares(model, lane)
        for r in recurrences:
            n = UnrollRecurrence(r.arg.number, lanes).apply(n)
            upcast = min(upcast, max(1, model.registers // (2 * lanes)))
        crossing = [
            r
            for r in n.loops
            if r is not lane and _is_contiguous(model, r) and not _is_contiguous(model, lane, True)
        ]
        turns = lanes <= MAX_LANES_TO_TRANSPOSE and crossing
        if turns and crossing[-1].arg.number not in in_order:
            # A transpose: squares of vectors, which code generation transposes in registers.
            n = Tile(lane.arg.number, 1, lanes).apply(n)
            side = min(lanes, crossing[-1].arg.size)
            n = Split(crossing[-1].arg.number, side, Place.UPCAST).apply(n)
        else:
            n = Tile(lane.arg.number, upcast, lanes).apply(n)
            if in_order:
                return _reorder_scatter(n, n.newest(3)[0], in_order)
            if row_vectors:
                n = _unroll_rows(n, model.registers // (REGISTERS_PER_ROW_VECTOR * row_vectors))
    return _reorder(n, [r for r in n.loops if r.arg.number not in in_order])


def _reduced_squares(model: Model, lane: UOp, sums: Sequence[UOp]) -> list[UOp]:
    """The reduced ranges along which rows lie in memory that `lane` steps over from row to row.

    Unrolled by the lanes of a vector, squares of rows are loaded as vectors and transposed in
    registers: 34 by 128 distances of 16 coordinates took 29 us with gathers, 9 so.
    """
    squares: list[UOp] = []
    for f in sums:
        r, is_free = f.src[-1], sum_order.partial_sums(f, model.target) is None
        whole = r.arg.place is Place.LOOP and r.arg.size % model.lanes == 0 and not r.src
        crossed = any(
            is_plain_load(u)
            and model.stride(u, terms, r) == 1
            and MAX_STRIDE < abs(model.stride(u, terms, lane)) < UNKNOWN_STRIDE
            for u, terms, _ in model.accesses
        )
        if whole and is_free and crossed and model.lanes in range(2, MAX_LANES_TO_TRANSPOSE + 1):
            squares += [r] if few_operations(loop_body(f)) else []
    return list(dict.fromkeys(squares))


def _recurrence_squares(model: Model, lane: UOp) -> list[UOp]:
    """The loops that carry values along memory while `lane` steps over it, from row to row.

    Squares are transposed in registers: running sums of 50 rows of 1,024 float64 took 74 us by
    way of two transposed copies, and take 27 so.
    """
    lanes, found = model.lanes, list[UOp]()
    for u in model.nest.body.src:
        r = u.src[0]
        if u.op is Op.RECUR and not u.arg.conditional and r.arg.size >= lanes:
            crossed = any(
                len(a.src) == (2 if a.op is Op.LOAD else 3)
                and abs(model.stride(a, terms, r)) == 1
                and 1 < abs(model.stride(a, terms, lane)) < UNKNOWN_STRIDE
                for a, terms, _ in model.accesses
            )
            found += [r] if crossed and lanes in range(2, MAX_LANES_TO_TRANSPOSE + 1) else []
    return found


def _unroll_rows(n: Nest, most: int) -> Nest:
    """Some rows at once: the reductions of one row are a chain, each waits for the one before."""
    for r in reversed(n.loops):
        if r.arg.size > 1 and loop_nest.is_whole(n, r):
            amount = next((k for k in (4, 3, 2) if k <= most and r.arg.size % k == 0), 1)
            return Split(r.arg.number, amount, Place.UPCAST).apply(n) if amount > 1 else n
    return n


def _condition_periods(n: Nest, lane: UOp | None) -> dict[UOp, int]:
    """Loops on whose index conditions depend periodically, and the period of each.

    Unrolled by its period, a loop decides nothing while it runs::

        for r in range(N): if r % 2 == 0: f(r) else: g(r)   ->   for a in range(N / 2): f(..); g(..)

    A short loop that is compared itself, along which values are stacked, is unrolled whole.
    """
    in_order, periods = loop_nest.in_order(n.body), dict[UOp, int]()
    compared = (u for u in nodes(n.body) if u.op in COMPARISONS)
    for u in dict.fromkeys(s for comparison in compared for s in comparison.src):
        if u.op is Op.RANGE:
            period, terms = u.arg.size, {u: 1}
        elif u.op is Op.MOD and u.src[1].op is Op.CONST:
            period, (terms, _) = int(u.src[1].arg.value), affine(u.src[0])
        else:
            continue
        for r in terms if len(terms) == 1 else ():
            is_free = r in n.loops and r is not lane and r.arg.number not in in_order
            if is_free and period <= MAX_PERIOD and r.arg.size % period == 0:
                periods[r] = max(period, periods.get(r, 1))
    # Code grows with the product of the periods.
    return periods if prod(periods.values()) <= MAX_PERIOD else {}


def _reorder_scatter(n: Nest, blocks: UOp, in_order: frozenset[int]) -> Nest:
    """The loops of updates in order: threads share those around them, if they have enough to share.

    Then rows are read from beginning to end; otherwise each thread takes some blocks of vectors.
    """

    def unordered() -> list[UOp]:
        plain = (r for r in n.loops if r.arg.place is Place.LOOP)
        return [r for r in plain if r.arg.number not in in_order]

    outer = [r for r in unordered() if r is not blocks]
    if prod(r.arg.size for r in outer) < MAX_SCATTER_ROWS:
        return _reorder(n, unordered())
    budget = MAX_SCATTER_ROWS
    for r in outer[1:]:
        if r.arg.size <= budget:  # the index that is loaded for one iteration serves all
            n = Bind(r.arg.number, Place.UPCAST).apply(n)
            budget //= r.arg.size
    return _reorder(n, [r for r in unordered() if r is not blocks])


def _is_contiguous(model: Model, r: UOp, everywhere: bool = False) -> bool:
    """Whether some access (or every one) has stride 1 along a range."""
    strides = [
        abs(model.stride(u, terms, r)) for u, terms, _ in model.accesses if r in model.depends[u]
    ]
    return all(s == 1 for s in strides) if everywhere else any(s == 1 for s in strides)


# The order of loops, and threads.


def _reorder(n: Nest, first: Sequence[UOp] = ()) -> Nest:
    """Loops, those of `first` outside; then single iterations, unrolled ranges and lanes."""
    depths = {Place.UPCAST: 2, Place.LANE: 3, Place.UNIT: 3}
    front = {r: i - len(first) for i, r in enumerate(first)}

    def key(r: UOp) -> tuple[int, int]:
        runs_once = r.arg.place is Place.LOOP and r.arg.size == 1
        return 1 if runs_once else depths.get(r.arg.place, 0), front.get(r, n.loops.index(r))

    order = sorted(n.loops, key=key)
    numbers = tuple([r.arg.number for r in order])
    return Reorder(numbers).apply(n) if tuple(order) != n.loops else n


def _parallelise(n: Nest, in_order: frozenset[int]) -> Nest:
    """The outermost loops become one parallel loop with enough tiles for many threads."""
    if not n.loops or n.loops[0].arg.place is not Place.LOOP:
        return n
    first = n.loops[0]
    if first.arg.number in in_order:
        return n
    # A loop that bounds another has to stay one: the bound is an expression of its index.
    bounding = {r for u in n.loops for r in walk(u.src) if r.op is Op.RANGE}
    while len(n.loops) > 1 and first.arg.size < MIN_PARALLEL_TILES:
        second, depends = n.loops[1], dependences(n.body)
        fusible = second.arg.place is Place.LOOP and not {first, second} & bounding
        # What a row reduces would be reduced again by each tile of the row.
        fusible = fusible and all(depends[f] != (first,) for f in loop_nest.folds(n.body))
        if not fusible or second.arg.number in in_order or second.arg.size == 1:
            break
        n = Fuse(first.arg.number, second.arg.number, Place.LOOP).apply(n)
        first = n.newest(1)[0]
    return Bind(first.arg.number, Place.PARALLEL).apply(n)
