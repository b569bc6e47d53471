"""A function of global values, divided: the graphs that every device computes of its parts.

f(x:f32[8,4], w:f32[4,2]), x over data   ->   graphs over leaves f32[4,4], f32[4,2]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tfn._support.frozen import frozen
from tfn.trace.argument import Leaf
from tfn.trace.inline import plain
from tfn.trace.jaxpr import param
from tfn.trace.op import Op
from tfn.trace.sharding import Axis, Partition, Spec
from tfn.trace.uop import UOp
from tfn.transforms.shard.part import Part
from tfn.transforms.shard.partition import Partitioner
from tfn.transforms.shard.propagate import even, proper, undivided


@frozen
class Opened:
    """A divided function as graphs over leaves, to be closed or stacked.

    Attributes:
        outputs: the graphs of the parts of the results.
        leaves: the parts of the parameters.
        indices: of this device along each axis.
        mesh: the axes.
        params, results: how the values are divided.
    """

    outputs: tuple[UOp, ...]
    leaves: tuple[UOp, ...]
    indices: tuple[UOp, ...]
    mesh: tuple[Axis, ...]
    params: tuple[Partition, ...]
    results: tuple[Partition, ...]


def divide(
    f: UOp,
    mesh: tuple[Axis, ...],
    params: Sequence[Partition | None],
    settled: Callable[[Spec], Spec] = lambda spec: spec,
    between: Collection[str] = (),
) -> Opened:
    """A FUNCTION of global values, divided among the devices of a mesh.

    Args:
        params: how each parameter is divided; None for one that is the same on all devices.
        settled: from the spec that a result would have to the one that it shall have.
        between: the axes over processes, see `Partitioner`.
    """
    f = plain(f)
    full = tuple(
        arg or Partition(mesh, undivided(len(p.shape)))
        for arg, p in zip(params, f.arg.params, strict=True)
    )
    partitioner = Partitioner(mesh, between)
    leaves = tuple(
        UOp(Op.LEAF, (), Leaf(arg.local(p.shape), p.dtype))
        for arg, p in zip(full, f.arg.params, strict=True)
    )
    known = {
        param(p): Part(leaf, proper(arg))
        for p, leaf, arg in zip(f.arg.params, leaves, full, strict=True)
    }
    sizes = partitioner.sizes
    out = [
        partitioner.to(part, settled(even(part.shape, settled(part.spec), sizes)))
        for part in partitioner.run(f, known, [None] * len(f.src))
    ]
    given = {(p.shape, proper(arg)): arg for p, arg in zip(f.arg.params, full, strict=True)}
    results = tuple(
        given.get((u.shape, part.spec), Partition(mesh, part.spec))
        for u, part in zip(f.src, out, strict=True)
    )
    indices = tuple(partitioner.index[axis.name] for axis in mesh)
    outputs = tuple(part.graph for part in out)
    return Opened(outputs, leaves, indices, mesh, full, results)
