"""Rules of the ops of many devices in the tables `JVP`, `TRANSPOSE` and `BATCH`.

Batched over the axis that it names, a collective is gone: on the stack of all values it is a
reduction, a transpose, or nothing at all::

    psum(x, "i")  over lanes  ->  X.sum(0), the same in all lanes
    all_gather(x, "i")        ->  X, the same in all lanes

A collective belongs to the axis whose index is its second source; see `trace.sharding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce as fold
from typing import Any

from tfn.errors import GradientError
from tfn.trace.build import (
    cast,
    concat,
    dot,
    eq,
    full_like,
    gather,
    iota,
    moveaxis,
    permute,
    reduce,
    reshape,
    shrink,
    spread,
    zeros,
)
from tfn.trace.jaxpr import function
from tfn.trace.op import MONOIDS, Op
from tfn.trace.sharding import OPEN, Axis, Collective, Exchange, Groups, Names, Partition
from tfn.trace.uop import UOp, mapped, walk
from tfn.transforms.body import Lanes


def collective(kind: Exchange, x: UOp, index: UOp, axis: Axis, **options: Any) -> UOp:
    """The node of an exchange along an axis."""
    return UOp(Op.COLLECTIVE, (x, index), Collective(kind, axis, **options))


# Forward and reverse mode.


def jvp(y: UOp, tangents: Sequence[Any]) -> UOp:
    """The same exchange of the tangent; of a maximum or minimum the mean of the tied ones."""
    (x, index), arg, dx = y.src, y.arg, tangents[0]
    if arg.kind is not Exchange.REDUCE or arg.op is Op.ADD:
        return UOp(Op.COLLECTIVE, (dx, index), arg)
    assert arg.op in MONOIDS
    if arg.op is Op.MUL:
        raise GradientError(
            "a product over devices has no derivative here", hint="use psum of the logarithm"
        )
    added = replace(arg, op=Op.ADD)
    tied = cast(eq(x, y), dx.dtype)
    total = UOp(Op.COLLECTIVE, (dx * tied, index), added)
    return total / UOp(Op.COLLECTIVE, (tied, index), added)


def transpose(u: UOp, ct: UOp, i: int) -> UOp:
    """The exchange backwards."""
    index, arg = u.src[1], u.arg

    def exchange(kind: Exchange, **options: Any) -> UOp:
        return UOp(Op.COLLECTIVE, (ct, index), replace(arg, kind=kind, **options))

    if arg.kind is Exchange.REDUCE:
        if arg.op is not Op.ADD:
            raise GradientError(f"a reduction by {arg.op.value} is not linear", hint="use vjp")
        return exchange(Exchange.VARY, invariant=False) if arg.invariant else exchange(arg.kind)
    if arg.kind is Exchange.VARY:
        return exchange(Exchange.REDUCE, invariant=True)
    if arg.kind is Exchange.GATHER:
        return exchange(Exchange.PICK) if arg.invariant else exchange(Exchange.SCATTER)
    if arg.kind is Exchange.PICK:
        return exchange(Exchange.GATHER, invariant=True)
    if arg.kind is Exchange.SCATTER:
        return exchange(Exchange.GATHER)
    if arg.kind is Exchange.PERMUTE:
        return exchange(arg.kind, pairs=tuple((to, begin) for begin, to in arg.pairs))
    return exchange(arg.kind)


def transpose_shard(u: UOp, ct: UOp, i: int) -> UOp:
    """The global cotangent; parts that are not known to be equal are added up."""
    arg: Partition = u.arg
    for axis in arg.unchecked:
        index = UOp(Op.AXIS, (), axis)
        ct = collective(Exchange.REDUCE, ct, index, axis)
    return UOp(Op.UNSHARD, (ct,), arg)


def transpose_unshard(u: UOp, ct: UOp, i: int) -> UOp:
    """The part of the cotangent; one that devices share is divided among them."""
    arg: Partition = u.arg
    part = UOp(Op.SHARD, (ct,), arg)
    share = fold(lambda n, axis: n * axis.size, arg.unchecked, 1)
    return part if share == 1 else part / full_like(part, share)


def of_cotangent(arg: Partition) -> Partition:
    """The constraint of a cotangent: the whole of one whose primal had parts to be added up."""
    return replace(arg, unreduced=(), reduced=()) if arg.unreduced or arg.reduced else arg


# Batching.


def batch_partition(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> UOp:
    """SHARD, UNSHARD, CONSTRAIN: the new axis is divided as `lanes_over` says, or not at all."""
    arg: Partition = u.arg
    return UOp(u.op, tuple(src), replace(arg, spec=(arg.lanes, *arg.spec), lanes=()))


def lanes_over(outputs: Sequence[UOp], names: Names) -> list[UOp]:
    """Graphs whose constraints divide the axis that `vmap` adds over axes of their mesh.

    So do the boundaries of manual regions.  Where a region has the axes, and uses them for nothing,
    they are the partitioner's from now on: each device has its own lanes of the region.
    """
    used = {u.arg.name for u in walk(outputs) if u.op is Op.AXIS}
    return _lanes_over(outputs, names, used.isdisjoint(names))


def _lanes_over(outputs: Sequence[UOp], names: Names, unused: bool) -> list[UOp]:
    def with_lanes(_: UOp, u: UOp) -> UOp:
        if u.op in (Op.SHARD, Op.UNSHARD) and unused and set(names).isdisjoint(u.arg.names):
            return _lanes_of_region(u, names)
        if u.op is Op.CONSTRAIN:
            arg: Partition = u.arg
            free = {axis.name for axis in arg.mesh} - {n for part in arg.spec for n in part}
            if free.issuperset(names):
                return UOp(u.op, u.src, replace(arg, lanes=names))
        return u

    return mapped(
        outputs, with_lanes, lambda f: function(_lanes_over(f.src, names, unused), f.arg.params)
    )


def _lanes_of_region(u: UOp, names: Names) -> UOp:
    """SHARD or UNSHARD of a region whose lanes are divided over axes that it does not use."""
    arg: Partition = u.arg
    manual = tuple([name for name in arg.manual if name not in names])
    unchecked = tuple([axis for axis in arg.unchecked if axis.name not in names])
    inner = replace(arg, manual=manual, unchecked=unchecked)

    def open_lanes(x: UOp) -> UOp:
        lanes = Partition(arg.mesh, (OPEN,) * x.ndim, lanes=names)
        return UOp(Op.CONSTRAIN, (x,), lanes)

    if u.op is Op.SHARD:
        return UOp(Op.SHARD, (open_lanes(u.src[0]),), inner)
    return open_lanes(UOp(Op.UNSHARD, u.src, inner))


def batch_rule(u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int) -> Any:
    """The row of COLLECTIVE."""
    (x, index), (on_x, on_index), arg = src, mapped, u.arg
    if on_index:
        return _resolved(x, on_x, arg, size)
    first = arg.kind in (Exchange.SCATTER, Exchange.TRANSPOSE, Exchange.PICK)
    out = UOp(Op.COLLECTIVE, (moveaxis(x, 0, 1) if first else x, index), arg)
    gathered = arg.kind in (Exchange.GATHER, Exchange.TRANSPOSE)
    return Lanes(moveaxis(out, 1, 0) if gathered else out, True)


def _resolved(x: UOp, many: bool, arg: Collective, size: int) -> Lanes:
    """The exchange on the stack of all values; `many` says whether `x` is that stack."""
    assert size == arg.axis.size, (size, arg)
    if not many:
        if arg.kind in (Exchange.VARY, Exchange.PICK):
            return Lanes(x, arg.kind is Exchange.PICK)
        if arg.kind is Exchange.REDUCE and arg.op is not Op.MUL:
            return Lanes(x * arg.count if arg.op is Op.ADD else x, False)
        x = spread(x, size)
    if arg.groups is not None:
        return Lanes(of_each_group(x, arg), True)
    if arg.kind is Exchange.REDUCE:
        return Lanes(added(x) if arg.op is Op.ADD else reduce(x, arg.op, (0,)), False)
    if arg.kind is Exchange.GATHER:
        return Lanes(x, False)
    if arg.kind is Exchange.PERMUTE:
        source = {to: begin for begin, to in arg.pairs}
        return Lanes(rows(x, [source.get(i) for i in range(size)]), True)
    if arg.kind is Exchange.PICK:
        lane = reshape(iota((size,), 0), (size, 1))
        return Lanes(reshape(gather(x, lane, (1, *x.shape[2:]), 1), x.shape[1:]), True)
    return Lanes(x if arg.kind is Exchange.VARY else _exchanged(x, arg, 0), True)


def _exchanged(x: UOp, arg: Collective, axis: int) -> UOp:
    """An exchange among the rows of an axis, of which each gets its part."""
    if arg.kind is Exchange.SCATTER:
        return added(x) if axis == 0 else reduce(x, Op.ADD, (axis,))
    order = list(range(x.ndim))
    order[axis], order[axis + 1] = axis + 1, axis
    return permute(x, tuple(order))


def added(x: UOp) -> UOp:
    """The sum over the first axis; of a stack of products it is one product, with a longer sum.

    Before -> after, for the gradient of a weight from the parts of a batch::

        reduce[axes=(0)] dot f32[2,64,8] f32[2,64,9] -> f32[2,8,9]
        dot f32[128,8] f32[128,9] -> f32[8,9]
    """
    if x.op is Op.PERMUTE and x.arg[0] == 0:
        return permute(added(x.src[0]), tuple([axis - 1 for axis in x.arg[1:]]))
    if x.op is Op.RESHAPE and x.shape[:1] == x.src[0].shape[:1]:
        return reshape(added(x.src[0]), x.shape[1:])
    if x.op is not Op.DOT or x.arg.batch_a[:1] != (0,) or x.arg.batch_b[:1] != (0,):
        return reduce(x, Op.ADD, (0,))
    (a, b), arg = x.src, x.arg
    batch = arg.batch_a[1:], arg.batch_b[1:]
    contract = (0, *arg.contract_a), (0, *arg.contract_b)
    if contract[0][:2] == (0, 1) == contract[1][:2]:  # neighbours are one axis
        a, b = (reshape(y, (y.shape[0] * y.shape[1], *y.shape[2:])) for y in (a, b))
        contract = tuple(tuple(n - 1 for n in axes[1:]) for axes in contract)  # type: ignore[assignment]
        batch = tuple(tuple(n - 1 for n in axes) for axes in batch)  # type: ignore[assignment]
    return dot(a, b, contract, batch, arg.dtype, arg.tf32)


def of_each_group(x: UOp, arg: Collective) -> UOp:
    """The exchange within each group: rows in the order of the groups, and back."""
    groups: Groups = arg.groups or ()
    order = [device for group in groups for device in group]
    grouped = reshape(rows(x, order), (len(groups), len(groups[0]), *x.shape[1:]))
    if arg.kind is Exchange.REDUCE:
        out = moveaxis(spread(reduce(grouped, arg.op, (1,)), arg.count), 0, 1)
    elif arg.kind is Exchange.GATHER:
        out = moveaxis(spread(grouped, arg.count), 0, 1)
    else:
        out = _exchanged(grouped, arg, 1)
    back = sorted(range(len(order)), key=order.__getitem__)
    return rows(reshape(out, (len(order), *out.shape[2:])), list(back))


def rows(x: UOp, order: Sequence[int | None]) -> UOp:
    """Rows of the first axis in another order, zeros for None: slices of consecutive ones."""
    runs: list[tuple[int | None, int]] = []
    for i in order:
        begin, length = runs[-1] if runs else (None, 0)
        follows = i == begin + length if begin is not None and i is not None else i is begin
        if runs and follows:
            runs[-1] = begin, length + 1
        else:
            runs.append((i, 1))
    rest = x.shape[1:]
    parts = [
        zeros((length, *rest), x.dtype)
        if begin is None
        else shrink(x, (begin, *(0 for _ in rest)), (begin + length, *rest))
        for begin, length in runs
    ]
    return parts[0] if len(parts) == 1 else concat(parts, 0)
