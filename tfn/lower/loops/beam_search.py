"""A beam of opt-ops: better ones than the model's for one kernel, found by measuring.

The search begins where `choose` has decided what the bits of results depend on - how reductions
are merged and put into vectors - and leaves that alone.  Everything else is tried: which loop is
the vector axis, how many vectors and rows are computed side by side, which loop runs outside.

    kernel -> the best few nests by the prior, split once more -> ... -> the best of all, measured

The prior counts instructions; what is measured decides.  Nests that would give other bits than
`choose` does are not considered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf, prod

from tfn._support.frozen import frozen
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

HEIGHTS = (2, 3, 4, 6, 8, 12, 13)
WIDTHS = (1, 2, 3, 4, 6)
"""Rows, and vectors, that are computed side by side."""

ROUNDS = 3
"""Opt-ops in a row: a vector axis, rows, an order."""

Measure = Callable[[Nest], float | None]
"""The time of a nest in nanoseconds, inf if it does not run; None once there is no time left."""


@frozen
class Found:
    """What a search has found.

    Attributes:
        opts: of the best nest, to be replayed.
        ns: what it takes, and `chosen_ns` what the nest of `choose` takes.
        tried: how many were measured.
    """

    opts: tuple[OptOp, ...]
    ns: float
    chosen_ns: float
    tried: int


def search(
    n: Nest,
    target: Target,
    measure: Measure,
    known: Sequence[Nest] = (),
    width: int = 6,
    most: int = 24,
) -> Found:
    """The best nest of a kernel that about `most` measurements find, with a beam of `width`.

    What is `known` from an earlier search is tried first.  The best is timed once more, after the
    model's: of many measurements the lowest is low by luck, too.
    """
    chosen = choose(n, target)
    times = {chosen: _known(measure(chosen))}
    others = (nest for nest in candidates(n, target, width, most) if nest not in known)
    for nest in itertools.chain(known, others):
        took = measure(nest)
        if took is None:
            break
        times[nest] = took
    best = min(times, key=times.__getitem__)
    if best is not chosen:
        times[chosen] = min(times[chosen], _known(measure(chosen)))
        took = measure(best)
        if took is not None:
            times[best] = took
        best = min(chosen, best, key=times.__getitem__)
    return Found(best.opts, times[best], times[chosen], len(times))


def _known(took: float | None) -> float:
    return inf if took is None else took


def candidates(n: Nest, target: Target, width: int, most: int) -> list[Nest]:
    """Finished nests in the order of the prior, all with the bits of `choose`."""
    start, chosen = begin(n, target), choose(n, target)
    wanted = arrangement(chosen)
    finished: dict[tuple[OptOp, ...], tuple[float, Nest]] = {}
    beam = [start.nest]
    for _ in range(ROUNDS):
        grown: list[tuple[float, Nest]] = []
        for nest in (after for before in beam for after in steps(before, start)):
            done = _finished(nest, start)
            if done is None:
                continue
            cost = prior(done, target)
            grown.append((cost, nest))
            if arrangement(done) == wanted and done.opts != chosen.opts:
                finished.setdefault(done.opts, (cost, done))
        grown.sort(key=lambda pair: pair[0])
        beam = [nest for _, nest in grown[:width]]
    ranked = sorted(finished.values(), key=lambda pair: pair[0])
    return [nest for _, nest in ranked[:most]]


def steps(n: Nest, start: Start) -> Iterator[Nest]:
    """A nest after one more opt-op, for each that is not refused.

    A matrix unit has its own vector axis.
    """
    lanes = 1 if _has_lanes(n) else start.model.lanes
    for r in n.loops:
        if r.arg.place is not Place.LOOP or r.arg.size == 1:
            continue
        for width in WIDTHS if lanes > 1 and (not _on_unit(n) or r is start.lane) else ():
            if width == 1 or width * lanes < 2 * r.arg.size:
                with suppress(SplitError):
                    yield Tile(r.arg.number, width, lanes).apply(n)
        for height in HEIGHTS:
            if height <= r.arg.size:
                with suppress(SplitError):
                    yield Split(r.arg.number, height, Place.UPCAST).apply(n)
        with suppress(SplitError):
            others = (other.arg.number for other in n.loops if other is not r)
            yield Reorder((r.arg.number, *others)).apply(n)


def _finished(n: Nest, start: Start) -> Nest | None:
    if _on_unit(n) and not _has_lanes(n):
        return None
    with suppress(SplitError):
        return finish(n, start.model)
    return None


def _has_lanes(n: Nest) -> bool:
    return any(r.arg.place is Place.LANE for r in n.loops)


def _on_unit(n: Nest) -> bool:
    return any(r.arg.place is Place.UNIT for fold in loop_nest.folds(n.body) for r in fold.src[1:])


def arrangement(n: Nest) -> tuple[tuple[tuple[int, Place], ...], ...]:
    """How reductions are computed, which decides their bits: the ranges of each."""
    return tuple(
        tuple((r.arg.size, r.arg.place) for r in fold.src[1:]) for fold in loop_nest.folds(n.body)
    )


def prior(n: Nest, target: Target) -> float:
    """About how many instructions a nest executes, as the registers allow.

    A value is computed in every loop around it and in each unrolled coordinate that it depends on;
    what a vector axis strides over is loaded one by one; sums that no register is left for are
    kept in memory.
    """
    depends = dependences(n.body)
    outer = [r for r in n.loops if r.arg.place in (Place.LOOP, Place.PARALLEL)]
    total = 0.0
    for fold in (None, *loop_nest.folds(n.body)):
        inner = fold.src[1:] if fold is not None else ()
        around = {*outer, *(r for r in inner if r.arg.place is Place.LOOP)}
        nodes = _own(n.body if fold is None else fold.src[0])
        spilled = fold is not None and _sums(fold, depends[fold]) > accumulators(target)
        for u in nodes:
            unrolled = prod(r.arg.size for r in depends[u] if r.arg.place is Place.UPCAST)
            total += prod(r.arg.size for r in around) * unrolled * _weight(u, depends[u])
        if spilled:
            total *= 3
    return total


def _own(root: UOp) -> Sequence[UOp]:
    """The nodes of a body that are not within a reduction inside of it."""
    seen: dict[UOp, None] = {}
    stack = [root]
    while stack:
        u = stack.pop()
        if u not in seen and u.op not in (Op.CONST, Op.PARAM, Op.RANGE):
            seen[u] = None
            stack.extend(() if u.op is Op.FOLD else u.src[2:] if u.op is Op.LOAD else u.src)
    return [u for u in seen if u.op is not Op.SINK]


def _sums(fold: UOp, around: Sequence[UOp]) -> int:
    """How many sums of a reduction are open at once."""
    return prod(r.arg.size for r in (*around, *fold.src[1:]) if r.arg.place is Place.UPCAST)


def _weight(u: UOp, ranges: Sequence[UOp]) -> float:
    """Of an instruction: one, or as many as there are lanes where memory is strided."""
    lane = next((r for r in ranges if r.arg.place is Place.LANE), None)
    if u.op not in (Op.LOAD, Op.STORE) or lane is None:
        return 1.0
    terms, _ = affine(u.src[1])
    strided = abs(terms.get(lane, 0)) > 1 or any(
        lane in t.src for t in terms if t.op is not Op.RANGE
    )
    return float(lane.arg.size) if strided else 1.0
