"""The rows of COND, and of CALL, which is a choice with nothing to choose from.

Forward mode gives two choices by the same index: the branches with residuals beside their results,
and their derivatives, linear in the tangents.  Residuals of different branches share places of one
type.  What is made of functions is made once, however many calls of them there are, so that calls
of one function become calls of one derivative.

Where the index differs from lane to lane, every branch runs and each lane selects; then
what a branch does in lanes that have not chosen it must not show, NaN and infinity included, not
in derivatives either: see `_apart`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tfn.dtypes import INEXACT, INT32
from tfn.trace import effects
from tfn.trace.argument import Call
from tfn.trace.build import (
    broadcast_in_dim,
    cast,
    eq,
    full_like,
    gather,
    iota,
    maximum,
    minimum,
    reduce,
    reshape,
    several,
    spread,
    where,
    zeros,
)
from tfn.trace.inline import sealed
from tfn.trace.op import Op
from tfn.trace.regions import results
from tfn.trace.uop import UOp, remembered, substitute, walk
from tfn.transforms.body import Lanes, closed, filled, fresh, opened, residuals, thinned
from tfn.transforms.scan_rules import Batch, Pull, Push


def _parts(u: UOp) -> tuple[int, tuple[UOp, ...], tuple[UOp, ...]]:
    """Where the functions among the sources begin, those, and their operands."""
    first, count = (0, 1) if u.op is Op.CALL else (1, u.arg.branches)
    return first, u.src[first : first + count], u.src[first + count :]


def _again(
    u: UOp,
    functions: Sequence[UOp],
    operands: Sequence[UOp],
    how: str = "",
    index: Sequence[UOp] | None = None,
) -> list[UOp]:
    """The results of other functions, chosen or called in the same way."""
    first, _, _ = _parts(u)
    arg = Call(f"{how}({u.arg.name})") if how and u.op is Op.CALL else u.arg
    head = u.src[:first] if index is None else index
    return several(sealed(UOp(u.op, (*head, *functions, *operands), arg)))


def _opened(functions: Sequence[UOp]) -> tuple[list[UOp], list[list[UOp]]]:
    """Leaves for the operands, the same for all functions, and the results of each."""
    inputs, first = opened(functions[0])
    outputs = [first]
    for f in functions[1:]:
        own, found = opened(f)
        outputs.append(substitute(found, dict(zip(own, inputs, strict=True))))
    return inputs, outputs


def _used(inputs: Sequence[UOp], graphs: Sequence[Sequence[UOp]]) -> tuple[int, ...]:
    met = {node for outputs in graphs for node in walk(outputs) if node.op is Op.LEAF}
    return tuple(i for i, x in enumerate(inputs) if x in met)


class _Forward(NamedTuple):
    """The tangents of some functions.

    Attributes:
        keeping: the functions with residuals among their results; none if nothing is kept.
        kept: which results of those are residuals.
        linear: the derivatives, functions of the operands `used`, the residuals, the tangents.
        used: see there.
        live: which results have a tangent.
    """

    keeping: tuple[UOp, ...]
    kept: tuple[int, ...]
    linear: tuple[UOp, ...]
    used: tuple[int, ...]
    live: tuple[int, ...]


@remembered
def _forward(first: UOp, rest: tuple[UOp, ...], push: Push, moving: tuple[int, ...]) -> _Forward:
    """The derivatives of functions, the first and the rest, by the operands `moving`."""
    inputs, branches = _opened((first, *rest))
    directions = {inputs[i]: fresh(inputs[i]) for i in moving}
    slopes = [push(outputs, directions) for outputs in branches]
    live = tuple(i for i, dys in enumerate(zip(*slopes)) if any(dy is not None for dy in dys))
    linear = [
        [filled(dys[i], outputs[i]) for i in live]
        for dys, outputs in zip(slopes, branches, strict=True)
    ]
    places: list[UOp] = []  # residuals of one type, of different branches, share a place
    stored: list[dict[UOp, UOp]] = []  # for each branch, what it keeps in each place
    for graphs in linear:
        free = list(places)
        stored.append({})
        for node in thinned(residuals(graphs, list(directions.values())), inputs):
            if node in inputs:
                continue
            place = next((p for p in free if (p.shape, p.dtype) == (node.shape, node.dtype)), None)
            if place is None:
                place = fresh(node)
                places.append(place)
            else:
                free.remove(place)
            stored[-1][place] = node
    rows = dict.fromkeys(zip(*branches))  # a residual that is a result is kept as that
    columns = [tuple(k.get(p, zeros(p.shape, p.dtype)) for k in stored) for p in places]
    rows |= dict.fromkeys(columns)
    order = list(rows)
    kept = tuple(order.index(column) for column in columns)
    keeping = [closed(outputs, inputs) for outputs in zip(*order)] if places else []
    linear = [
        substitute(graphs, {node: place for place, node in kept_.items()})
        for graphs, kept_ in zip(linear, stored, strict=True)
    ]
    used = _used(inputs, linear)
    variables = [*(inputs[i] for i in used), *places, *directions.values()]
    made = tuple(closed(graphs, variables) for graphs in linear)
    return _Forward(tuple(keeping), kept, made, used, live)


def jvp(push: Push, u: UOp, tangents: Sequence[UOp | None]) -> tuple[UOp | None, ...]:
    """The tangents of all results."""
    first, functions, operands = _parts(u)
    given = {i: dx for i, dx in enumerate(tangents[first + len(functions) :]) if dx is not None}
    plan = _forward(functions[0], functions[1:], push, tuple(given))
    values = _again(u, plan.keeping, operands) if plan.keeping else []
    taken = [*(operands[i] for i in plan.used), *(values[i] for i in plan.kept), *given.values()]
    found = dict(zip(plan.live, _again(u, plan.linear, taken, "jvp"), strict=True))
    return tuple(found.get(i) for i in range(len(results(u))))


class _Backward(NamedTuple):
    """The cotangents of operands: functions of the operands `used` and of what arrives."""

    functions: tuple[UOp, ...]
    used: tuple[int, ...]
    live: tuple[int, ...]


@remembered
def _backward(
    first: UOp,
    rest: tuple[UOp, ...],
    pull: Pull,
    moving: tuple[int, ...],
    arriving: tuple[bool, ...],
) -> _Backward:
    """The cotangents of the operands `moving`, of which those `live` are not zero."""
    inputs, branches = _opened((first, *rest))
    variables = [inputs[i] for i in moving]
    cts = [fresh(y) if yes else None for y, yes in zip(branches[0], arriving, strict=True)]
    back = [pull(outputs, variables, cts) for outputs in branches]
    live = [i for i, found in enumerate(zip(*back)) if any(ct is not None for ct in found)]
    graphs = [[filled(found[i], variables[i]) for i in live] for found in back]
    used = _used(inputs, graphs)
    taken = [*(inputs[i] for i in used), *(ct for ct in cts if ct is not None)]
    made = tuple(closed(outputs, taken) for outputs in graphs)
    return _Backward(made, used, tuple(moving[i] for i in live))


def transpose(
    pull: Pull, u: UOp, cts: Sequence[UOp | None], moving: Sequence[int]
) -> list[UOp | None]:
    """The cotangents of the operands `moving`, from those of the results."""
    first, functions, operands = _parts(u)
    skipped = first + len(functions)
    chosen, arriving = tuple(i - skipped for i in moving), tuple(ct is not None for ct in cts)
    plan = _backward(functions[0], functions[1:], pull, chosen, arriving)
    taken = [*(operands[i] for i in plan.used), *(ct for ct in cts if ct is not None)]
    found = dict(zip(plan.live, _again(u, plan.functions, taken, "transpose"), strict=True))
    return [found.get(i - skipped) for i in moving]


@remembered
def _lanes(
    first: UOp, rest: tuple[UOp, ...], batch: Batch, many: tuple[bool, ...], size: int
) -> tuple[tuple[UOp, ...], tuple[bool, ...]]:
    """The functions over all lanes, and which results differ from lane to lane."""
    inputs, branches = _opened((first, *rest))
    lanes = [fresh(spread(x, size)) if yes else x for x, yes in zip(inputs, many, strict=True)]
    moving = {x: full for x, full, yes in zip(inputs, lanes, many, strict=True) if yes}
    found = [batch(outputs, moving, size) for outputs in branches]
    some = tuple(any(y.many for y in ys) for ys in zip(*found))  # if in one branch, then in all
    made = [[y.full(size) if m else y.graph for y, m in zip(ys, some)] for ys in found]
    return tuple(closed(outputs, lanes) for outputs in made), some


def batch_rule(
    batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
) -> list[Lanes]:
    """All results over the lanes."""
    first, functions, _ = _parts(u)
    skipped = first + len(functions)
    operands, many = src[skipped:], mapped[skipped:]
    if any(mapped[:first]):
        inputs, branches = _opened(functions)
        masked = effects.tokens(functions[0]).union(*map(effects.tokens, functions))
        made = _select(batch, inputs, branches, src[0], operands, many, size, masked)
        alike = [operands[i] for i in masked if not many[i]]
        given = frozenset().union(*map(effects.token_results, functions))
        return [rejoined(y, alike if i in given else []) for i, y in enumerate(made)]
    wide, some = _lanes(functions[0], functions[1:], batch, tuple(many), size)
    made = _again(u, wide, operands, "vmap", src[:first])
    return list(map(Lanes, made, some))


def _select(
    batch: Batch,
    inputs: Sequence[UOp],
    branches: Sequence[Sequence[UOp]],
    index: UOp,
    operands: Sequence[UOp],
    many: Sequence[bool],
    size: int,
    masked: Collection[int],
) -> list[UOp]:
    """Every branch in all lanes, of which each lane selects its own.

    The tokens `masked` hold in the lanes that have chosen the branch.
    """
    last = full_like(index, len(branches) - 1)
    index = minimum(maximum(index, full_like(index, 0)), last)
    results: list[UOp] = []
    for k, outputs in enumerate(branches):
        mine = eq(index, full_like(index, k))
        safe = _apart(mine, operands, many)
        for i in masked:
            safe[i] = (operands[i] if many[i] else spread(operands[i], size)) & mine
        wide = [yes or i in masked for i, yes in enumerate(many)]
        moving = {x: s for x, s, yes in zip(inputs, safe, wide, strict=True) if yes}
        same = {x: s for x, s, yes in zip(inputs, safe, wide, strict=True) if not yes}
        found = batch(outputs, moving, size)
        full = substitute([y.full(size) for y in found], same)
        results = (
            full
            if not k
            else [
                where(broadcast_in_dim(mine, new.shape, (0,)), new, old)
                for new, old in zip(full, results, strict=True)
            ]
        )
    return results


def rejoined(lanes: UOp, tokens: Sequence[UOp]) -> Lanes:
    """A token that all lanes have in common again, if it comes from such a one."""
    if not tokens:
        return Lanes(lanes, True)
    return Lanes(tokens[0] | reduce(lanes, Op.MAX, (0,)), False)


def _apart(mine: UOp, operands: Sequence[UOp], many: Sequence[bool]) -> list[UOp]:
    """Operands for one branch, from whose computation in other lanes nothing can come back.

    Lanes that have not chosen the branch get the operands of one that has, held fixed: then they
    compute nothing that it does not compute as well.  If no lane has chosen it, all operands are
    held fixed.
    """
    size = mine.shape[0]
    if not size:
        return list(operands)
    lane = iota((size,), 0)
    first = reduce(where(mine, lane, full_like(lane, size - 1)), Op.MIN, (0,))
    anyone = reduce(mine, Op.MAX, (0,))
    point = reshape(cast(first, INT32), (1,))
    found: list[UOp] = []
    for x, yes in zip(operands, many, strict=True):
        if yes:
            other = gather(x, point, (1, *x.shape[1:]))
            chosen = broadcast_in_dim(mine, x.shape, (0,))
            found.append(where(chosen, x, _held(broadcast_in_dim(other, x.shape, range(x.ndim)))))
        elif x.dtype in INEXACT:
            found.append(where(broadcast_in_dim(anyone, x.shape, ()), x, _held(x)))
        else:
            found.append(x)
    return found


def _held(x: UOp) -> UOp:
    return UOp(Op.DETACH, (x,)) if x.dtype in INEXACT else x
