"""Rules of WHILE nodes.

Forward mode carries tangents along.  There is no reverse mode, since the number of steps, and so
of residuals, is not known.  Lanes that have finished keep their values until all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tfn._support.validate import shown
from tfn.dtypes import BOOL, SIGNED
from tfn.errors import GradientError
from tfn.trace import effects
from tfn.trace.build import broadcast_in_dim, reduce, spread, where
from tfn.trace.op import Op
from tfn.trace.regions import form, settle
from tfn.trace.uop import UOp, const, substitute
from tfn.transforms.body import Lanes, closed, filled, fresh, opened, repeat_while
from tfn.transforms.cond_rules import rejoined
from tfn.transforms.scan_rules import Batch, Pull, Push


def jvp(push: Push, u: UOp, tangents: Sequence[UOp | None]) -> tuple[UOp | None, ...]:
    """The tangents of all results: the loop with tangents among its carries."""
    parts = form(u)
    (cond, loop), (cond_consts, body_consts), carries = parts.functions, parts.consts, parts.carries
    operand_tangents = form(u, tangents).taken(1)
    n = len(body_consts)
    inputs, outputs = opened(loop)
    directions = [fresh(x) for x in inputs]
    differentiated = {i for i, dx in enumerate(operand_tangents) if dx is not None}

    def step(known: set[int]) -> tuple[list[UOp | None], set[int]]:
        slopes = push(outputs, {inputs[i]: directions[i] for i in sorted(known)})
        return slopes, known | {i for i, dy in enumerate(slopes, n) if dy is not None}

    slopes, differentiated = settle(step, differentiated)
    consts, state = (
        [i for i in sorted(differentiated) if (i < n) == early] for early in (True, False)
    )
    body = closed(
        [*outputs, *(filled(slopes[i - n], inputs[i]) for i in state)],
        [
            *inputs[:n],
            *(directions[i] for i in consts),
            *inputs[n:],
            *(directions[i] for i in state),
        ],
    )
    tests, test = opened(cond)
    cond = closed(test, [*tests, *(fresh(inputs[i]) for i in state)])
    results = repeat_while(
        cond,
        body,
        cond_consts,
        [*body_consts, *(filled(operand_tangents[i], inputs[i]) for i in consts)],
        [*carries, *(filled(operand_tangents[i], inputs[i]) for i in state)],
        [*u.arg.names, *(u.arg.names[i - n] for i in state)] if u.arg.names else (),
    )
    last = dict(zip(state, results[len(carries) :], strict=True))
    return tuple(last.get(i) for i in range(n, n + len(carries)))


def transpose(
    pull: Pull, u: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]
) -> NoReturn:
    """Refused.

    Raises:
        GradientError: always.
    """
    names = u.arg.names or [f"carry {i}" for i in range(len(cts))]
    carries = [
        f"{name}: {shown(ct)}" for name, ct in zip(names, cts, strict=True) if ct is not None
    ]
    raise GradientError(
        "there is no reverse mode through while_loop, whose number of steps is not known",
        got=f"a loop whose results are differentiated: {', '.join(carries)}",
        hint="give max_steps, use scan, or fori_loop with static bounds; forward mode works",
    )


def batch_rule(
    batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
) -> list[Lanes]:
    """All carries over the lanes."""
    parts, on = form(u, src), form(u, mapped)
    cond, loop = form(u).functions
    tests, test = opened(cond)
    inputs, outputs = opened(loop)
    (consts, _), a, b, n = parts.consts, len(parts.own(0)), len(parts.own(1)), len(inputs)
    on_test, on_body = on.own(0), on.taken(1)
    many = {i for i, yes in enumerate(on_body) if yes}  # of the body's inputs
    lanes_test = [fresh(spread(x, size)) for x in tests]
    lanes = [fresh(spread(x, size)) for x in inputs]

    def iteration(many: set[int]) -> tuple[tuple[Lanes, list[Lanes]], set[int]]:
        wide = [*on_test, *(i in many for i in range(b, n))]
        full = {x: y for x, y, yes in zip(tests, lanes_test, wide) if yes}
        (holds,) = batch(test, full, size)
        results = batch(outputs, {inputs[i]: lanes[i] for i in sorted(many)}, size)
        more = {i for i, y in enumerate(results, b) if y.many or holds.many}
        return (holds, results), many | more

    (holds, results), many = settle(iteration, many)
    where_test = [*on_test, *(i in many for i in range(b, n))]
    nexts = [y.full(size) if i in many else y.graph for i, y in enumerate(results, b)]
    body_inputs = [lanes[i] if i in many else x for i, x in enumerate(inputs)]
    operands = [
        x if on_body[i] or i not in many else spread(x, size) for i, x in enumerate(parts.taken(1))
    ]
    test_inputs = [full if yes else x for x, full, yes in zip(tests, lanes_test, where_test)]
    if not holds.many:
        outputs = repeat_while(
            closed([holds.graph], test_inputs),
            closed(nexts, body_inputs),
            consts,
            operands[:b],
            operands[b:],
        )
        return [Lanes(y, i in many) for i, y in enumerate(outputs, b)]
    # The mask of active lanes is carried as well, so that the condition is computed once per step.
    active = fresh(const(True, BOOL, (size,)))
    test_consts = [fresh(x) for x in test_inputs[:a]]
    tokens = effects.tokens(loop)  # they are true in the active lanes
    masked = {x: x & active for i, x in enumerate(body_inputs) if i in tokens}
    nexts = substitute(nexts, masked)
    masked_nexts = masked_carries(active, nexts, body_inputs[b:])
    again = (
        substitute(
            [holds.graph], dict(zip(test_inputs, [*test_consts, *masked_nexts], strict=True))
        )[0]
        & active
    )
    step = closed(
        [again, *masked_nexts], [*test_consts, *body_inputs[:b], active, *body_inputs[b:]]
    )
    flag = fresh(active)
    any_going = closed([reduce(flag, Op.MAX, (0,))], [flag, *map(fresh, body_inputs[b:])])
    begin = dict(zip(test_inputs, [*consts, *operands[b:]], strict=True))
    first = substitute([holds.graph], begin)[0]
    outputs = repeat_while(any_going, step, [], [*consts, *operands[:b]], [first, *operands[b:]])
    return [
        rejoined(y, [parts.taken(1)[i]] if i in tokens and not on_body[i] else [])
        for i, y in enumerate(outputs[1:], b)
    ]


def masked_carries(active: UOp, nexts: Sequence[UOp], carries: Sequence[UOp]) -> list[UOp]:
    """The next carries in the active lanes, and the last ones in the others.

    An array that a step writes into is masked by the indices of the writes, in time that does not
    depend on its size, and is written in place::

        where(active, scatter(x, i, u), x)  ->  scatter(x, where(active, i, -1), u)

    A window that does not fit is dropped; what inactive lanes compute is never used.
    """
    dropped: dict[UOp, UOp] = {}
    masked = []
    for y, x in zip(nexts, carries, strict=True):
        writes = _writes(y, x)
        masked.append(where(_beside(active, y), y, x) if writes is None else y)
        for write in reversed(writes or []):
            before, indices, updates = write.src
            nowhere = const(-1, indices.dtype, indices.shape)
            inside = where(_beside(active, indices), indices, nowhere)
            dropped[write] = UOp(
                Op.SCATTER, (dropped.get(before, before), inside, updates), write.arg
            )
    return substitute(masked, dropped)


def _writes(y: UOp, x: UOp) -> list[UOp] | None:
    """The writes, lane by lane, that make `y` of `x`, the last one first; None if `y` is more."""
    writes: list[UOp] = []
    while y is not x:
        if y.op is not Op.SCATTER or y.arg.batch == 0 or y.src[1].dtype not in SIGNED:
            return None
        if 0 in y.src[1].shape:
            return None
        writes.append(y)
        y = y.src[0]
    return writes


def _beside(flags: UOp, like: UOp) -> UOp:
    return broadcast_in_dim(flags, like.shape, (0,))
