"""Placement: a function of global arrays as a program of the devices that hold its arguments.

    x:f32[8,4] over Mesh('x': 2)  ->  f over stacks f32[2,4,4]  ->  y:f32[8] over Mesh('x': 2)

The sharding of the first argument that is committed to devices says where a call runs.  Arguments
that are not committed follow it; those that are committed to other devices are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfn.config import config
from tfn.eager import memories
from tfn.errors import DeviceError
from tfn.trace import traces
from tfn.trace.argument import Param
from tfn.trace.aval import Kind, kind_of
from tfn.trace.build import permute, reshape
from tfn.trace.inline import inspects, names_devices
from tfn.trace.jaxpr import Jaxpr, function, inline, param
from tfn.trace.mesh import Device, Mesh, mesh_of
from tfn.trace.named_sharding import NamedSharding, P, Sharding, SingleDeviceSharding
from tfn.trace.place import Request, result_sharding
from tfn.trace.place import common_place as common_place
from tfn.trace.sharding import Axis, Partition, stacked_shape, stacking
from tfn.trace.uop import UOp, remembered
from tfn.transforms.callback import inspected
from tfn.transforms.shard import layout, layout_rules
from tfn.transforms.shard import program as partitioner


class Placed(NamedTuple):
    """A function as a program of devices.

    Attributes:
        jaxpr: of stacks of parts.
        platform: of the devices, or the name of their memory; None for the default one.
        device: the one that it runs on, if it is committed to a single one.
        results: the kinds of the results: of whole arrays, with their shardings.
    """

    jaxpr: Jaxpr
    platform: str | None
    device: Device | None
    results: tuple[Kind, ...]


def placed(
    jaxpr: Jaxpr, kinds: Sequence[Kind], on: Request | None = None, what: str = "a program"
) -> Placed:
    """The program of a function for arguments of these kinds.

    Args:
        jaxpr: of whole arrays.
        kinds: of its arguments.
        on: the shardings that the user has asked for.
        what: the name of the function, for errors.

    Raises:
        DeviceError: for arguments on different devices, or on others than those of `on`.
    """
    place = common_place(what, kinds)
    asked = on.place if on else None
    if place is None:
        place = asked
    elif asked is not None and asked.devices != place.devices:
        raise DeviceError(
            f"{what} got an array that is on other devices than its results",
            got=f"an array of {place}, a result of {asked}",
            hint="tfn.device_put brings the array to the devices of the results",
        )
    shardings = tuple([kind.sharding for kind in kinds])
    return _placed(jaxpr.function, shardings, place, on.results if on else ())


@remembered
def _placed(
    f: UOp,
    shardings: tuple[Sharding | None, ...],
    place: Sharding | None,
    asked: tuple[Sharding | None, ...],
) -> Placed:
    layouts: list[layout.Layout | None] = []
    if traces.LAYOUTS.exist:
        pairs = zip(shardings, f.arg.params, strict=True)
        f, layouts = layout_rules.settled(
            f, [layout.of_sharding(s, len(p.shape)) for s, p in pairs]
        )
    jaxpr = Jaxpr(f)
    mesh = place.mesh if isinstance(place, NamedSharding) else None
    grid = memories.grid_of(mesh) if isinstance(mesh, Mesh) else None
    partitions: list[Partition | None] = [None] * len(shardings)
    if mesh is not None:
        for i, (p, sharding) in enumerate(zip(f.arg.params, shardings, strict=True)):
            if isinstance(sharding, NamedSharding):
                partitions[i] = sharding.partition(len(p.shape))
        if grid and any(p is not None and p.mesh != mesh.axes for p in partitions):
            raise DeviceError(
                "a program got arrays that are divided among processes over different meshes",
                got=f"an array over {mesh}, and one over another mesh",
                hint="tfn.device_put(x, NamedSharding(mesh, spec)) brings one to the other mesh",
            )
        jaxpr = of_mesh(jaxpr, partitions, mesh.axes)
    if mesh is None and names_devices(f):
        axes = partitioner.mesh_of(f, partitions)
        assert axes is not None
        mesh = mesh_of(axes, place.devices[0].platform if place else config.device)
        if place is not None and place.devices != tuple(mesh.devices.flat):
            raise DeviceError(
                "a program over the devices of a mesh got an array that is on one device",
                got=f"an array on {place.devices[0]}",
                hint="tfn.device_put(x, NamedSharding(mesh, PartitionSpec())) brings it to all of "
                "them",
            )
        grid = memories.grid_of(mesh)
    if mesh is None:
        if inspects(f):
            where = place or SingleDeviceSharding(Device(config.device, 0))
            jaxpr = Jaxpr(function(inspected(f.src, where), f.arg.params))
        results: Sequence[Partition | None] = [None] * len(jaxpr.outputs)
    else:
        jaxpr, results = partitioner.stacked(jaxpr, partitions, grid)
    # A result that is divided as the user has asked, or as an argument is, has this very sharding:
    # however the user wrote it, the next call with it finds the same program.
    given = {(p, q.shape): s for p, q, s in zip(partitions, f.arg.params, shardings) if p and s}
    kinds = []
    for i, (u, result) in enumerate(zip(f.src, results, strict=True)):
        sharding = (result and given.get((result, u.shape))) or result_sharding(result, place)
        if (
            sharding
            and i < len(layouts)
            and (sums := layouts[i])
            and isinstance(sharding, NamedSharding)
        ):
            spec = sharding.spec.update(unreduced=sums.unreduced, reduced=sums.reduced)
            sharding = sharding if spec == sharding.spec else sharding.with_spec(spec)
        exact = asked[i] if asked else None
        if exact and sharding and sharding.is_equivalent_to(exact, u.ndim):
            sharding = exact
        kinds.append(kind_of(u.shape, u.dtype, sharding))
    alone = place.device if isinstance(place, SingleDeviceSharding) else None
    over = NamedSharding(mesh, P()) if grid and mesh is not None else None
    return Placed(jaxpr, memories.place(place or over), alone, tuple(kinds))


def of_mesh(jaxpr: Jaxpr, partitions: list[Partition | None], axes: tuple[Axis, ...]) -> Jaxpr:
    """The function of arguments that are divided over other axes: their stacks are undone first.

    Partitions over other axes are set to None.
    """
    if all(partition is None or partition.mesh == axes for partition in partitions):
        return jaxpr
    params: list[Param] = []
    operands: list[UOp] = []
    for i, (p, partition) in enumerate(zip(jaxpr.params, partitions, strict=True)):
        foreign = partition is not None and partition.mesh != axes
        shape = stacked_shape(partition, p.shape) if partition and foreign else p.shape
        params.append(Param(i, shape, p.dtype))
        operand = param(params[-1])
        if partition and foreign:
            operand = unstacked(operand, partition, p.shape)
            partitions[i] = None
        operands.append(operand)
    return Jaxpr(function(inline(jaxpr, operands), tuple(params)))


def of_whole(jaxpr: Jaxpr) -> Jaxpr:
    """A function of whole arrays that gives whole arrays, without ops of many devices.

    What it is for is written for one device: an exported program, for one.
    """
    if not names_devices(jaxpr.function):
        return jaxpr
    program, results = partitioner.stacked(jaxpr, [None] * len(jaxpr.params))
    outputs = [
        unstacked(y, result, u.shape)
        for y, result, u in zip(program.outputs, results, jaxpr.outputs, strict=True)
    ]
    return Jaxpr(function(outputs, program.params))


def unstacked(u: UOp, partition: Partition, shape: tuple[int, ...]) -> UOp:
    """The whole value of a stack of parts."""
    _, order = stacking(partition, shape)
    return reshape(permute(u, tuple(sorted(range(len(order)), key=order.__getitem__))), shape)
