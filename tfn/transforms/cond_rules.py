"""Rules of COND nodes, and of CALL nodes, which are branches without a choice.

Forward mode gives two nodes with the same index: the branches with residuals beside their results,
and their derivatives, linear in the tangents.  Residuals of one type, of different branches, share
a result.  Derivatives of functions are remembered, so that all calls of one function become calls
of one derivative.

If the index differs from lane to lane, every branch runs in all lanes, and each lane selects.  The
values of a branch in lanes that have not chosen it must not have any effect, NaN and infinity
included, on derivatives either: see `_masked_operands`.
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
from tfn.trace.inline import has, sealed
from tfn.trace.op import Op
from tfn.trace.regions import form, results
from tfn.trace.uop import UOp, remembered, substitute, walk
from tfn.transforms.body import Lanes, closed, filled, fresh, opened, rematerialised, residuals
from tfn.transforms.scan_rules import Batch, Pull, Push


def _parts(u: UOp) -> tuple[int, tuple[UOp, ...], tuple[UOp, ...]]:
    """The index of the first function among the sources, the functions, and their operands."""
    parts = form(u)
    return len(parts.selector), parts.functions, parts.operands


def _with_functions(
    u: UOp,
    functions: Sequence[UOp],
    operands: Sequence[UOp],
    how: str = "",
    index: Sequence[UOp] | None = None,
) -> list[UOp]:
    """The results of other functions, with the same index, or called in the same way."""
    first, _, _ = _parts(u)
    arg = Call(f"{how}({u.arg.name})") if how and u.op is Op.CALL else u.arg
    head = u.src[:first] if index is None else index
    return several(sealed(UOp(u.op, (*head, *functions, *operands), arg)))


def _opened(functions: Sequence[UOp]) -> tuple[list[UOp], list[list[UOp]]]:
    """Leaves for the operands, shared by all functions, and the results of each function."""
    inputs, first = opened(functions[0])
    outputs = [first]
    for f in functions[1:]:
        own, results = opened(f)
        outputs.append(substitute(results, dict(zip(own, inputs, strict=True))))
    return inputs, outputs


def _used(inputs: Sequence[UOp], graphs: Sequence[Sequence[UOp]]) -> tuple[int, ...]:
    met = {node for outputs in graphs for node in walk(outputs) if node.op is Op.LEAF}
    return tuple(i for i, x in enumerate(inputs) if x in met)


class _Forward(NamedTuple):
    """The tangents of some functions.

    Attributes:
        keeping: the functions with residuals among their results; empty if there are none.
        residuals: the indices of the residuals among those results.
        linear: the derivatives, functions of the operands `used`, the residuals, the tangents.
        used: the indices of the operands that the derivatives read.
        live: the indices of the results that have a tangent.
    """

    keeping: tuple[UOp, ...]
    residuals: tuple[int, ...]
    linear: tuple[UOp, ...]
    used: tuple[int, ...]
    live: tuple[int, ...]


@remembered
def _forward(
    first: UOp, rest: tuple[UOp, ...], push: Push, differentiated: tuple[int, ...]
) -> _Forward:
    """The derivatives of functions, the first and the rest, by the operands `differentiated`."""
    inputs, branches = _opened((first, *rest))
    directions = {inputs[i]: fresh(inputs[i]) for i in differentiated}
    slopes = [push(outputs, directions) for outputs in branches]
    live = tuple(i for i, dys in enumerate(zip(*slopes)) if any(dy is not None for dy in dys))
    linear = [
        [filled(dys[i], outputs[i]) for i in live]
        for dys, outputs in zip(slopes, branches, strict=True)
    ]
    places: list[UOp] = []  # one leaf for residuals of one type, of different branches
    stored: list[dict[UOp, UOp]] = []  # for each branch, its residual for each leaf
    for graphs in linear:
        free = list(places)
        stored.append({})
        for node in rematerialised(residuals(graphs, list(directions.values())), inputs):
            if node in inputs:
                continue
            place = next((p for p in free if (p.shape, p.dtype) == (node.shape, node.dtype)), None)
            if place is None:
                place = fresh(node)
                places.append(place)
            else:
                free.remove(place)
            stored[-1][place] = node
    rows = dict.fromkeys(zip(*branches))  # a residual that is a result is not stored twice
    columns = [tuple(k.get(p, zeros(p.shape, p.dtype)) for k in stored) for p in places]
    rows |= dict.fromkeys(columns)
    order = list(rows)
    residual_indices = tuple(order.index(column) for column in columns)
    keeping = [closed(outputs, inputs) for outputs in zip(*order)] if places else []
    linear = [
        substitute(graphs, {node: place for place, node in kept_.items()})
        for graphs, kept_ in zip(linear, stored, strict=True)
    ]
    used = _used(inputs, linear)
    variables = [*(inputs[i] for i in used), *places, *directions.values()]
    derivatives = tuple(closed(graphs, variables) for graphs in linear)
    return _Forward(tuple(keeping), residual_indices, derivatives, used, live)


def jvp(push: Push, u: UOp, tangents: Sequence[UOp | None]) -> tuple[UOp | None, ...]:
    """The tangents of all results."""
    first, functions, operands = _parts(u)
    differentiated = {
        i: dx for i, dx in enumerate(tangents[first + len(functions) :]) if dx is not None
    }
    plan = _forward(functions[0], functions[1:], push, tuple(differentiated))
    values = _with_functions(u, plan.keeping, operands) if plan.keeping else []
    arguments = [
        *(operands[i] for i in plan.used),
        *(values[i] for i in plan.residuals),
        *differentiated.values(),
    ]
    slopes = dict(zip(plan.live, _with_functions(u, plan.linear, arguments, "jvp"), strict=True))
    return tuple(slopes.get(i) for i in range(len(results(u))))


class _Backward(NamedTuple):
    """The cotangents of operands: functions of the operands `used` and of the cotangents."""

    functions: tuple[UOp, ...]
    used: tuple[int, ...]
    live: tuple[int, ...]


@remembered
def _backward(
    first: UOp,
    rest: tuple[UOp, ...],
    pull: Pull,
    differentiated: tuple[int, ...],
    arriving: tuple[bool, ...],
) -> _Backward:
    """The cotangents of the operands `differentiated`, of which those `live` are not zero."""
    inputs, branches = _opened((first, *rest))
    variables = [inputs[i] for i in differentiated]
    cts = [fresh(y) if yes else None for y, yes in zip(branches[0], arriving, strict=True)]
    back = [pull(outputs, variables, cts) for outputs in branches]
    live = [i for i, row in enumerate(zip(*back)) if any(ct is not None for ct in row)]
    graphs = [[filled(row[i], variables[i]) for i in live] for row in back]
    used = _used(inputs, graphs)
    arguments = [*(inputs[i] for i in used), *(ct for ct in cts if ct is not None)]
    functions = tuple(closed(outputs, arguments) for outputs in graphs)
    return _Backward(functions, used, tuple(differentiated[i] for i in live))


def transpose(
    pull: Pull, u: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]
) -> list[UOp | None]:
    """The cotangents of the operands `differentiated`, from those of the results."""
    first, functions, operands = _parts(u)
    skipped = first + len(functions)
    chosen, arriving = (
        tuple(i - skipped for i in differentiated),
        tuple(ct is not None for ct in cts),
    )
    plan = _backward(functions[0], functions[1:], pull, chosen, arriving)
    arguments = [*(operands[i] for i in plan.used), *(ct for ct in cts if ct is not None)]
    cotangents = dict(
        zip(plan.live, _with_functions(u, plan.functions, arguments, "transpose"), strict=True)
    )
    return [cotangents.get(i - skipped) for i in differentiated]


@remembered
def _lanes(
    first: UOp, rest: tuple[UOp, ...], batch: Batch, many: tuple[bool, ...], size: int
) -> tuple[tuple[UOp, ...], tuple[bool, ...]]:
    """The functions over all lanes, and which results differ from lane to lane."""
    inputs, branches = _opened((first, *rest))
    lanes = [fresh(spread(x, size)) if yes else x for x, yes in zip(inputs, many, strict=True)]
    batched = {x: full for x, full, yes in zip(inputs, lanes, many, strict=True) if yes}
    rows = [batch(outputs, batched, size) for outputs in branches]
    some = tuple(any(y.many for y in ys) for ys in zip(*rows))  # if in one branch, then in all
    graphs = [[y.full(size) if m else y.graph for y, m in zip(ys, some)] for ys in rows]
    return tuple(closed(outputs, lanes) for outputs in graphs), some


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
        outputs = _select(batch, inputs, branches, src[0], operands, many, size, masked)
        same_tokens = [operands[i] for i in masked if not many[i]]
        token_results = frozenset().union(*map(effects.token_results, functions))
        return [
            rejoined(y, same_tokens if i in token_results else []) for i, y in enumerate(outputs)
        ]
    wide, some = _lanes(functions[0], functions[1:], batch, tuple(many), size)
    outputs = _with_functions(u, wide, operands, "vmap", src[:first])
    return list(map(Lanes, outputs, some))


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
    """Every branch in all lanes; each lane selects the results of its own branch.

    The tokens `masked` are true only in the lanes that have chosen the branch.
    """
    last = full_like(index, len(branches) - 1)
    index = minimum(maximum(index, full_like(index, 0)), last)
    results: list[UOp] = []
    exchanges = any(has(outputs, Op.COLLECTIVE) for outputs in branches)
    for k, outputs in enumerate(branches):
        active = eq(index, full_like(index, k))
        # Lanes that exchange values need those of all lanes, also of the inactive ones.
        safe = list(operands) if exchanges else _masked_operands(active, operands, many)
        for i in masked:
            safe[i] = (operands[i] if many[i] else spread(operands[i], size)) & active
        wide = [yes or i in masked for i, yes in enumerate(many)]
        batched = {x: s for x, s, yes in zip(inputs, safe, wide, strict=True) if yes}
        same = {x: s for x, s, yes in zip(inputs, safe, wide, strict=True) if not yes}
        lanes = batch(outputs, batched, size)
        full = substitute([y.full(size) for y in lanes], same)
        results = (
            full
            if not k
            else [
                where(broadcast_in_dim(active, new.shape, (0,)), new, old)
                for new, old in zip(full, results, strict=True)
            ]
        )
    return results


def rejoined(lanes: UOp, tokens: Sequence[UOp]) -> Lanes:
    """The results over lanes; a token that was common to all lanes becomes one token again."""
    if not tokens:
        return Lanes(lanes, True)
    return Lanes(tokens[0] | reduce(lanes, Op.MAX, (0,)), False)


def _masked_operands(active: UOp, operands: Sequence[UOp], many: Sequence[bool]) -> list[UOp]:
    """Operands for one branch that are safe in inactive lanes, also for derivatives.

    Lanes that have not chosen the branch get the operands of a lane that has, detached: then they
    compute only values that an active lane computes as well, and no cotangent comes back.  If no
    lane has chosen the branch, all operands are detached.
    """
    size = active.shape[0]
    if not size:
        return list(operands)
    lane = iota((size,), 0)
    first = reduce(where(active, lane, full_like(lane, size - 1)), Op.MIN, (0,))
    any_active = reduce(active, Op.MAX, (0,))
    point = reshape(cast(first, INT32), (1,))
    safe: list[UOp] = []
    for x, yes in zip(operands, many, strict=True):
        if yes:
            other = gather(x, point, (1, *x.shape[1:]))
            chosen = broadcast_in_dim(active, x.shape, (0,))
            safe.append(
                where(chosen, x, _detached(broadcast_in_dim(other, x.shape, range(x.ndim))))
            )
        elif x.dtype in INEXACT:
            safe.append(where(broadcast_in_dim(any_active, x.shape, ()), x, _detached(x)))
        else:
            safe.append(x)
    return safe


def _detached(x: UOp) -> UOp:
    return UOp(Op.DETACH, (x,)) if x.dtype in INEXACT else x
