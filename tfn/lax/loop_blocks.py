"""Loops of a known number of steps, taken in blocks: written out, or checkpointed.

    scan body, n steps    ->    scan block, n / k turns; the steps that are left

A block that is written out has k copies of the body: fewer turns, and more to fuse.  A block that
is checkpointed is a loop of k steps: reverse mode keeps the carries at its beginning and runs its
steps again, so it needs memory for n / k carries and for the residuals of k steps.
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
from tfn.trace.argument import Custom, Param
from tfn.trace.jaxpr import function, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.checkpoint import Checkpoint
from tfn.transforms.checkpoint_policies import nothing_saveable

Nodes = Sequence[UOp]


@frozen
class Taken:
    """How the steps of a loop are taken.

    Attributes:
        steps: how many there are.
        reverse: whether the last slice comes first.
        unroll: how many are written out in one turn.
        every: after how many a checkpoint is made; None if there is none.
    """

    steps: int
    reverse: bool = False
    unroll: int = 1
    every: int | None = None


def unrolled(unroll: int | bool | None, steps: int) -> int:
    """How many steps a user wants to be written out in one turn.

    Raises:
        ArgumentError: for what is no positive number.
    """
    if unroll is None or isinstance(unroll, bool):
        return max(steps, 1) if unroll else 1
    return max(min(integer("scan", "unroll", unroll, 1), steps), 1)


def checkpointed(every: int | str | None, steps: int) -> int | None:
    """After how many steps a user wants a checkpoint.

    Raises:
        ArgumentError: for what is neither a positive number nor "sqrt".
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


def scan(body: UOp, consts: Nodes, carries: Nodes, arrays: Nodes, how: Taken) -> list[UOp]:
    """Last carries, and arrays of slices: a SCAN, or blocks of them."""
    if how.every is not None and how.steps:
        return _in_blocks(_segment, body, consts, carries, arrays, how, how.every)
    if how.unroll > 1:
        return _in_blocks(_written_out, body, consts, carries, arrays, how, how.unroll)
    return build.scan(body, consts, carries, arrays, how.steps, how.reverse)


Block = Callable[[UOp, int, int, Taken], UOp]
"""From a body, the numbers of its consts and carries, and how to take the steps of a block, to a
body that does them all."""


def _in_blocks(
    block: Block, body: UOp, consts: Nodes, carries: Nodes, arrays: Nodes, how: Taken, size: int
) -> list[UOp]:
    """A scan of blocks of `size` steps; those that fill no block are a smaller one beside it."""
    turns, left = divmod(how.steps, size)
    middle, n = how.steps - left, len(carries)
    make = partial(block, body, len(consts), n)

    def over_blocks(state: Nodes) -> list[UOp]:
        taken = make(Taken(size, how.reverse, how.unroll))
        blocks = [build.reshape(cut(x, 0, middle), (turns, size, *x.shape[1:])) for x in arrays]
        found = build.scan(taken, consts, state, blocks, turns, how.reverse)
        return found[:n] + [build.reshape(y, (middle, *y.shape[2:])) for y in found[n:]]

    def over_rest(state: Nodes) -> list[UOp]:
        taken = make(Taken(left, how.reverse, unrolled(how.unroll, left)))
        return inlined(taken, [*consts, *state, *(cut(x, middle, how.steps) for x in arrays)])

    if not left:
        return over_blocks(carries)
    if not turns:
        return over_rest(carries)
    if how.reverse:
        late = over_rest(carries)
        early = over_blocks(late[:n])
    else:
        early = over_blocks(carries)
        late = over_rest(early[:n])
    last = early[:n] if how.reverse else late[:n]
    return last + [build.concat(ys, 0) for ys in zip(early[n:], late[n:], strict=True)]


def cut(x: UOp, start: int, stop: int) -> UOp:
    """Some of the slices along the first axis."""
    return build.shrink(x, (start, *[0] * (x.ndim - 1)), (stop, *x.shape[1:]))


def _wide(body: UOp, end: int, steps: int) -> tuple[Param, ...]:
    """The parameters of a block: slices, from number `end` on, come several at once."""
    types: tuple[Param, ...] = body.arg.params
    return types[:end] + tuple(Param(p.index, (steps, *p.shape), p.dtype) for p in types[end:])


def _written_out(body: UOp, consts: int, carries: int, how: Taken) -> UOp:
    """A body that takes several slices, and does their steps one after the other."""
    end = consts + carries
    params = _wide(body, end, how.steps)
    nodes = [param(p) for p in params]
    state, rows = nodes[consts:end], list[list[UOp]]()
    for i in range(how.steps)[:: -1 if how.reverse else 1]:
        slices = [build.reshape(cut(x, i, i + 1), x.shape[1:]) for x in nodes[end:]]
        found = inlined(body, [*nodes[:consts], *state, *slices])
        state = found[:carries]
        rows.append([build.reshape(y, (1, *y.shape)) for y in found[carries:]])
    ordered = rows[::-1] if how.reverse else rows
    return function([*state, *(build.concat(ys, 0) for ys in zip(*ordered, strict=True))], params)


def _segment(body: UOp, consts: int, carries: int, how: Taken) -> UOp:
    """A body that takes several slices, and does their steps in a checkpointed loop."""
    end = consts + carries
    params = _wide(body, end, how.steps)
    nodes = [param(p) for p in params]
    found = scan(body, nodes[:consts], nodes[consts:end], nodes[end:], how)
    rules = Checkpoint(nothing_saveable)
    return function(_custom(function(found, params), nodes, rules), params)


def _custom(f: UOp, operands: Nodes, rules: Checkpoint) -> list[UOp]:
    return build.several(UOp(Op.CUSTOM, (f, *operands), Custom("segment", rules)))


# A loop that ends when a condition fails, or after a number of steps.


def bounded(
    test: UOp, body: UOp, consts: Nodes, more: Nodes, carries: Nodes, steps: int, every: int
) -> list[UOp]:
    """A WHILE of at most so many steps, of which reverse mode keeps one carry in `every`.

    Forward, a segment is a WHILE that ends early; backward, the same steps are a SCAN of which
    those after the end do nothing, and a segment that was never begun is left out whole.
    """
    state = list(carries)
    turns, left = divmod(steps, every)
    types = [Param(i, x.shape, x.dtype) for i, x in enumerate([*consts, *more, *carries])]
    params = tuple(types)
    operands = [*consts, *more]
    make = partial(_bounded_segment, test, body, params, len(consts), len(more))
    if turns:
        nodes = list(map(param, params))
        turn = function(make(every, nodes), params)
        state = build.scan(turn, operands, state, [], turns)
    return make(left, [*operands, *state]) if left else state


def _bounded_segment(
    test: UOp, body: UOp, params: tuple[Param, ...], a: int, b: int, steps: int, operands: Nodes
) -> list[UOp]:
    """At most so many steps, over nodes: consts of the condition, of the body, carries."""
    nodes = [param(p) for p in params]
    consts, more, state = nodes[:a], nodes[a : a + b], nodes[a + b :]
    same = function(state, params)
    holds = inlined(test, [*consts, *state])[0]
    index = build.cast(holds, INT32)
    once = function(inlined(body, [*more, *state]), params)
    step = function(build.choose(index, [same, once], nodes), params)
    again = function(build.scan(step, [*consts, *more], state, [], steps), params)
    replay = function(build.choose(index, [same, again], nodes), params)
    rules = Checkpoint(nothing_saveable, other=replay)
    return _custom(function(_counted(test, body, nodes, a, b, steps), params), operands, rules)


def _counted(test: UOp, body: UOp, nodes: Nodes, a: int, b: int, steps: int) -> list[UOp]:
    """A WHILE that also counts its steps."""
    consts, more, state = nodes[:a], nodes[a : a + b], nodes[a + b :]
    counter = const(0, INT32)
    carried = [Param(i, x.shape, x.dtype) for i, x in enumerate([*consts, counter, *state])]
    inner = list(map(param, carried))
    going = inlined(test, [*inner[:a], *inner[a + 1 :]])[0] & (inner[a] < steps)
    cond = function([going], tuple(carried))
    carried = [Param(i, x.shape, x.dtype) for i, x in enumerate([*more, counter, *state])]
    inner = list(map(param, carried))
    nexts = inlined(body, [*inner[:b], *inner[b + 1 :]])
    turn = function([inner[b] + 1, *nexts], tuple(carried))
    assert going.dtype == BOOL
    return build.repeat_while(cond, turn, consts, more, [counter, *state])[1:]
