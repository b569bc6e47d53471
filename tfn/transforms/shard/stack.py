"""The devices of one process as axes of an ordinary program: the stack of their values.

Devices of one process share its memory and its threads.  So the SPMD program is batched over each
axis of the mesh, and its collectives become reductions and transposes of the stack, which fuse
with what is around them; a gathered value is read where its parts lie, a replicated one is held
once.  Kernels then run over the parts of all devices with all threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import INT32
from tfn.trace.build import cast, iota, reshape, shrink, spread
from tfn.trace.jaxpr import Jaxpr, leaves
from tfn.trace.loop_cleanup import tidy
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import UOp, substitute
from tfn.transforms.batch import batch
from tfn.transforms.body import Lanes, closed, fresh, opened


def stacked(
    spmd: Jaxpr, mesh: Sequence[Axis], params: Sequence[Partition], results: Sequence[Partition]
) -> Jaxpr:
    """The program of all devices of a mesh in one process.

    Args:
        spmd: the program of one device, whose last parameters are its indices along `mesh`.
        params, results: how its other parameters and its results are divided.
    """
    inputs, outputs = opened(spmd.function)
    stacks, indices = inputs[: len(params)], inputs[len(params) :]
    used = set(leaves(outputs))
    for axis, index in zip(reversed(mesh), reversed(indices), strict=True):
        if axis.size == 1 and index not in used:
            outputs = _alone(axis, outputs, stacks, params, results)
            continue
        wide: dict[UOp, UOp] = {}
        for i, (x, arg) in enumerate(zip(stacks, params, strict=True)):
            if axis.name in arg.names:
                stacks[i] = wide[x] = fresh(spread(x, axis.size))
        wide[index] = cast(iota((axis.size,), 0), INT32)
        lanes = batch(outputs, wide, axis.size)
        outputs = [
            _along(lane, axis, axis.name in arg.names)
            for lane, arg in zip(lanes, results, strict=True)
        ]
    return Jaxpr(closed(tidy(outputs), stacks))


def _alone(
    axis: Axis,
    outputs: Sequence[UOp],
    stacks: list[UOp],
    params: Sequence[Partition],
    results: Sequence[Partition],
) -> list[UOp]:
    """The program over the stacks of one device: what it computes is the same."""
    flat: dict[UOp, UOp] = {}
    for i, (x, arg) in enumerate(zip(stacks, params, strict=True)):
        if axis.name in arg.names:
            stacks[i] = fresh(spread(x, 1))
            flat[x] = reshape(stacks[i], x.shape)
    return [
        reshape(y, (1, *y.shape)) if axis.name in arg.names else y
        for y, arg in zip(substitute(outputs, flat), results, strict=True)
    ]


def _along(lane: Lanes, axis: Axis, divided: bool) -> UOp:
    """A result with an axis for the devices if it is divided; else that of the first of them."""
    if divided:
        return lane.full(axis.size)
    if not lane.many:
        return lane.graph
    x = lane.graph
    rest = x.shape[1:]
    return reshape(shrink(x, (0,) * x.ndim, (1, *rest)), rest)
