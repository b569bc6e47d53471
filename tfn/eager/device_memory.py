"""Memory of each device: the arrays that are alive, and what their parts take where.

    x:f32[8,4] over P('x') on Mesh('x': 2)  ->  64 bytes on cpu:0, 64 bytes on cpu:1

Devices of one process share a pool.  The parts of an array belong to the devices that have them;
what else is in use, the working memory of programs that run, belongs to all in equal shares.
Arrays are found by the garbage collector of Python, so that nothing is counted while programs run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count
from math import prod

from tfn.array import Array
from tfn.config import config
from tfn.eager import devices, memories, run
from tfn.errors import DeviceError, OutOfMemoryError
from tfn.hw.memory import physical_bytes, size_class
from tfn.trace.mesh import Device


def live_arrays(platform: str | None = None) -> list[Array]:
    """The concrete arrays of this process that are alive, and have not been deleted.

    Args:
        platform: of the devices that have them; None for the default one.

    Raises:
        DeviceError: if there is no such platform.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.ones((2, 3))
        >>> any(y is x for y in live_arrays())
        True
    """
    wanted = devices.devices(platform)[0].platform
    return [x for x in _concrete() if _platform_of(x) == wanted]


def _concrete() -> Iterator[Array]:
    for x in gc.get_objects():
        if type(x) is Array and getattr(x, "buffer", None) is not None and x.kind is not None:
            yield x


def _platform_of(x: Array) -> str:
    sharding = x.kind.sharding if x.kind is not None else None
    return sharding.devices[0].platform if sharding else config.device


def live_buffers(device: Device) -> list[Array]:
    """The live arrays that have a part on a device."""
    return [x for x in live_arrays(device.platform) if device in _devices_of(x)]


def _devices_of(x: Array) -> tuple[Device, ...]:
    assert x.kind is not None
    return x.kind.sharding.devices if x.kind.sharding else (devices.current_device(),)


def _part_bytes(x: Array) -> int:
    """Bytes of the part of an array that one of its devices has."""
    assert x.kind is not None
    shape = x.kind.sharding.shard_shape(x.shape) if x.kind.sharding else x.shape
    return prod(shape) * x.dtype.itemsize


def _address(x: Array) -> int | None:
    """The address of an array on the host; None on a device with memory of its own."""
    assert x.buffer is not None
    try:
        return x.buffer.address
    except DeviceError:
        return None


def _owners(arrays: list[Array]) -> list[Array]:
    """Arrays without those whose memory is that of another one, or a part of it."""
    number = count()
    rows = []
    for x in arrays:
        at = _address(x)
        # A buffer without an address on the host is known by its identity alone.
        begin = id(x.buffer) << 64 if at is None else at
        size_bytes = 1 if at is None else max(x.buffer.size_bytes, 1)  # type: ignore[union-attr]
        rows.append((begin, -size_bytes, next(number), x))
    rows.sort(key=lambda row: row[:3])
    result, end = [], -1
    for begin, negative, _, x in rows:
        if begin - negative > end:
            result.append(x)
            end = begin - negative
    return result


def memory_stats(device: Device) -> dict[str, int]:
    """The memory of one device, under the names of JAX.

    ``bytes_in_use``: of the parts of arrays on the device, and its share of the working memory of
    programs that run; ``peak_bytes_in_use``: the largest share of the pool that it has had, if all
    devices have equal ones; ``bytes_limit``: its share of `config.memory_limit_bytes`, or of the
    memory of the machine; ``num_allocs``: blocks with parts of arrays; ``largest_alloc_size``: of
    them; ``pool_bytes``, ``peak_pool_bytes``: of the pool that all devices of the process share.

    Args:
        device: one of this process.

    Raises:
        DeviceError: if there is none.
    """
    devices.own(device)
    own_memory = memories.separate(device.platform)
    arrays = _owners(live_buffers(device) if own_memory else live_arrays(device.platform))
    own = [_part_bytes(x) for x in arrays if device in _devices_of(x)]
    memory = run.device(memories.place_of(device) if own_memory else device.platform).memory
    pool = getattr(memory, "pool", memory)
    held_bytes = sum([size_class(x.buffer.size_bytes) for x in arrays if x.buffer is not None])
    live_bytes = int(getattr(pool, "live_bytes", held_bytes))
    peak_bytes = max(int(getattr(pool, "peak_bytes", live_bytes)), live_bytes)
    sharers = 1 if own_memory else devices.local_device_count(device.platform)
    in_use = sum(own) + max(live_bytes - held_bytes, 0) // sharers
    return {
        "num_allocs": len(own),
        "bytes_in_use": in_use,
        "peak_bytes_in_use": max(peak_bytes // sharers, in_use),
        "largest_alloc_size": max(own, default=0),
        "bytes_limit": limit_bytes(device),
        "pool_bytes": live_bytes + int(getattr(pool, "free_bytes", 0)),
        "peak_pool_bytes": peak_bytes,
    }


def limit_bytes(device: Device) -> int:
    """The memory that a device may take: its share of the limit, or of the machine."""
    total = config.memory_limit_bytes or physical_bytes()
    shared = not memories.separate(device.platform)
    return total // (devices.local_device_count(device.platform) if shared else 1)


def check_share(device: Device, size_bytes: int) -> None:
    """Check the memory of one device before a program that is committed to it runs.

    A program over the devices of a mesh takes as much on each of them: the limit of the process
    says the same.

    Raises:
        OutOfMemoryError: if `size_bytes` more would pass its share of `config.memory_limit_bytes`.
    """
    limit, sharers = limit_bytes(device), devices.local_device_count(device.platform)
    if not config.memory_limit_bytes or sharers == 1:
        return
    in_use = sum([_part_bytes(x) for x in _owners(live_buffers(device))])
    if in_use + size_bytes > limit:
        raise OutOfMemoryError(
            f"{size_bytes:,} bytes do not fit on {device}: {in_use:,} of {limit:,} are in use",
            got=f"config.memory_limit_bytes={config.memory_limit_bytes}, which {sharers} devices "
            "share equally",
            hint="put arrays on other devices, delete some, or raise config.memory_limit_bytes",
        )
