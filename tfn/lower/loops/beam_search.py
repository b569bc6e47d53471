"""Beam search for opt-ops: schedules of one kernel that are measured instead of modelled.

The search begins where `heuristics.begin` has decided what the bits of results depend on - how
reductions are merged and put into vectors - and leaves that alone.  Everything else is tried: which
loop is the vector axis, how many vectors and rows are computed side by side, which loop runs
outside::

    nest  ->  its successors by one opt-op  ->  the `width` best by estimated instructions
          ->  their successors  -> ...      ->  the best of all finished ones are measured

Instruction counts only rank; measurements decide.  Nests that would give other bits than `choose`
does are dropped.

Source: A. Adams et al. 2019, "Learning to optimize Halide with tree search and random programs",
for a beam search over schedules.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf, prod

from tfn._support.frozen import frozen, mutable
from tfn.errors import SplitError
from tfn.lower.index.affine import affine
from tfn.lower.index.dependence import dependences
from tfn.lower.loops import loop_nest
from tfn.lower.loops.heuristics import Start, begin, choose, finish
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Reorder, Split, Tile
from tfn.lower.program import OptOp
from tfn.lower.target.register_tile import accumulators
from tfn.lower.target.target import Target
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp

ROWS_SIDE_BY_SIDE = (2, 3, 4, 6, 8, 12, 13)
"""Rows that are tried as the height of a register tile; 13 x 2 fills 26 accumulators."""

VECTORS_SIDE_BY_SIDE = (1, 2, 3, 4, 6)
"""Vectors that are tried as the width of a register tile."""

MAX_OPT_OPS = 3
"""Opt-ops in a row: a vector axis, rows, an order of loops."""

SPILL_FACTOR = 3
"""Instructions for one where sums do not fit into registers: a load and a store come with it."""


@mutable
class Trial:
    """A nest of the search tree.

    Attributes:
        opts: opt-ops that led to it, and `parent` those of the nest before; None for the root.
        estimated: instructions that it would execute, once its remaining loops are bound.
        kept: whether it was among the best of its round, whose successors were tried.
        ns: its measured time; None if it was not measured.
    """

    opts: tuple[OptOp, ...]
    parent: tuple[OptOp, ...] | None
    estimated: float
    kept: bool = False
    ns: float | None = None


Tree = dict[tuple[OptOp, ...], Trial]
"""The trials by the opt-ops of the finished nest."""

Measure = Callable[[Nest], float | None]
"""The time of a nest in nanoseconds, inf if it does not run; None once there is no time left."""


@frozen
class SearchResult:
    """The fastest nest of a search.

    Attributes:
        opts: its opt-ops, to be replayed.
        ns: its time, and `heuristic_ns` that of the nest that `choose` gives.
        measured: the number of nests that were measured.
    """

    opts: tuple[OptOp, ...]
    ns: float
    heuristic_ns: float
    measured: int


def search(
    n: Nest,
    target: Target,
    measure: Measure,
    earlier: Sequence[Nest] = (),
    width: int = 6,
    most: int = 24,
    tree: Tree | None = None,
) -> SearchResult:
    """The fastest nest of a kernel among about `most` measured ones, by a beam of `width`.

    The `tree` gets what was tried, as it is tried.

    The best nests of an `earlier` search are measured first.  The best of all is measured once
    more, after that of `choose`: the lowest of many noisy times is partly luck.
    """
    tree = {} if tree is None else tree
    default = choose(n, target)
    estimated = estimated_instructions(default, target)
    tree[default.opts] = Trial(default.opts, None, estimated)
    times_ns = {default: _or_infinite(measure(default))}
    tree[default.opts].ns = times_ns[default]
    others = (nest for nest in candidates(n, target, width, most, tree) if nest not in earlier)
    for nest in itertools.chain(earlier, others):
        time_ns = measure(nest)
        if time_ns is None:  # the time is over: the nests measured so far count
            break
        times_ns[nest] = time_ns
        if nest.opts not in tree:
            tree[nest.opts] = Trial(nest.opts, None, estimated_instructions(nest, target))
        tree[nest.opts].ns = time_ns
    best = min(times_ns, key=times_ns.__getitem__)
    if best is not default:
        times_ns[default] = min(times_ns[default], _or_infinite(measure(default)))
        time_ns = measure(best)
        if time_ns is not None:
            times_ns[best] = time_ns
        best = min(default, best, key=times_ns.__getitem__)
    return SearchResult(best.opts, times_ns[best], times_ns[default], len(times_ns))


def _or_infinite(time_ns: float | None) -> float:
    return inf if time_ns is None else time_ns


def candidates(
    n: Nest, target: Target, width: int, most: int, tree: Tree | None = None
) -> list[Nest]:
    """Finished nests by estimated instructions, fewest first, all with the bits of `choose`.

    The `tree` gets all that were ranked.
    """
    tree = {} if tree is None else tree
    start, default = begin(n, target), choose(n, target)
    order = reduction_order(default)
    finished: dict[tuple[OptOp, ...], tuple[float, Nest]] = {}
    beam = [start.nest]
    for _ in range(MAX_OPT_OPS):
        ranked: list[tuple[float, Nest, Trial]] = []
        for before, nest in ((b, after) for b in beam for after in successors(b, start)):
            complete = _finished(nest, start)
            if complete is None:
                continue
            cost = estimated_instructions(complete, target)
            # The beam holds unfinished nests: finishing binds loops, which refuse further splits.
            trial = tree.setdefault(complete.opts, Trial(nest.opts, before.opts, cost))
            ranked.append((cost, nest, trial))
            if reduction_order(complete) == order and complete.opts != default.opts:
                finished.setdefault(complete.opts, (cost, complete))
        ranked.sort(key=lambda row: row[0])
        beam = [nest for _, nest, _ in ranked[:width]]
        for _, _, trial in ranked[:width]:
            trial.kept = True
    cheapest = sorted(finished.values(), key=lambda pair: pair[0])
    return [nest for _, nest in cheapest[:most]]


def successors(n: Nest, start: Start) -> Iterator[Nest]:
    """The nests after one more opt-op, for each that is legal.

    On a matrix unit the vector axis is fixed.
    """
    lanes = 1 if _has_lanes(n) else start.model.lanes
    for r in n.loops:
        if r.arg.place is not Place.LOOP or r.arg.size == 1:
            continue
        may_be_lane = lanes > 1 and (not _is_tensorized(n) or r is start.lane)
        for width in VECTORS_SIDE_BY_SIDE if may_be_lane else ():
            # Vectors beyond the end of the loop would be masked, and waste their time.
            if width == 1 or width * lanes < 2 * r.arg.size:
                with suppress(SplitError):
                    yield Tile(r.arg.number, width, lanes).apply(n)
        for height in ROWS_SIDE_BY_SIDE:
            if height <= r.arg.size:
                with suppress(SplitError):
                    yield Split(r.arg.number, height, Place.UPCAST).apply(n)
        with suppress(SplitError):
            others = (other.arg.number for other in n.loops if other is not r)
            yield Reorder((r.arg.number, *others)).apply(n)


def _finished(n: Nest, start: Start) -> Nest | None:
    # A tensorized nest is complete only with its own vector axis.
    if _is_tensorized(n) and not _has_lanes(n):
        return None
    with suppress(SplitError):
        return finish(n, start.model)
    return None


def _has_lanes(n: Nest) -> bool:
    return any(r.arg.place is Place.LANE for r in n.loops)


def _is_tensorized(n: Nest) -> bool:
    return any(r.arg.place is Place.UNIT for fold in loop_nest.folds(n.body) for r in fold.src[1:])


def reduction_order(n: Nest) -> tuple[tuple[tuple[int, Place], ...], ...]:
    """The ranges of each reduction: they decide in which order it adds, and so its bits."""
    return tuple(
        tuple((r.arg.size, r.arg.place) for r in fold.src[1:]) for fold in loop_nest.folds(n.body)
    )


def estimated_instructions(n: Nest, target: Target) -> float:
    """About how many instructions a nest executes, spills included.

    A value is computed in every loop around it and in each unrolled coordinate that it depends on.
    Strided memory is accessed one lane at a time.  Sums beyond the accumulators are spilled.
    """
    depends = dependences(n.body)
    outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
    total = 0.0
    # None stands for the stores and what they need outside of reductions.
    for fold in (None, *loop_nest.folds(n.body)):
        inner = fold.src[1:] if fold is not None else ()
        around = {*outer, *(r for r in inner if r.arg.place is Place.LOOP)}
        nodes = _outside_inner_reductions(n.body if fold is None else fold.src[0])
        spills = fold is not None and _open_sums(fold, depends[fold]) > accumulators(target)
        for u in nodes:
            unrolled = prod(r.arg.size for r in depends[u] if r.arg.place is Place.UPCAST)
            total += prod(r.arg.size for r in around) * unrolled * _instructions(u, depends[u])
        if spills:
            total *= SPILL_FACTOR
    return total


def _outside_inner_reductions(root: UOp) -> Sequence[UOp]:
    """The nodes of a body that are not within a reduction inside of it.

    Addresses of loads are not counted: code generation hoists them out of the loops.
    """
    seen: dict[UOp, None] = {}
    stack = [root]
    while stack:
        u = stack.pop()
        if u not in seen and u.op not in (Op.CONST, Op.PARAM, Op.RANGE):
            seen[u] = None
            stack.extend(() if u.op is Op.FOLD else u.src[2:] if u.op is Op.LOAD else u.src)
    return [u for u in seen if u.op is not Op.SINK]


def _open_sums(fold: UOp, around: Sequence[UOp]) -> int:
    """The number of sums of a reduction that are open at once."""
    return prod(r.arg.size for r in (*around, *fold.src[1:]) if r.arg.place is Place.UPCAST)


def _instructions(u: UOp, ranges: Sequence[UOp]) -> float:
    """Instructions of a node: one, or one for each lane if it accesses strided memory."""
    lane = next((r for r in ranges if r.arg.place is Place.LANE), None)
    if u.op not in (Op.LOAD, Op.STORE) or lane is None:
        return 1.0
    terms, _ = affine(u.src[1])
    strided = abs(terms.get(lane, 0)) > 1 or any(
        lane in t.src for t in terms if t.op is not Op.RANGE
    )
    return float(lane.arg.size) if strided else 1.0
