"""The rows of COND.

Forward mode gives two choices by the same index: the branches with residuals beside their results,
and their derivatives, linear in the tangents.  Residuals of different branches share places of one
type.  Where the index differs from lane to lane, every branch runs and each lane selects; then
what a branch does in lanes that have not chosen it must not show, NaN and infinity included, not
in derivatives either: see `_apart`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import FLOATS, INT32
from tfn.trace.build import (
    broadcast_in_dim,
    cast,
    choose,
    eq,
    full_like,
    gather,
    iota,
    maximum,
    minimum,
    reduce,
    reshape,
    spread,
    where,
    zeros,
)  # fmt: skip
from tfn.trace.op import Op
from tfn.trace.uop import UOp, substitute, walk
from tfn.transforms.body import Lanes, closed, filled, fresh, opened, residuals
from tfn.transforms.scan import Batch, Pull, Push


def _branches(u: UOp) -> tuple[list[UOp], list[list[UOp]]]:
    """Leaves for the operands, the same for all branches, and the results of each."""
    functions = u.src[1 : 1 + u.arg.branches]
    inputs, first = opened(functions[0])
    outputs = [first]
    for f in functions[1:]:
        own, found = opened(f)
        outputs.append(substitute(found, dict(zip(own, inputs, strict=True))))
    return inputs, outputs


def _used(inputs: Sequence[UOp], graphs: Sequence[Sequence[UOp]]) -> list[int]:
    met = {node for outputs in graphs for node in walk(outputs) if node.op is Op.LEAF}
    return [i for i, x in enumerate(inputs) if x in met]


def jvp(push: Push, u: UOp, tangents: Sequence[UOp | None]) -> tuple[UOp | None, ...]:
    """The tangents of all results."""
    inputs, branches = _branches(u)
    operands, given = u.src[1 + u.arg.branches :], tangents[1 + u.arg.branches :]
    moving = {x: fresh(x) for x, dx in zip(inputs, given, strict=True) if dx is not None}
    slopes = [push(outputs, moving) for outputs in branches]
    live = [i for i, dys in enumerate(zip(*slopes)) if any(dy is not None for dy in dys)]
    linear = [
        [filled(dys[i], outputs[i]) for i in live]
        for dys, outputs in zip(slopes, branches, strict=True)
    ]
    places: list[UOp] = []  # residuals of one type, of different branches, share a place
    stored: list[dict[UOp, UOp]] = []  # for each branch, what it keeps in each place
    for k, graphs in enumerate(linear):
        free = list(places)
        stored.append({})
        for node in residuals(graphs, list(moving.values())):
            if node in inputs:
                continue
            place = next((p for p in free if (p.shape, p.dtype) == (node.shape, node.dtype)), None)
            if place is None:
                place = fresh(node)
                places.append(place)
            else:
                free.remove(place)
            stored[k][place] = node
    if places:
        keeping = [
            closed([*outputs, *(kept.get(p, zeros(p.shape, p.dtype)) for p in places)], inputs)
            for outputs, kept in zip(branches, stored, strict=True)
        ]
        values = choose(u.src[0], keeping, operands)[len(branches[0]) :]
    else:
        values = []
    linear = [
        substitute(graphs, {node: place for place, node in kept.items()})
        for graphs, kept in zip(linear, stored, strict=True)
    ]
    used = _used(inputs, linear)
    variables = [*(inputs[i] for i in used), *places, *moving.values()]
    found = choose(
        u.src[0],
        [closed(graphs, variables) for graphs in linear],
        [*(operands[i] for i in used), *values, *(dx for dx in given if dx is not None)],
    )
    last = dict(zip(live, found, strict=True))
    return tuple(last.get(i) for i in range(len(branches[0])))


def transpose(pull: Pull, u: UOp, cts: Sequence[UOp | None],
              moving: Sequence[int]) -> list[UOp | None]:  # fmt: skip
    """The cotangents of the operands `moving`, from those of the results."""
    inputs, branches = _branches(u)
    skipped = 1 + u.arg.branches
    variables = [inputs[i - skipped] for i in moving]
    arriving = [None if ct is None else fresh(ct) for ct in cts]
    back = [pull(outputs, variables, arriving) for outputs in branches]
    live = [i for i, found in enumerate(zip(*back)) if any(ct is not None for ct in found)]
    graphs = [[filled(found[i], variables[i]) for i in live] for found in back]
    used = _used(inputs, graphs)
    taken = [*(inputs[i] for i in used), *(x for x in arriving if x is not None)]
    results = choose(
        u.src[0],
        [closed(outputs, taken) for outputs in graphs],
        [*(u.src[skipped + i] for i in used), *(ct for ct in cts if ct is not None)],
    )
    total = dict(zip(live, results, strict=True))
    return [total.get(i) for i in range(len(moving))]


def batch_rule(batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool],
               size: int) -> list[Lanes]:  # fmt: skip
    """All results over the lanes."""
    inputs, branches = _branches(u)
    skipped = 1 + u.arg.branches
    operands, many = src[skipped:], mapped[skipped:]
    if mapped[0]:
        made = _select(batch, inputs, branches, src[0], operands, many, size)
        return [Lanes(y, True) for y in made]
    lanes = [fresh(spread(x, size)) if yes else x for x, yes in zip(inputs, many, strict=True)]
    moving = {x: full for x, full, yes in zip(inputs, lanes, many) if yes}
    found = [batch(outputs, moving, size) for outputs in branches]
    some = [any(y.many for y in ys) for ys in zip(*found)]  # if in one branch, then in all
    made = choose(
        src[0],
        [closed([y.full(size) if m else y.graph for y, m in zip(ys, some)], lanes)
         for ys in found],
        operands,
    )  # fmt: skip
    return list(map(Lanes, made, some))


def _select(batch: Batch, inputs: Sequence[UOp], branches: Sequence[Sequence[UOp]], index: UOp,
            operands: Sequence[UOp], many: Sequence[bool],
            size: int) -> list[UOp]:  # fmt: skip
    """Every branch in all lanes, of which each lane selects its own."""
    last = full_like(index, len(branches) - 1)
    index = minimum(maximum(index, full_like(index, 0)), last)
    results: list[UOp] = []
    for k, outputs in enumerate(branches):
        mine = eq(index, full_like(index, k))
        safe = _apart(mine, operands, many)
        moving = {x: s for x, s, yes in zip(inputs, safe, many, strict=True) if yes}
        same = {x: s for x, s, yes in zip(inputs, safe, many, strict=True) if not yes}
        found = batch(outputs, moving, size)
        full = substitute([y.full(size) for y in found], same)
        results = full if not k else [
            where(broadcast_in_dim(mine, new.shape, (0,)), new, old)
            for new, old in zip(full, results, strict=True)
        ]  # fmt: skip
    return results


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
        elif x.dtype in FLOATS:
            found.append(where(broadcast_in_dim(anyone, x.shape, ()), x, _held(x)))
        else:
            found.append(x)
    return found


def _held(x: UOp) -> UOp:
    return UOp(Op.DETACH, (x,)) if x.dtype in FLOATS else x
