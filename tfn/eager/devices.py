"""The devices of all processes, those of this one, and the default one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from tfn.config import config
from tfn.eager import memories, platforms, run
from tfn.errors import DeviceError
from tfn.trace.mesh import Device, Mesh, arranged
from tfn.trace.named_sharding import NamedSharding, SingleDeviceSharding
from tfn.trace.processes import processes


@lru_cache(maxsize=64)
def _of_platform(platform: str, count: int) -> tuple[Device, ...]:
    return tuple([Device(platform, i) for i in range(count)])


@lru_cache(maxsize=64)
def _of_processes(platform: str, rows: tuple[tuple[int, int], ...]) -> tuple[Device, ...]:
    return tuple([Device(platform, i, process) for i, (process, _) in enumerate(rows)])


def devices(backend: str | None = None) -> list[Device]:
    """All devices of a platform, those of other processes included.

    Args:
        backend: the platform: ``cpu``, ``cuda``, ``opencl``, ``python``, ...; None for the
            default one.

    Raises:
        DeviceError: if there is no such platform, or this machine has no device of it.

    Example:
        >>> devices()
        [cpu:0]
    """
    platform = backend or config.device
    if platform not in platforms.MAKERS:
        raise platforms.no_device(platform, f"devices({backend!r})")
    if platform in platforms.DRIVEN:
        check_alone(run.device(platform).count)
    if processes.device_counts is not None:
        return list(_of_processes(platform, processes.rows))
    own = run.device(platform).count if memories.separate(platform) else config.devices
    return list(_of_platform(platform, own))


def check_alone(count: int) -> None:
    """Check that no process of several is to divide a mesh among GPUs of its own.

    Args:
        count: of the devices with memories of their own that this process sees.

    Raises:
        DeviceError: if each process has several devices, and this one sees several GPUs.
    """
    if processes.count > 1 and config.devices > 1 and count > 1:
        raise DeviceError(
            "each of several processes uses one GPU",
            got=f"{config.devices} devices of each process, and {count} GPUs that this one sees",
            hint=f"start a process for each GPU, mpirun -n {count} on a host, without TFN_DEVICES; "
            "one process alone has all GPUs of its host as devices",
        )


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """The devices of a platform that belong to a process.

    Args:
        process_index: the number of the process; None for this one.
        backend: the platform; None for the default one.
        host_id: an older name of `process_index`.

    Raises:
        DeviceError: if there is no such process or platform.

    Example:
        >>> local_devices() == devices()
        True
    """
    number = host_id if process_index is None else process_index
    if number is None:
        number = processes.index
    if number not in range(processes.count):
        raise DeviceError(
            f"there is no process {number}",
            got=f"process_index={number}",
            hint=f"there are {processes.count}, numbered from 0"
            if processes.count > 1
            else "there is one process, 0",
        )
    return [device for device in devices(backend) if device.process_index == number]


def device_count(backend: str | None = None) -> int:
    """The number of devices of a platform.

    Example:
        >>> device_count() == len(devices())
        True
    """
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """The number of devices of a platform that belong to this process."""
    return len(local_devices(backend=backend))


def process_index(backend: str | None = None) -> int:
    """The number of this process among all that work together; 0 of one alone."""
    return processes.index


def process_count(backend: str | None = None) -> int:
    """The number of processes that work together: 1 before `tfn.distributed.initialize`."""
    return processes.count


def check_processes() -> None:
    """Ask whether all processes that work together live, where something can tell.

    Raises:
        WorkerLostError: naming one that has died.
    """
    if processes.check is not None:
        processes.check()


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of the processes that work together."""
    return list(range(processes.count))


def default_backend() -> str:
    """The platform of the default device.

    Example:
        >>> default_backend()
        'cpu'
    """
    return config.device


_CHOSEN: list[Device] = []
"""The devices of the blocks of `default_device` that run, the innermost last."""


def current_device() -> Device:
    """The device that arrays are made on."""
    if _CHOSEN and _CHOSEN[-1].platform == config.device:
        return _CHOSEN[-1]
    return local_devices()[0]


@contextmanager
def default_device(new_val: Device | str | None) -> Iterator[None]:
    """A block in which arrays are made, and uncommitted ones used, on another device.

    The setting holds for the whole process.

    Args:
        new_val: the device, or the name of a platform; None for that of the configuration.

    Raises:
        DeviceError: if there is no such device.

    Example:
        >>> import tfn.numpy as tnp
        >>> with default_device(devices("python")[0]):
        ...     tnp.ones(2).device
        python:0
    """
    if new_val is None:
        yield
        return
    chosen = as_device(new_val)
    if chosen.id and memories.separate(chosen.platform):
        raise DeviceError(
            "arrays are made on the first device of a platform with memories of their own",
            got=f"default_device({chosen})",
            hint="tfn.device_put(x, device) brings them to another; CUDA_VISIBLE_DEVICES says "
            "which GPU is the first",
        )
    before = config.device
    config.device = chosen.platform
    _CHOSEN.append(chosen)
    try:
        yield
    finally:
        _CHOSEN.pop()
        config.device = before


def as_device(device: object) -> Device:
    """A device of this process, from itself or from the name of a platform.

    Raises:
        DeviceError: if there is no such device.
    """
    if isinstance(device, str):
        platform, _, number = device.partition(":")
        if number.isdecimal() or not number:
            found = devices(platform)
            if not number:
                return local_devices(backend=platform)[0]
            if int(number) < len(found):
                return own(found[int(number)])
            return existing(Device(platform, int(number)))
    if isinstance(device, Device):
        return own(device)
    raise DeviceError(
        "this is not a device",
        got=repr(device)[:80],
        hint="tfn.devices() lists the devices of this process",
    )


def own(device: Device) -> Device:
    """The device itself, if this process has it.

    Raises:
        DeviceError: if it has not.
    """
    if existing(device).process_index != processes.index:
        raise DeviceError(
            f"{device} belongs to another process",
            got=f"a device of process {device.process_index}, in process {processes.index}",
            hint="tfn.local_devices() lists those of this process; a NamedSharding divides an "
            "array among the devices of all",
        )
    return device


def existing(device: Device) -> Device:
    """The device itself, if a process has it.

    Raises:
        DeviceError: if none has.
    """
    found = devices(device.platform)
    if device not in found:
        raise DeviceError(
            f"there is no device {device}",
            got=f"{len(found)} devices of {device.platform}",
            hint=f"TFN_DEVICES={device.id + 1} in the environment, or tfn.config.devices, gives a "
            "process so many",
        )
    return device


def check_exist(sharding: NamedSharding | SingleDeviceSharding) -> None:
    """Check that there are the devices of a sharding; a single one belongs to this process.

    Raises:
        DeviceError: for one that does not exist.
    """
    if isinstance(sharding, SingleDeviceSharding):
        own(sharding.device)
        return
    found = set(devices(sharding.devices[0].platform))
    for device in sharding.devices:
        if device not in found:
            existing(device)


def make_mesh(
    axis_shapes: object,
    axis_names: object,
    axis_types: object = None,
    *,
    devices: object = None,
) -> Mesh:
    """A mesh of the devices of this process, row by row.

    Args:
        axis_shapes: the size of each axis.
        axis_names: a name for each axis.
        axis_types: an `AxisType` for each axis; ``Explicit`` if left out, as in JAX.
        devices: the devices, all of them if left out; more than the mesh has places are allowed.

    Raises:
        DeviceError: if there are fewer devices than places.
        ArgumentError: if there is not one name for each axis.
        AxisError: for a name that occurs twice.

    Example:
        >>> make_mesh((1, 1), ("data", "model"))
        Mesh('data': 1, 'model': 1, axis_types=(Explicit, Explicit))
    """
    return arranged(axis_shapes, axis_names, axis_types, devices or _all_devices())


def _all_devices() -> list[Device]:
    return devices()
