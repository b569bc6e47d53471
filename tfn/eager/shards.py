"""Arrays divided among devices: their parts, and how they are put together, moved and read.

    x:f32[8,4] over P('x') on Mesh('x': 2)  =  one buffer, the stack f32[2,4,4] of its parts

The devices of a process share its memory: what is undivided is held once, and an array that goes
from one of them to another keeps its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import dtypes
from tfn.array import Array
from tfn.config import config
from tfn.eager import device_memory, devices, memories, platforms, run
from tfn.eager.arrays import concrete
from tfn.eager.stacks import hosts_of, is_divided, own_blocks, own_part, platform_of, stack_of
from tfn.errors import DeviceError, ShapeError
from tfn.hw.buffer import ALIGNMENT
from tfn.trace import bind
from tfn.trace.mesh import Device, Mesh, mesh_in_use, mesh_of
from tfn.trace.named_sharding import (
    Index,
    NamedSharding,
    P,
    Sharding,
    SingleDeviceSharding,
    as_sharding,
)
from tfn.trace.op import Op, Shape
from tfn.trace.processes import processes
from tfn.trace.sharding import Partition, stacked_shape, stacking
from tfn.transforms.shard import layout


def sharding_of(x: Array) -> Sharding:
    """The sharding of an array; that of one which is not committed is the default device."""
    if x.kind is not None and x.kind.sharding is not None:
        sharding: Sharding = x.kind.sharding
        return sharding
    return SingleDeviceSharding(devices.current_device())


def is_readable(x: Array) -> bool:
    """Whether this process has all data of an array, or a copy of them."""
    return x.buffer is None or own_part(sharding_of(x), x.shape)[1] == x.shape


def device_of(x: Array) -> Device | Sharding:
    """The device of an array, or its sharding if it is divided among several."""
    sharding = sharding_of(x)
    return sharding.device if isinstance(sharding, SingleDeviceSharding) else sharding


def from_numpy(data: np.ndarray[Any, Any], sharding: Sharding, weak: bool = False) -> Array:
    """An array of NumPy's data, copied, on the devices of a sharding.

    Each process has all of the data, and takes what its devices hold.
    """
    partition = is_divided(sharding, data.ndim)
    shape = data.shape
    if memories.is_group(sharding):
        buffer, _ = memories.made(sharding, shape, lambda _, device, index: data[index])
        return concrete(buffer, shape, data.dtype, weak, sharding)
    if partition is not None:
        split, order = stacking(partition, shape)
        data = data.reshape(split).transpose(order)
        own = own_blocks(sharding)
        data = data[tuple([own.get(name, slice(None)) for name in partition.names])]
    memory = run.device(memories.place(sharding)).memory
    return concrete(memory.copy(data), shape, data.dtype, weak, sharding)


def put(x: Array, sharding: Sharding) -> Array:
    """A concrete array on the devices of a sharding, divided as it says.

    Raises:
        ShapeError: if a size does not divide.
        DeviceError: if this process has not all of the devices.
    """
    x = x.concrete()
    assert x.kind is not None and x.buffer is not None
    before = x.kind.sharding
    if before == sharding:
        return x
    devices.check_exist(sharding)
    if elsewhere := platforms.CONTROLLERS.get(sharding.devices[0].platform):
        return elsewhere.put(x, sharding)
    target = sharding.checked(x.shape)
    platform = memories.place(sharding)
    old, new = is_divided(before, x.ndim), is_divided(sharding, x.ndim)
    spread, spreads = hosts_of(before), hosts_of(sharding)
    if (platform_of(x) or devices.default_backend()) != platform or spread != spreads:
        if spread is not None and old is not None:
            x = put(x, before.with_spec(P()))  # type: ignore[union-attr]  # it is over a mesh
        if (result := memories.moved(x, sharding)) is not None:
            return result
        return from_numpy(run.read(x), sharding, x.weak_type)
    assert x.buffer is not None
    if (old and (old.mesh, old.spec)) == (new and (new.mesh, new.spec)):
        return concrete(x.buffer, x.shape, x.dtype, x.weak_type, sharding)
    if old is not None and target is not None and old.mesh != target.mesh:
        if spread is not None:
            x = put(x, before.with_spec(P()))  # type: ignore[union-attr]
        return from_numpy(run.read(x), sharding, x.weak_type)
    if target is None:
        return from_numpy(run.read(x), sharding, x.weak_type)
    mesh = sharding.mesh  # type: ignore[union-attr]  # it has a partition
    here = NamedSharding(mesh, P() if old is None else before.spec)  # type: ignore[union-attr]
    assert x.buffer is not None
    x = concrete(x.buffer, x.shape, x.dtype, x.weak_type, here)
    divided: Array = run.execute(Op.CONSTRAIN, target, [x], x.weak_type)
    assert divided.buffer is not None
    return concrete(divided.buffer, x.shape, x.dtype, x.weak_type, sharding)


class Shard:
    """The part of an array that one device has.

    Attributes:
        device: the device.
        index: of the part in the whole array, a tuple of slices.
        replica_id: the number of devices before it that have the same part.
    """

    __slots__ = ("_data", "_make", "device", "index", "replica_id")

    def __init__(
        self, device: Device, index: Index, replica_id: int, make: Callable[[], Array]
    ) -> None:
        self.device, self.index, self.replica_id = device, index, replica_id
        self._make = make
        self._data: Array | None = None

    @property
    def data(self) -> Array:
        """The part, as an array on the device."""
        if self._data is None:
            self._data = self._make()
        return self._data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data})"
        )


def shards(x: Array) -> list[Shard]:
    """The parts of a concrete array in this process, in the order of its devices.

    Raises:
        DeletedArrayError: after donation.
    """
    x = x.concrete()
    sharding = sharding_of(x)
    seen: dict[str, int] = {}
    result = []
    for number, (device, index) in enumerate(sharding.devices_indices_map(x.shape).items()):
        replica = seen[str(index)] = seen.get(str(index), -1) + 1
        if device.process_index != processes.index:
            continue
        result.append(Shard(device, index, replica, _maker(x, sharding, number, device)))
    return result


def _maker(x: Array, sharding: Sharding, number: int, device: Device) -> Callable[[], Array]:
    return lambda: part(x, sharding, number, device)


def part(x: Array, sharding: Sharding, number: int, device: Device) -> Array:
    """The part of an array that the device of a number has: a view where memory can be shared."""
    assert x.buffer is not None
    alone = SingleDeviceSharding(device)
    if memories.is_group(sharding):
        return memories.one_part(x, number, alone)
    partition = is_divided(sharding, x.ndim)
    if partition is None:
        return concrete(x.buffer, x.shape, x.dtype, x.weak_type, alone)
    stack = stack_of(x, run.device(platform_of(x)).memory)
    data = stack[_row(partition, sharding, number)]
    memory = run.device(memories.place(alone)).memory
    here = device.platform not in {*platforms.CONTROLLERS, *platforms.DRIVEN}
    aligned = here and data.nbytes and data.__array_interface__["data"][0] % ALIGNMENT == 0
    buffer = memory.adopt(data) if aligned else memory.copy(data)
    return concrete(buffer, data.shape, x.dtype, x.weak_type, alone)


def _row(partition: Partition, sharding: Sharding, number: int) -> tuple[int, ...]:
    """The place of the part of a device in the stack of the parts of its process."""
    place = np.unravel_index(number, [axis.size for axis in partition.mesh])
    own = own_blocks(sharding)
    at = {
        axis.name: int(i) - (own[axis.name].start if own else 0)
        for axis, i in zip(partition.mesh, place, strict=True)
    }
    return tuple([at[name] for name in partition.names])


# Construction from parts.


def _whole(
    shape: Shape, sharding: Sharding, dtype: Any, part_of: Callable[[Device, Index], Any]
) -> Array:
    """An array of the part of each device of this process; equal parts are asked for once."""
    devices.check_exist(sharding)
    local, partition = sharding.shard_shape(shape), is_divided(sharding, len(shape))
    group = memories.is_group(sharding)
    stack: np.ndarray[Any, Any] | None = None
    seen: set[str] = set()
    given: dict[str, Any] = {}
    kind = None if dtype is None else dtypes.canonical(dtype)
    for number, (device, index) in enumerate(sharding.devices_indices_map(shape).items()):
        if str(index) in seen or device.process_index != processes.index:
            continue
        seen.add(str(index))
        data = part_of(device, index)
        data = data if group and isinstance(data, Array) else np.asarray(data)
        if data.shape != local:
            raise ShapeError(
                f"the part of {device} has the wrong shape",
                got=f"shape {data.shape} at index {index}",
                hint=f"each part of an array of shape {shape} has shape {local} in {sharding}",
            )
        kind = kind or dtypes.canonical(data.dtype)
        if group:
            given[str(index)] = data if data.dtype == kind else np.asarray(data).astype(kind)
            continue
        if stack is None:
            own, size = own_part(sharding, shape)
            stack = np.empty(size if own is None else stacked_shape(own, size), kind)
        stack[_row(partition, sharding, number) if partition else ()] = data
    if group and kind is not None:
        whole, _ = memories.made(sharding, shape, lambda _, device, index: given[str(index)])
        return concrete(whole, shape, kind, False, sharding)
    if stack is None or kind is None:
        raise DeviceError(
            "this process has no device of the array",
            got=f"process {processes.index}, {sharding}",
            hint="processes with devices of an array make it, all together",
        )
    memory = run.device(memories.place(sharding)).memory
    return concrete(memory.copy(stack), shape, kind, False, sharding)


def make_array_from_callback(
    shape: Sequence[int],
    sharding: Sharding,
    data_callback: Callable[[Index], Any],
    dtype: Any = None,
) -> Array:
    """An array whose parts a function computes.

    Args:
        shape: of the whole array.
        sharding: its division.
        data_callback: gives the part at an index, a tuple of slices; equal parts once.
        dtype: of the result; that of the parts if left out.

    Raises:
        ShapeError: if a size does not divide, or a part has the wrong shape.

    Example:
        >>> from tfn.trace.mesh import Mesh
        >>> sharding = NamedSharding(Mesh(devices.devices()[:1], ("x",)), P("x"))
        >>> make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index]).tolist()
        [0, 1, 2, 3]
    """
    return _whole(tuple(shape), sharding, dtype, lambda _, index: data_callback(index))


def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array of parts that are on its devices.

    Args:
        shape: of the whole array.
        sharding: its division.
        arrays: the part of each device, on this device, in any order.
        dtype: of the result; that of the parts if left out.

    Raises:
        DeviceError: if a device has no part.
        ShapeError: if a size does not divide, or a part has the wrong shape.
    """
    by_device = {sharding_of(x).devices[0]: x for x in arrays}
    own = [d for d in sharding.devices if d.process_index == processes.index]
    missing = [device for device in own if device not in by_device]
    if missing:
        raise DeviceError(
            f"there is no array on {missing[0]}",
            got=f"arrays on {', '.join(map(str, by_device))}",
            hint=f"{sharding} needs one on each of its {len(own)} devices of this process",
        )
    return _whole(tuple(shape), sharding, dtype, lambda device, _: by_device[device])


def make_array_from_process_local_data(
    sharding: Sharding, local_data: Any, global_shape: Sequence[int] | None = None
) -> Array:
    """An array of the data that each process has.

    Args:
        sharding: its division.
        local_data: the data of the devices of this process, put together in the order of the
            array.  Along an axis of which each process has the whole, the whole is allowed too.
        global_shape: of the whole array; if left out, each process has its own part of every axis
            that is divided among processes.

    Raises:
        ShapeError: if the data fit no array that is divided in this way.

    Example:
        >>> from tfn.trace.mesh import Mesh
        >>> sharding = NamedSharding(Mesh(devices.devices()[:1], ("x",)), P("x"))
        >>> make_array_from_process_local_data(sharding, np.ones(4)).shape
        (4,)
    """
    data = np.asarray(local_data)
    partition, hosts = is_divided(sharding, data.ndim), hosts_of(sharding)
    counts = dict(zip(sharding.mesh.axis_names, hosts.sizes)) if hosts else {}  # type: ignore[union-attr]
    spec = partition.spec if partition else ((),) * data.ndim
    parts = [prod([counts.get(name, 1) for name in names]) for names in spec]
    shape = tuple(global_shape or [n * h for n, h in zip(data.shape, parts, strict=True)])
    if len(shape) != data.ndim or any(
        own not in (n, n // h) for own, n, h in zip(data.shape, shape, parts, strict=True)
    ):
        raise ShapeError(
            "the data of this process do not fit into the array",
            got=f"data of shape {data.shape}, global_shape={shape}, "
            f"divided into {tuple(parts)} among processes",
            hint="along an axis that is divided among processes each has its part, or the whole",
        )
    kind = dtypes.canonical(data.dtype)
    if memories.is_group(sharding):
        return from_numpy(data.astype(kind, copy=False), sharding)
    rows = sharding.addressable_devices_indices_map(shape)
    for axis, (own, n, h) in enumerate(zip(data.shape, shape, parts, strict=True)):
        if h > 1 and own == n:
            begins = sorted({index[axis].start for index in rows.values()})
            size = sharding.shard_shape(shape)[axis]
            data = np.concatenate([data.take(range(b, b + size), axis) for b in begins], axis)
    local, whole = own_part(sharding, shape)
    if local is not None:
        split, order = stacking(local, whole)
        data = data.reshape(split).transpose(order)
    memory = run.device(memories.place(sharding)).memory
    return concrete(memory.copy(data.astype(kind, copy=False)), shape, kind, False, sharding)


def place_of(what: str, place: Any) -> Sharding:
    """A sharding from itself, a device or its name, or a spec of the mesh that is set.

    An abstract mesh stands for the one that is set, if that has its axes, or for the one that was
    used last for these axes.

    Raises:
        DeviceError: for the name of no device.
        ArgumentError: for anything else, and for a spec without a mesh.
    """
    if isinstance(place, str):
        place = devices.as_device(place)
    sharding = as_sharding(what, place)
    assert sharding is not None
    if isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
        mesh = mesh_in_use()
        if mesh.abstract_mesh != sharding.mesh:
            last = mesh_of(sharding.mesh.axes, devices.default_backend())
            mesh = Mesh(last.devices, last.axis_names, sharding.mesh.axis_types)
        return NamedSharding(mesh, sharding.spec)
    return sharding


def put_value(value: Any, sharding: Sharding) -> Array:
    """An array or a number on the devices of a sharding.

    Raises:
        OutOfMemoryError: if it does not fit into the memory of a single device.
    """
    if config.memory_limit_bytes and isinstance(sharding, SingleDeviceSharding):
        is_data = isinstance(value, np.ndarray) or (isinstance(value, Array) and not value.owner)
        device_memory.check_share(sharding.device, value.nbytes if is_data else 0)
    if not isinstance(value, Array):
        if isinstance(value, np.ndarray):
            devices.check_exist(sharding)
            sharding.checked(value.shape)
            return from_numpy(value.astype(dtypes.canonical(value.dtype), copy=False), sharding)
        value = run.asarray(value)
    if value.owner is None:
        return put(value, sharding)
    return constrained(value, sharding)


def constrain_value(value: Any, sharding: Sharding) -> Array:
    """An array under a sharding of which sizes need not divide.

    A traced value has padding within the program; one that is not traced is divided as far as it
    can be without.
    """
    value = value if isinstance(value, Array) else run.asarray(value)
    if isinstance(sharding, NamedSharding):
        layout.check_asserted(value, sharding)
    if value.owner is not None:
        return constrained(value, sharding, padded=True)
    if isinstance(sharding, NamedSharding):
        sharding = sharding.fitting(value.shape)
    return put(value, sharding)


def constrained(x: Array, sharding: Sharding, padded: bool = False) -> Array:
    """A traced value under a sharding; one device says nothing about a traced value."""
    if isinstance(sharding, SingleDeviceSharding):
        return x
    target = sharding.constraint(x.shape, padded)
    result: Array = bind.bind(Op.CONSTRAIN, x, arg=target, weak=x.weak_type)
    return result


def fits(x: Array, sharding: Sharding) -> bool:
    """Whether an array is divided as a sharding says, or not committed to any devices."""
    assert x.kind is not None
    return x.kind.sharding is None or x.kind.sharding.is_equivalent_to(sharding, x.ndim)
