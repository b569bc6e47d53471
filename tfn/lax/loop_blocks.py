"""Strip-mined loops: a known trip count in blocks that are unrolled or checkpointed.

    scan body, n steps    ->    scan block, n / k turns; the remaining n % k steps

An unrolled block has k copies of the body: fewer turns, and more to fuse.  A checkpointed block is
a loop of k steps: reverse mode stores the carries at its beginning and recomputes its steps, so it
needs memory for n / k carries and for the residuals of k steps.

Source: Chen, Xu, Zhang, Guestrin 2016, arXiv:1604.06174 (checkpoints every sqrt(n) steps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt

from tfn._support.frozen import frozen
from tfn._support.validate import integer
from tfn.dtypes import BOOL, INT32
from tfn.errors import ArgumentError
from tfn.lax.closed_functions import inlined
from tfn.trace import build
from tfn.trace.argument import Custom, Param, Scan
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.checkpoint import Checkpoint
from tfn.transforms.checkpoint_policies import nothing_saveable

Nodes = Sequence[UOp]


@frozen
class LoopPlan:
    """The order and the grouping of the steps of a loop.

    Attributes:
        steps: trip count.
        reverse: whether the last slice comes first.
        unroll: number of steps that are unrolled into one turn.
        every: number of steps between two checkpoints; None for no checkpoints.
        associative: whether the steps may be grouped in any way; see `argument.Scan`.
    """

    steps: int
    reverse: bool = False
    unroll: int = 1
    every: int | None = None
    associative: bool = False


def unrolled(unroll: int | bool | None, steps: int) -> int:
    """Returns the number of steps to unroll into one turn, at most all of them.

    Raises:
        ArgumentError: for anything but a positive integer, a bool or None.
    """
    if unroll is None or isinstance(unroll, bool):
        return max(steps, 1) if unroll else 1
    return max(min(integer("scan", "unroll", unroll, 1), steps), 1)


def checkpointed(every: int | str | None, steps: int) -> int | None:
    """Returns the number of steps between two checkpoints; None for no checkpoints.

    Raises:
        ArgumentError: for anything but a positive integer, "sqrt" or None.
    """
    if every is None:
        return None
    if every == "sqrt":
        return isqrt(max(steps - 1, 0)) + 1
    if not isinstance(every, int) or isinstance(every, bool) or every < 1:
        raise ArgumentError(
            'checkpoint_every needs a number of steps >= 1, or "sqrt"',
            got=f"checkpoint_every={every!r}",
            hint="None keeps what the derivative needs of each step",
        )
    return every


def scan(body: UOp, consts: Nodes, carries: Nodes, arrays: Nodes, plan: LoopPlan) -> list[UOp]:
    """Returns the last carries and the stacked outputs: of one SCAN, or of blocks of steps."""
    if plan.every is not None and plan.steps:
        return _in_blocks(_segment, body, consts, carries, arrays, plan, plan.every)
    if plan.unroll > 1:
        return _in_blocks(_unrolled, body, consts, carries, arrays, plan, plan.unroll)
    arg = Scan(plan.steps, plan.reverse, len(consts), len(carries), plan.associative)
    return build.several(UOp(Op.SCAN, (body, *consts, *carries, *arrays), arg))


Block = Callable[[UOp, int, int, LoopPlan], UOp]
"""Makes the body of a block: from the body of one step, the numbers of its consts and carries, and
the plan of the steps in the block."""


def _in_blocks(
    block: Block, body: UOp, consts: Nodes, carries: Nodes, arrays: Nodes, plan: LoopPlan, size: int
) -> list[UOp]:
    """Scans over blocks of `size` steps; the rest of the steps is a smaller block."""
    turns, rest = divmod(plan.steps, size)
    middle, n = plan.steps - rest, len(carries)
    make = partial(block, body, len(consts), n)

    def over_blocks(state: Nodes) -> list[UOp]:
        body_of_block = make(LoopPlan(size, plan.reverse, plan.unroll))
        blocks = [build.reshape(cut(x, 0, middle), (turns, size, *x.shape[1:])) for x in arrays]
        outputs = build.scan(body_of_block, consts, state, blocks, turns, plan.reverse)
        return outputs[:n] + [build.reshape(y, (middle, *y.shape[2:])) for y in outputs[n:]]

    def over_rest(state: Nodes) -> list[UOp]:
        body_of_rest = make(LoopPlan(rest, plan.reverse, unrolled(plan.unroll, rest)))
        return inlined(
            body_of_rest, [*consts, *state, *(cut(x, middle, plan.steps) for x in arrays)]
        )

    if not rest:
        return over_blocks(carries)
    if not turns:
        return over_rest(carries)
    if plan.reverse:
        late = over_rest(carries)
        early = over_blocks(late[:n])
    else:
        early = over_blocks(carries)
        late = over_rest(early[:n])
    last = early[:n] if plan.reverse else late[:n]
    return last + [build.concat(ys, 0) for ys in zip(early[n:], late[n:], strict=True)]


def cut(x: UOp, start: int, stop: int) -> UOp:
    """Returns the slices start to stop - 1 along the first axis."""
    return build.shrink(x, (start, *[0] * (x.ndim - 1)), (stop, *x.shape[1:]))


def _wide(body: UOp, end: int, steps: int) -> tuple[Param, ...]:
    """The parameters of a block: from number `end` on, slices of several steps."""
    types: tuple[Param, ...] = body.arg.params
    return types[:end] + tuple(Param(p.index, (steps, *p.shape), p.dtype) for p in types[end:])


def _unrolled(body: UOp, consts: int, carries: int, plan: LoopPlan) -> UOp:
    """Strip-mines and unrolls: a body that takes several slices and contains all their steps."""
    end = consts + carries
    params = _wide(body, end, plan.steps)
    nodes = [param(p) for p in params]
    state, rows = nodes[consts:end], list[list[UOp]]()
    for i in range(plan.steps)[:: -1 if plan.reverse else 1]:
        slices = [build.reshape(cut(x, i, i + 1), x.shape[1:]) for x in nodes[end:]]
        outputs = inlined(body, [*nodes[:consts], *state, *slices])
        state = outputs[:carries]
        rows.append([build.reshape(y, (1, *y.shape)) for y in outputs[carries:]])
    ordered = rows[::-1] if plan.reverse else rows
    return function([*state, *(build.concat(ys, 0) for ys in zip(*ordered, strict=True))], params)


def _segment(body: UOp, consts: int, carries: int, plan: LoopPlan) -> UOp:
    """A body that takes several slices and runs their steps in a checkpointed loop."""
    end = consts + carries
    params = _wide(body, end, plan.steps)
    nodes = [param(p) for p in params]
    outputs = scan(body, nodes[:consts], nodes[consts:end], nodes[end:], plan)
    rules = Checkpoint(nothing_saveable)
    return function(_custom(function(outputs, params), nodes, rules), params)


def _custom(f: UOp, operands: Nodes, rules: Checkpoint) -> list[UOp]:
    return build.several(UOp(Op.CUSTOM, (f, *operands), Custom("segment", rules)))


# A loop that ends when a condition fails, or after a number of steps.


def bounded(
    test: UOp, body: UOp, consts: Nodes, more: Nodes, carries: Nodes, steps: int, every: int
) -> list[UOp]:
    """A WHILE of at most `steps` steps, of which reverse mode stores one carry in `every`.

    Forward, a segment is a WHILE that ends early; backward, the same steps are a SCAN of which
    those after the end do nothing, and a segment that was never begun is skipped.
    """
    state = list(carries)
    turns, rest = divmod(steps, every)
    types = [Param(i, x.shape, x.dtype) for i, x in enumerate([*consts, *more, *carries])]
    params = tuple(types)
    operands = [*consts, *more]
    make = partial(_bounded_segment, test, body, params, len(consts), len(more))
    if turns:
        nodes = list(map(param, params))
        turn = function(make(every, nodes), params)
        state = build.scan(turn, operands, state, [], turns)
    return make(rest, [*operands, *state]) if rest else state


def _bounded_segment(
    test: UOp, body: UOp, params: tuple[Param, ...], a: int, b: int, steps: int, operands: Nodes
) -> list[UOp]:
    """A checkpointed segment of at most `steps` steps, over consts of the condition, of the body,
    carries.
    """
    nodes = [param(p) for p in params]
    consts, more, state = nodes[:a], nodes[a : a + b], nodes[a + b :]
    unchanged = function(state, params)
    holds = inlined(test, [*consts, *state])[0]
    index = build.cast(holds, INT32)
    once = function(inlined(body, [*more, *state]), params)
    step = function(build.choose(index, [unchanged, once], nodes), params)
    loop = function(build.scan(step, [*consts, *more], state, [], steps), params)
    replay = function(build.choose(index, [unchanged, loop], nodes), params)
    rules = Checkpoint(nothing_saveable, other=replay)
    return _custom(function(_counted(test, body, nodes, a, b, steps), params), operands, rules)


def _params(like: Nodes) -> tuple[tuple[Param, ...], list[UOp]]:
    params = tuple([Param(i, x.shape, x.dtype) for i, x in enumerate(like)])
    return params, list(map(param, params))


def _counted(test: UOp, body: UOp, nodes: Nodes, a: int, b: int, steps: int) -> list[UOp]:
    """A WHILE that also counts its steps."""
    consts, more, state = nodes[:a], nodes[a : a + b], nodes[a + b :]
    counter = const(0, INT32)
    carried, inner = _params([*consts, counter, *state])
    going = inlined(test, [*inner[:a], *inner[a + 1 :]])[0] & (inner[a] < steps)
    cond = function([going], carried)
    carried, inner = _params([*more, counter, *state])
    nexts = inlined(body, [*inner[:b], *inner[b + 1 :]])
    turn = function([inner[b] + 1, *nexts], carried)
    assert going.dtype == BOOL
    return build.repeat_while(cond, turn, consts, more, [counter, *state])[1:]
