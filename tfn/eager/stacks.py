"""The buffer of a divided array: the stack of its parts.

x:f32[8,4] over P('x') on Mesh('x': 2)  =  one buffer, f32[2,4,4]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.array import Array
from tfn.eager import memories
from tfn.eager.arrays import concrete
from tfn.errors import DeviceError
from tfn.hw.device import Memory
from tfn.trace.named_sharding import NamedSharding, Sharding
from tfn.trace.op import Shape
from tfn.trace.processes import HostGrid, processes
from tfn.trace.sharding import Axis, Partition, stacked_shape, stacking


def is_divided(sharding: Sharding | None, ndim: int) -> Partition | None:
    """The partition of an array whose buffer is a stack of parts; None for all others."""
    if sharding is None:
        return None
    partition = sharding.partition(ndim)
    return partition if partition is not None and partition.names else None


def hosts_of(sharding: Sharding | None) -> HostGrid | None:
    """The processes over which an array is spread; None if this one has all of it."""
    return sharding.mesh.hosts if isinstance(sharding, NamedSharding) else None


def own_blocks(sharding: Sharding | None) -> dict[Any, slice]:
    """For each axis of the mesh the places along it whose devices belong to this process."""
    hosts = hosts_of(sharding)
    if hosts is None:
        return {}
    assert isinstance(sharding, NamedSharding)
    blocks = {}
    rows = zip(sharding.mesh.axes, hosts.sizes, hosts.place(processes.index), strict=True)
    for axis, count, i in rows:
        n = axis.size // count
        blocks[axis.name] = slice(i * n, (i + 1) * n)
    return blocks


def own_part(sharding: Sharding | None, shape: Shape) -> tuple[Partition | None, Shape]:
    """The division of the part of an array that this process holds, and the shape of that part."""
    partition, blocks = is_divided(sharding, len(shape)), own_blocks(sharding)
    if partition is None or not blocks:
        return partition, shape
    local = partition.local(shape)
    mesh = [Axis(a.name, blocks[a.name].stop - blocks[a.name].start) for a in partition.mesh]
    own = Partition(tuple(mesh), partition.spec)
    return own, own.whole(local)


def platform_of(x: Array) -> str | None:
    """The place that has the memory of an array; None for the default one."""
    assert x.kind is not None
    return memories.place(x.kind.sharding)


def stack_of(x: Array, memory: Memory) -> np.ndarray[Any, Any]:
    """The data of a concrete array as they are in its buffer: the stack of its parts."""
    assert x.buffer is not None and x.kind is not None
    partition, shape = own_part(x.kind.sharding, x.shape)
    if partition is not None:
        shape = stacked_shape(partition, shape)
    return memory.read(x.buffer, shape, x.dtype)


def read(x: Array, memory: Memory) -> np.ndarray[Any, Any]:
    """The data of a concrete array, read-only; parts are put together in new memory.

    Raises:
        DeviceError: if other processes have parts of it that this one has not.
    """
    assert x.kind is not None
    if own_part(x.kind.sharding, x.shape)[1] != x.shape:
        raise DeviceError(
            "an array with parts in other processes cannot be read as a whole",
            got=f"shape {x.shape}, {x.kind.sharding}",
            hint="x.addressable_shards has the parts of this process; "
            "tfn.distributed.process_allgather(x) brings all parts to all processes",
        )
    return read_own(x, memory)


def read_own(x: Array, memory: Memory) -> np.ndarray[Any, Any]:
    """The data of a concrete array that this process holds, put together."""
    assert x.kind is not None
    if memories.is_group(x.kind.sharding):
        return memories.read(x)
    stack = stack_of(x, memory)
    partition, shape = own_part(x.kind.sharding, x.shape)
    if partition is None:
        return stack
    _, order = stacking(partition, shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    data = np.ascontiguousarray(stack.transpose(back)).reshape(shape)
    data.flags.writeable = False
    return data


def duplicate(x: Array, memory: Memory) -> Array:
    """The same values in memory of their own, on the same devices."""
    assert x.kind is not None
    if memories.is_group(x.kind.sharding):
        data = memories.read(x)
        sharding: Any = x.kind.sharding
        buffer, _ = memories.made(sharding, x.shape, lambda _, device, index: data[index])
    else:
        buffer = memory.copy(stack_of(x, memory))
    return concrete(buffer, x.shape, x.dtype, x.weak_type, x.kind.sharding)
