"""Which opt-ops a kernel gets: an analytical model of the target, no search.

Three decisions, in this order.  *Merge* neighbouring loops that every address steps through as
one.  Choose the *vector axis*: for each candidate the model counts loads and stores, contiguous
ones by the vector, others one by one, and takes the cheapest.  Choose the *register tile*: for a
contraction the rows and vectors that waste least within the accumulators that the registers hold,
for anything else enough independent vectors to hide latencies.  Then the outermost loop is shared
among the threads, if there is enough to share.

Nothing here depends on how many threads there are, so results do not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import integer
from tfn.lower.loops import loop_nest
from tfn.lower.loops.cost_model import Model, few_operations, inside, model_of
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import (
    Bind,
    Fuse,
    Merge,
    Reorder,
    ReorderReductions,
    Split,
    SplitAt,
    Tile,
    steps_as_one,
)
from tfn.lower.loops.tensorize import on_unit
from tfn.lower.target.register_tile import best_tile
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes, walk

ENOUGH_TILES = 16
"""Tiles that a loop has at least before its neighbour is not joined to it for the threads."""

PARALLEL_NS = 10_000
"""A kernel shorter than this stays on one thread: waking another costs about as much."""

LONG, LINE, STREAMS = 1 << 14, 1 << 8, 4
"""A reduced range of so many elements is read in so many streams; shorter ones, of so many, as many
at a time: that keeps more of memory's requests in flight."""


SHORT_ROW = 8
"""Vectors of a row that is unrolled whole, with its statistics."""


def choose(n: Nest, target: Target) -> Nest:
    """The nest with its loops merged, vectorised, tiled and shared."""
    start = begin(n, target)
    if any(r.arg.place is Place.UNIT for r in start.nest.loops):
        n = _blocks(start, target)
    elif start.contraction is not None:
        n = _tile(start, start.contraction)
    else:
        n = _stream(start)
    return finish(n, start.model)


class Start(NamedTuple):
    """A nest before its loops are split: what is merged, and how its reductions are done.

    Attributes:
        lane: the vector axis, which may be one of a reduction's ranges.
        contraction: the reduction that a register tile is for.
    """

    nest: Nest
    model: Model
    lane: UOp | None
    contraction: UOp | None


def begin(n: Nest, target: Target) -> Start:
    """The nest with what its results' bits depend on decided: the search leaves that alone."""
    n = _longest_strides_outside(n, model_of(n, target))
    n = _merged(_parted(n, model_of(n, target).lanes))
    model = model_of(n, target)
    lane = model.vector_axis(loop_nest.in_order(n.body))
    contraction = next((f for f in loop_nest.folds(n.body) if model.contracts(f)), None)
    if contraction is None or not model.reuses(contraction, lane):
        return Start(n, model, lane, None)
    found = on_unit(n, contraction, target)
    if found is not None:
        n, lane = found
    elif lane in contraction.src[1:]:  # dot products: vectors along the reduced axis
        n = Tile(lane.arg.number, 1, model.lanes).apply(n)
    model = model if n is model.nest else model_of(n, target)
    return Start(n, model, lane, next(f for f in loop_nest.folds(n.body) if model.contracts(f)))


def finish(n: Nest, model: Model) -> Nest:
    """A nest whose loops are split: reductions get vectors of their own, threads their tiles."""
    n = _ordered(_vectors_of_folds(n, model))
    return loop_nest.simplified(_share(n, loop_nest.in_order(n.body)))


def work(n: Nest, target: Target) -> int:
    """Estimated nanoseconds on one core."""
    return int(model_of(n, target).total())


def _parted(n: Nest, lanes: int) -> Nest:
    """Long loops become two where the index of the inner one means the same all along the outer.

    Where values lie side by side in a few parts of one length, each part is a loop; an index that
    is divided is a loop over what the division gives.
    """
    divided = [u for u in nodes(n.body) if u.op in loop_nest.DIVISIONS and u.src[1].op is Op.CONST]
    for r in n.loops:
        size: int = r.arg.size
        part = gcd(size, *_bounds(n, r))
        if part < lanes or size // part not in range(2, STREAMS + 1):
            steps = sorted({int(u.src[1].arg.value) for u in divided if u.src[0] is r})
            chain = all(b % a == 0 for a, b in pairwise([*steps, size]))
            part = steps[-1] if steps and chain and steps[0] >= lanes else 0
        if part and loop_nest.is_whole(n, r):
            return _parted(SplitAt(r.arg.number, part).apply(n), lanes)
    return n


def _bounds(n: Nest, r: UOp) -> set[int]:
    """The indices of a loop at which a condition on it alone begins or ceases to hold."""
    found = set()
    for u in nodes(n.body):
        if u.op in (Op.LT, Op.LE) and r in u.src:
            at = u.src.index(r)
            if u.src[1 - at].op is Op.CONST:
                found.add(integer(u.src[1 - at]) + ((u.op is Op.LT) == bool(at)))
    return found


def _merged(n: Nest) -> Nest:
    """Neighbouring loops merged where addresses allow, outside and inside of folds."""
    again = True
    while again:
        again = False
        groups = [list(n.loops), *([*f.src[1:]] for f in loop_nest.folds(n.body))]
        for group in groups:
            for a, b in pairwise(group):
                if steps_as_one(n, a, b):
                    n, again = Merge(a.arg.number, b.arg.number).apply(n), True
                    break
            if again:
                break
    return n


def _tile(start: Start, fold: UOp) -> Nest:
    """A contraction: rows by vectors in registers.

    If the second operand, which is loaded by vectors, does not fit in the cache, its loops run
    outside those over blocks of rows: one panel of it stays there while the rows of the first
    stream by.
    """
    n, model, lane, _ = start
    a, b = (set(model.depends[s]) for s in fold.src[0].src)
    outside = [r for r in n.loops if r in a & b]
    if lane not in n.loops:  # dot products
        columns = _near([r for r in n.loops if r in b - a], model)
        rows = _near([r for r in n.loops if r in a - b], model)
        height, width = best_tile(_size(rows), _size(columns), 1, model.accumulators)
        if rows is not None:
            n = Split(rows.arg.number, height, Place.UPCAST).apply(n)
        if columns is not None:
            n = Split(columns.arg.number, width, Place.UPCAST).apply(n)
            outside.append(n.newest(2)[0])
    else:
        other = (a ^ b) if lane in a & b else b - a if lane in a else a - b
        rows = _near([r for r in n.loops if r in other], model)
        size: int = lane.arg.size
        height, width = best_tile(_size(rows), size, model.lanes, model.accumulators)
        if rows is not None:
            n = Split(rows.arg.number, height, Place.UPCAST).apply(n)
        far = _far(model, fold, lane)
        n = Tile(lane.arg.number, width, model.lanes).apply(n)
        columns = n.newest(3)[0]
        outside += [r for r in n.loops if far and (r is columns or r in far)]
    return _ordered(n, outside)


def _far(model: Model, fold: UOp, lane: UOp) -> set[UOp]:
    """The ranges of the operand that is loaded by vectors, if it takes more than half the cache."""
    a, b = (set(model.depends[s]) for s in fold.src[0].src)
    ours, of = (fold.src[0].src[0], a - b) if lane in a else (fold.src[0].src[1], b - a)
    size_bytes = ours.dtype.itemsize * prod(r.arg.size for r in of.union(fold.src[1:]))
    return of if lane in of and size_bytes > model.cache_bytes // 2 else set()


def _blocks(start: Start, target: Target) -> Nest:
    """A contraction by whole matrices: blocks of columns that the second cache holds stay there
    while all rows stream by, or else blocks of rows.
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
        whole_bytes = depth * prod(r.arg.size for r in n.loops if r in side) * itemsize
        if 2 * whole_bytes <= target.l2_bytes:
            return _ordered(n, [*batch, *others])
        outer = max(inner, key=lambda r: r.arg.size)
        most = max(1, target.l2_bytes * outer.arg.size // (2 * whole_bytes))
        amount = max(k for k in range(1, most + 1) if outer.arg.size % k == 0)
        if loop_nest.is_whole(n, outer) and amount > 1:
            n = Split(outer.arg.number, amount, Place.LOOP).apply(n)
            return _ordered(n, [*batch, n.newest(2)[0], *others])
    return _ordered(n, [*batch, *(r for r in loops if r in b - a)])


def _size(r: UOp | None) -> int:
    return 1 if r is None else int(r.arg.size)


def _near(loops: list[UOp], model: Model) -> UOp | None:
    """The loop for the other side of a register tile: long enough, and with close neighbours.

    Rows far apart in memory each want their own page and cache sets.
    """

    distance = _distances(model)
    long = [r for r in loops if r.arg.size >= min(6, max(r.arg.size for r in loops))]
    return min(long, key=lambda r: distance.get(r, 0), default=None)


def _longest_strides_outside(n: Nest, model: Model) -> Nest:
    """Reductions step through memory with the longest strides outside."""
    distance = _distances(model)
    reduced = dict.fromkeys(r for fold in loop_nest.folds(n.body) for r in fold.src[1:])
    order = sorted(reduced, key=lambda r: -distance.get(r, 0))
    return ReorderReductions(tuple([r.arg.number for r in order])).apply(n)


def _distances(model: Model) -> dict[UOp, int]:
    """For each range the longest step in memory that one iteration makes, in elements."""
    out: dict[UOp, int] = {}
    for u, terms, _ in model.access:
        for r, k in terms.items():
            if u.op is Op.LOAD:
                out[r] = max(out.get(r, 0), abs(k))
    return out


def _stream(start: Start) -> Nest:
    """Everything else: a vector axis, and independent vectors along it."""
    n, model, lane, _ = start
    lanes, small, in_order = model.lanes, model.small, loop_nest.in_order(n.body)
    for r, turns in _turns(n, lane).items():
        n = Split(r.arg.number, turns, Place.UPCAST).apply(n)
    if lane is not None and lane in n.loops:
        vectors = -(-lane.arg.size // lanes)
        depends = dependences(n.body)  # the turns have made it another
        sums = [f for f in loop_nest.folds(n.body) if lane in depends[f]]
        whole = _short_row(model)
        # What a sum reads is read by vectors side by side, however much is done with it after.
        light = small or (bool(sums) and all(few_operations(inside(f)) for f in sums))
        upcast = whole or min(vectors, 8 if small and sums else 4 if light else 1)
        crossing = [
            r for r in n.loops if r is not lane and _unit(model, r) and not _unit(model, lane, True)
        ]
        if crossing and crossing[-1].arg.number not in in_order:
            # A transpose: squares of vectors, turned in registers.
            n = Tile(lane.arg.number, 1, lanes).apply(n)
            side = min(lanes, crossing[-1].arg.size)
            n = Split(crossing[-1].arg.number, side, Place.UPCAST).apply(n)
        else:
            n = Tile(lane.arg.number, upcast, lanes).apply(n)
            if in_order:
                return _in_parts(n, n.newest(3)[0], in_order)
            n = _rows(n, model.registers // (3 * whole)) if whole else n
    return _ordered(n, [r for r in n.loops if r.arg.number not in in_order])


def _short_row(model: Model) -> int:
    """The vectors of a row, if it is short, and all reductions are statistics of such rows; or 0.

    Unrolled whole, what the statistics and the row are both made of is made once: of a softmax the
    exponentials, which stay in registers.
    """
    loops, folds = model.nest.loops, loop_nest.folds(model.nest.body)
    if not loops or not folds or loop_nest.in_order(model.nest.body):
        return 0
    row = loops[-1]
    plain = all(
        len(f.src) == 2
        and f.src[1].arg.size == row.arg.size
        and f.arg.index is None
        and row not in model.depends[f]
        for f in folds
    )
    vectors: int = -(-row.arg.size // model.lanes)
    return vectors if plain and vectors <= SHORT_ROW else 0


def _rows(n: Nest, most: int) -> Nest:
    """Some rows at once, since statistics are chains: each waits for what comes before."""
    for r in reversed(n.loops):
        if r.arg.size > 1 and loop_nest.is_whole(n, r):
            amount = next((k for k in (4, 3, 2) if k <= most and r.arg.size % k == 0), 1)
            return Split(r.arg.number, amount, Place.UPCAST).apply(n) if amount > 1 else n
    return n


def _turns(n: Nest, lane: UOp | None) -> dict[UOp, int]:
    """Loops whose iterations take turns in what they do, and of how many kinds they are.

    Unrolled by that, each does its own, and nothing is decided while it runs::

        for r in range(N): if r % 2 == 0: f(r) else: g(r)   ->   for a in range(N / 2): f(..); g(..)

    A short one, along which values are stacked, is unrolled whole.
    """
    in_order, found = loop_nest.in_order(n.body), dict[UOp, int]()
    compared = (u for u in nodes(n.body) if u.op in (Op.EQ, Op.NE, Op.LT))
    for u in dict.fromkeys(s for comparison in compared for s in comparison.src):
        if u.op is Op.RANGE:
            turns, terms = u.arg.size, {u: 1}
        elif u.op is Op.MOD and u.src[1].op is Op.CONST:
            turns, (terms, _) = int(u.src[1].arg.value), affine(u.src[0])
        else:
            continue
        for r in terms if len(terms) == 1 else ():
            whole = r in n.loops and r is not lane and r.arg.number not in in_order
            if whole and turns <= STREAMS and r.arg.size % turns == 0:
                found[r] = max(turns, found.get(r, 1))
    return found if prod(found.values()) <= STREAMS else {}


def _in_parts(n: Nest, blocks: UOp, in_order: frozenset[int]) -> Nest:
    """Updates in order: the loops around them share the work, if they have enough of it.

    Then lines are read from beginning to end; otherwise each thread takes some blocks of vectors.
    """

    def free() -> list[UOp]:
        plain = (r for r in n.loops if r.arg.place is Place.LOOP)
        return [r for r in plain if r.arg.number not in in_order]

    parts = [r for r in free() if r is not blocks]
    if prod(r.arg.size for r in parts) < STREAMS:
        return _ordered(n, free())
    room = STREAMS
    for r in parts[1:]:
        if r.arg.size <= room:  # what is read for one of them is for all
            n = Bind(r.arg.number, Place.UPCAST).apply(n)
            room //= r.arg.size
    return _ordered(n, [r for r in free() if r is not blocks])


def _vectors_of_folds(n: Nest, model: Model) -> Nest:
    """Reductions outside of a vector axis get one of their own, and several sums side by side."""
    lanes, whole = model.lanes, _short_row(model)
    for i in range(len(loop_nest.folds(n.body))):
        fold = loop_nest.folds(n.body)[i]  # as it is now: a fold in it may have got lanes
        own = _fold_lane(n, fold)
        if own is not None:
            small = few_operations(inside(fold))
            side_by_side = whole or (4 if small else 1)
            block = model.registers * lanes
            if small and own.arg.size >= LONG and own.arg.size % block == 0:
                n = Split(own.arg.number, own.arg.size // STREAMS, Place.LOOP).apply(n)
                part, own = n.newest(2)
                n = Bind(part.arg.number, Place.UPCAST).apply(n)
                side_by_side = model.registers // STREAMS
                side_by_side //= 1 if fold.arg.index is None else 2  # the best, and where it was
            elif small and own.arg.size >= LINE and fold.src[1:] == (own,):
                n = _lines(n, fold)
            vectors = -(-own.arg.size // lanes)
            n = Tile(own.arg.number, min(vectors, side_by_side), lanes).apply(n)
    return n


def _lines(n: Nest, fold: UOp) -> Nest:
    """The reduction of many lines and nothing else, a line of each of some parts at once::

    for r in range(N): f(r)   ->   for a in range(N / 4): f(a), f(a + N / 4), ...
    """
    alone = len(loop_nest.folds(n.body)) == 1 and not loop_nest.in_order(n.body)
    if not n.loops or not alone or set(n.loops) != set(dependences(n.body)[fold]):
        return n
    first = n.loops[0]
    if first.arg.size % STREAMS or first.arg.size < STREAMS * ENOUGH_TILES:
        return n
    n = Split(first.arg.number, first.arg.size // STREAMS, Place.LOOP).apply(n)
    return Bind(n.newest(2)[0].arg.number, Place.UPCAST).apply(n)


def _unit(model: Model, r: UOp, everywhere: bool = False) -> bool:
    """Whether some access (or every one) steps by one along a range."""
    strides = [
        abs(model.stride(u, terms, r)) for u, terms, _ in model.access if r in model.depends[u]
    ]
    return all(s == 1 for s in strides) if everywhere else any(s == 1 for s in strides)


def _fold_lane(n: Nest, fold: UOp) -> UOp | None:
    """The reduced range to vectorise: no value may depend on two vector axes.

    So there is none inside of a vector axis, nor where a reduction within, which has its own,
    depends on the range.
    """
    depends = dependences(n.body)
    if any(r.arg.place is Place.LANE for r in (*depends[fold], *fold.src[1:])):
        return None
    vectors = [
        u
        for u in walk([fold.src[0]])
        if u.op is Op.FOLD and any(r.arg.place is Place.LANE for r in u.src[1:])
    ]
    taken = {r for u in vectors for r in depends[u]}
    free = [
        r for r in fold.src[1:] if r.arg.place is Place.LOOP and r.arg.size > 1 and r not in taken
    ]
    return free[-1] if free else None


def _ordered(n: Nest, first: Sequence[UOp] = ()) -> Nest:
    """Loops, those of `first` outside; then single iterations, unrolled ranges and lanes."""
    places = {Place.UPCAST: 2, Place.LANE: 3, Place.UNIT: 3}
    front = {r: i - len(first) for i, r in enumerate(first)}

    def key(r: UOp) -> tuple[int, int]:
        alone = r.arg.place is Place.LOOP and r.arg.size == 1
        return 1 if alone else places.get(r.arg.place, 0), front.get(r, n.loops.index(r))

    order = sorted(n.loops, key=key)
    numbers = tuple([r.arg.number for r in order])
    return Reorder(numbers).apply(n) if tuple(order) != n.loops else n


def _share(n: Nest, in_order: frozenset[int]) -> Nest:
    """The outermost loops become one parallel loop with enough tiles for many threads."""
    if not n.loops or n.loops[0].arg.place is not Place.LOOP:
        return n
    first = n.loops[0]
    if first.arg.number in in_order:
        return n
    bounded = {r for u in n.loops for r in walk(u.src) if r.op is Op.RANGE}
    while len(n.loops) > 1 and first.arg.size < ENOUGH_TILES:
        second = n.loops[1]
        whole = second.arg.place is Place.LOOP and not {first, second} & bounded
        if not whole or second.arg.number in in_order or second.arg.size == 1:
            break
        n = Fuse(first.arg.number, second.arg.number, Place.LOOP).apply(n)
        first = n.newest(1)[0]
    return Bind(first.arg.number, Place.PARALLEL).apply(n)
