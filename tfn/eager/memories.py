"""Devices of one process with memories of their own: names of places, parts of arrays, moves.

    cuda        the first GPU, where arrays are made
    cuda:1      another one
    cuda:0,1    two that run the programs of a mesh together: a buffer of each for every array

Elsewhere the devices of a process share a memory, and the place is the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn.array import Array
from tfn.config import config
from tfn.eager import platforms
from tfn.eager.arrays import concrete
from tfn.eager.registry import device as device_of
from tfn.errors import DeviceError
from tfn.hw.buffer import Buffer
from tfn.trace.mesh import Device, Mesh
from tfn.trace.named_sharding import Index, NamedSharding, Sharding
from tfn.trace.op import Shape
from tfn.trace.processes import HostGrid, processes


def separate(platform: str) -> bool:
    """Whether the devices of a platform have memories of their own.

    With `config.devices` above 1 they are parts of the memory of the first, and so they are where
    several processes work together: each has one.
    """
    if platform not in platforms.DRIVEN or config.devices > 1 or processes.count > 1:
        return False
    return device_of(platform).count > 1


def place(sharding: Sharding | None) -> str | None:
    """The name of the memory of a sharding, for `registry.device`; None for the default one."""
    if sharding is None:
        return None
    platform = sharding.devices[0].platform
    if not separate(platform):
        return platform
    numbers = [device.id for device in sharding.devices]
    return platform if numbers == [0] else f"{platform}:{','.join(map(str, numbers))}"


def is_group(sharding: Sharding | None) -> bool:
    """Whether each array of a sharding has several buffers."""
    if sharding is None or len(sharding.devices) == 1:
        return False
    return separate(sharding.devices[0].platform)


def grid_of(mesh: Mesh) -> HostGrid | None:
    """The devices of a mesh as the blocks that run its programs; None if one memory has them."""
    platform, count = mesh.devices.flat[0].platform, mesh.devices.size
    if count > 1 and separate(platform):
        return HostGrid(mesh.axis_sizes, tuple(range(count)), local=True)
    return mesh.hosts


def _group(sharding: Sharding) -> tuple[Any, Sequence[Any]]:
    """The memory of a sharding over several devices, and those of the devices."""
    memory: Any = device_of(place(sharding)).memory
    return memory, memory.members


def parts_of(x: Array) -> tuple[Buffer, ...]:
    """The buffers of an array over several devices, in the order of the mesh."""
    buffer: Any = x.buffer
    parts: tuple[Buffer, ...] = buffer.parts
    return parts


def made(
    sharding: Sharding, shape: Shape, part: Callable[[int, Device, Index], Any]
) -> tuple[Any, Any]:
    """A buffer of a sharding over several devices, and its dtype.

    Args:
        part: of a device by its number in the mesh: an array of NumPy, which is copied; or one of
            this library on the device, whose buffer is shared.
    """
    memory, members = _group(sharding)
    buffers, dtype = [], None
    for i, (device, index) in enumerate(sharding.devices_indices_map(shape).items()):
        data = part(i, device, index)
        if isinstance(data, Array) and _place_of(data) == place_of(device):
            buffers.append(data.concrete().buffer)
        else:
            data = np.asarray(data)
            buffers.append(members[i].copy(data))
        dtype = dtype or data.dtype
    return memory.joined(buffers), dtype


def _place_of(x: Array) -> str | None:
    return place(x.kind.sharding) if x.kind is not None else None


def place_of(device: Device) -> str:
    """The name of the memory of one device."""
    return device.platform if device.id == 0 else f"{device.platform}:{device.id}"


def read(x: Array) -> np.ndarray[Any, Any]:
    """The data of an array over several devices, read-only, put together."""
    assert x.kind is not None
    sharding: Any = x.kind.sharding
    _, members = _group(sharding)
    local = sharding.shard_shape(x.shape)
    indices = sharding.devices_indices_map(x.shape).values()
    seen: set[str] = set()
    data = np.empty(x.shape, x.dtype)
    for member, buffer, index in zip(members, parts_of(x), indices, strict=True):
        if str(index) not in seen:
            seen.add(str(index))
            data[index] = member.read(buffer, local, x.dtype)
    data.flags.writeable = False
    return data


def moved(x: Array, sharding: Sharding) -> Array | None:
    """A whole array of one device on other devices that have all of it, from memory to memory.

    None if it is divided, before or after, or on another platform.
    """
    assert x.kind is not None and x.buffer is not None
    before: Any = x.kind.sharding
    platform = sharding.devices[0].platform
    whole = is_group(sharding) and sharding.shard_shape(x.shape) == x.shape
    here = before.devices[0].platform if before else config.device
    if is_group(before) or here != platform or not separate(platform):
        return None
    if is_group(sharding) and not whole:
        return None
    source = device_of(place(before)).memory
    target: Any = device_of(place(sharding)).memory
    return concrete(target.brought(source, x.buffer), x.shape, x.dtype, x.weak_type, sharding)


def gathered(operands: Sequence[Array], name: str | None) -> Sequence[Array]:
    """The operands of a call, those that no one has committed brought to where it runs.

    Args:
        name: of the place; None for the default device.
    """
    platform = (name or config.device).partition(":")[0]
    if name is None or not separate(platform):
        return operands
    memory: Any = device_of(name).memory
    source = device_of(platform).memory
    result = []
    for x in operands:
        x = x.concrete()
        assert x.kind is not None and x.buffer is not None
        if x.kind.sharding is None and source is not memory:
            if config.device != platform:
                raise DeviceError(
                    f"an array is on the device {config.device}, and the program runs on {name}",
                    hint="tfn.device_put brings it there",
                )
            buffer = memory.brought(source, x.buffer)
            x = concrete(buffer, x.shape, x.dtype, x.weak_type)
        result.append(x)
    return result


def one_part(x: Array, number: int, alone: Sharding) -> Array:
    """The part of an array over several devices that one of them has, without a copy."""
    assert x.kind is not None and isinstance(x.kind.sharding, NamedSharding)
    shape = x.kind.sharding.shard_shape(x.shape)
    return concrete(parts_of(x)[number], shape, x.dtype, x.weak_type, alone)
