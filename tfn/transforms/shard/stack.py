"""The devices of one process as axes of an ordinary program: the stack of their values.

Devices of one process share its memory and its threads.  So the SPMD program is batched over each
axis of the mesh, and its collectives become reductions and transposes of the stack, which fuse
with what is around them; a gathered value is read where its parts lie, a replicated one is held
once.  Kernels then run over the parts of all devices with all threads.
"""

from __future__ import annotations

from tfn.dtypes import INT32
from tfn.trace.argument import Leaf, Param
from tfn.trace.build import cast, iota, reshape, shrink
from tfn.trace.jaxpr import Jaxpr, function, leaves, param
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Partition
from tfn.trace.uop import UOp, substitute
from tfn.transforms.batch import batch
from tfn.transforms.body import Lanes
from tfn.transforms.shard.divide import Opened


def stacked(part: Opened) -> Jaxpr:
    """The program of all devices of a mesh in one process, over stacks of parts.

    Axes of one device are axes of the stacks, too, but nothing is computed along them.
    """
    outputs, stacks = list(part.outputs), list(part.leaves)
    used = set(leaves(outputs))
    for axis, index in zip(reversed(part.mesh), reversed(part.indices), strict=True):
        if axis.size == 1 and index not in used:
            continue
        wide: dict[UOp, UOp] = {}
        for i, (x, arg) in enumerate(zip(stacks, part.params, strict=True)):
            if axis.name in arg.names:
                row = Leaf((axis.size, *x.shape), x.dtype)
                stacks[i] = wide[x] = UOp(Op.LEAF, (), row)
        wide[index] = cast(iota((axis.size,), 0), INT32)
        lanes = batch(outputs, wide, axis.size)
        outputs = [
            _along(lane, axis, axis.name in arg.names)
            for lane, arg in zip(lanes, part.results, strict=True)
        ]
    params: list[Param] = []
    given: dict[UOp, UOp] = {}
    for i, (x, leaf, arg) in enumerate(zip(stacks, part.leaves, part.params, strict=True)):
        params.append(Param(i, (*_sizes(arg), *leaf.shape), x.dtype))
        given[x] = reshape(param(params[i]), x.shape)
    results = [
        reshape(y, (*_sizes(arg), *u.shape))
        for y, u, arg in zip(tidy(outputs), part.outputs, part.results, strict=True)
    ]
    return Jaxpr(function(substitute(results, given), tuple(params)))


def _sizes(arg: Partition) -> list[int]:
    """The axes of the stack of a value: those of the mesh that divide it, in the mesh's order."""
    return [axis.size for axis in arg.mesh if axis.name in arg.names]


def _along(lane: Lanes, axis: Axis, divided: bool) -> UOp:
    """A result with an axis for the devices if it is divided; else that of the first of them."""
    if divided:
        return lane.full(axis.size)
    if not lane.many:
        return lane.graph
    x = lane.graph
    rest = x.shape[1:]
    return reshape(shrink(x, (0,) * x.ndim, (1, *rest)), rest)
