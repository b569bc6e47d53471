"""CUDA driver: the device of this process, its context and streams, and its target."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache
from typing import Any

from tfn.errors import DeviceError
from tfn.extend import Target, frozen, processes
from tfn.hw.cuda.library import Library, library
from tfn.hw.cuda.target import of_capability

# fmt: off
ATTRIBUTES = {
    "group_threads": 1, "warp_threads": 10, "cores": 16, "l2_bytes": 38, "core_threads": 39,
    "major": 75, "minor": 76, "core_local_bytes": 81, "registers": 82, "local_bytes": 97,
}
"""Numbers of CUdevice_attribute."""
# fmt: on
NAME_BYTES, UUID_BYTES = 128, 16
NON_BLOCKING = 1  # a stream that does not wait for the default stream
NO_TIMING = 2  # an event that is cheaper, since it has no time


@frozen
class Driver:
    """A GPU with its context.

    Attributes:
        library: the functions of the driver.
        name: of the GPU.
        version: of the driver: 13000 is CUDA 13.0.
        total_bytes: of its memory.
        context: the primary one of the device, which other libraries of the process share.
        stream: runs programs, in order.
        copy_stream: runs copies to the device beside them.
        target: what code is generated for.
        number: of the GPU among those that the process sees.
        uuid: of the GPU among all.
    """

    library: Library
    name: str
    version: int
    total_bytes: int
    context: Any
    stream: Any
    copy_stream: Any
    target: Target
    number: int = 0
    uuid: bytes = b""

    def event(self, flags: int = NO_TIMING) -> Event:
        """A new event."""
        return Event(self.library, self.library.handle("cuEventCreate", flags))

    def enter(self) -> None:
        """Make the context that of this thread; it costs a tenth of a microsecond."""
        self.library("cuCtxSetCurrent", self.context)


class Event:
    """A point in a stream, which the host and other streams can wait for."""

    __slots__ = ("handle", "library")

    def __init__(self, library: Library, handle: Any) -> None:
        self.library, self.handle = library, handle

    def record(self, stream: Any) -> None:
        """Happen when all that was enqueued in the stream has run."""
        self.library("cuEventRecord", self.handle, stream)

    def wait(self) -> None:
        """Wait on the host."""
        self.library("cuEventSynchronize", self.handle)

    def hold(self, stream: Any) -> None:
        """Let a stream wait before what is enqueued in it next."""
        self.library("cuStreamWaitEvent", stream, self.handle, 0)

    def __del__(self) -> None:
        self.library.functions["cuEventDestroy"](self.handle)


def opened(cuda: Library, number: int = 0) -> Driver:
    """The driver of a device by its number.

    Raises:
        DeviceError: if there is no such device, or tfn makes no code for it.
    """
    count = cuda.integer("cuDeviceGetCount")
    if not 0 <= number < count:
        raise DeviceError(
            f"there is no GPU {number}",
            got=f"{count} devices of the CUDA driver",
            hint="CUDA_VISIBLE_DEVICES says which GPUs a process sees",
        )
    device = cuda.integer("cuDeviceGet", number)
    attributes = {
        name: cuda.integer("cuDeviceGetAttribute", row, device) for name, row in ATTRIBUTES.items()
    }
    target = target_of(attributes)
    text, total = ctypes.create_string_buffer(NAME_BYTES), ctypes.c_size_t()
    cuda("cuDeviceGetName", text, NAME_BYTES, device)
    cuda("cuDeviceTotalMem", ctypes.byref(total), device)
    context = cuda.handle("cuDevicePrimaryCtxRetain", device)
    cuda("cuCtxSetCurrent", context)
    stream, copy_stream = (cuda.handle("cuStreamCreate", NON_BLOCKING) for _ in range(2))
    version = cuda.integer("cuDriverGetVersion")
    name = text.value.decode()
    uuid = ctypes.create_string_buffer(UUID_BYTES)
    cuda("cuDeviceGetUuid", uuid, device)
    streams = stream, copy_stream
    return Driver(cuda, name, version, total.value, context, *streams, target, number, uuid.raw)


def target_of(attributes: dict[str, int]) -> Target:
    """A device as a target: the row of its chip, with the numbers that the driver says.

    Raises:
        DeviceError: if tfn makes no code for it.
    """
    row = of_capability(attributes["major"], attributes["minor"])
    assert row.grid is not None, "GPUs run groups of threads"
    said: dict[str, Any] = {
        name: attributes[name]
        for name in attributes.keys() - {"l2_bytes", "major", "minor", "core_local_bytes"}
    }
    l2_bytes = attributes["l2_bytes"] or row.l2_bytes
    return replace(row, l2_bytes=l2_bytes, l3_bytes=l2_bytes, grid=replace(row.grid, **said))


def available() -> str:
    """The reason why no GPU can be used here; empty if one can."""
    try:
        driver()
    except DeviceError as error:
        return str(error)
    return ""


def own_number(count: int) -> int:
    """The GPU of this process: the first; of several processes on a host each has one of its own.

    Args:
        count: of the GPUs that it sees; with one alone, that is the one.

    Raises:
        DeviceError: if there are fewer GPUs than processes.
    """
    number = processes.host_index if count > 1 else 0
    if number >= count > 1:
        raise DeviceError(
            "this process has no GPU of its own",
            got=f"process {number + 1} of its host, which has {count} GPUs",
            hint="start no more processes on a host than it has GPUs; or let CUDA_VISIBLE_DEVICES "
            "give each process one, which several may share",
        )
    return number


@cache
def driver() -> Driver:
    """The driver of the GPU of this process.

    Raises:
        DeviceError: if there is none.
    """
    cuda = library()
    return opened(cuda, own_number(cuda.integer("cuDeviceGetCount")))
