"""Devices that a driver has: memory without an address on the host, and runs that the host steps.

OpenCL and WebGPU are such devices.  Each says how its driver makes and copies memory, and how it
launches a kernel; what is common to them is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from tfn._support import events
from tfn._support.frozen import frozen
from tfn.config import config
from tfn.dtypes import DType
from tfn.errors import DeviceError
from tfn.hw.buffer import Buffer
from tfn.hw.commands import (
    Address,
    Choose,
    Command,
    Host,
    Launch,
    Repeat,
    call_host,
    choose,
    record,
    repeat,
)
from tfn.hw.device import no_entry, no_share
from tfn.hw.memory import check_device, device_full, foreign, unshared, without_address
from tfn.lower.program import Program
from tfn.trace.argument import filled
from tfn.trace.op import Shape


def driver_package(device: str, package: str, hint: str) -> Any:
    """The module of a driver.

    Raises:
        DeviceError: if it is not installed, or cannot be loaded.
    """
    try:
        return import_module(package)
    except (ImportError, OSError) as error:
        raise DeviceError(
            f"the device {device} needs the package {package}", got=str(error), hint=hint
        ) from None


def refusal(driver: Callable[[], object]) -> str:
    """The reason why a driver has no device that can be used here; empty if it has one."""
    try:
        driver()
    except DeviceError as error:
        return f"{error.what}: {error.got}"
    return ""


class Copies(Protocol):
    """Copies by a driver."""

    def create(self, size_bytes: int) -> Any:
        """Memory as the driver knows it, or one of the `errors` of `DriverMemory`."""

    def write(self, memory: Any, at: int, raw: np.ndarray[Any, Any]) -> None:
        """Copy bytes to the device."""

    def fetch(self, memory: Any, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        """Copy bytes to the host, and wait."""


class DriverBuffer:
    """Memory of a device.

    Attributes:
        memory: as the driver knows it.
        size_bytes: of the contents.
        exclusive: always true: no view of the memory exists on the host.
    """

    __slots__ = ("__weakref__", "exclusive", "memory", "pool", "size_bytes")

    def __init__(self, memory: Any, size_bytes: int, pool: DriverMemory) -> None:
        self.memory, self.size_bytes, self.pool = memory, size_bytes, pool
        self.exclusive = True
        pool.live_bytes += size_bytes

    def __del__(self) -> None:
        self.pool.live_bytes -= self.size_bytes

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise without_address(self.pool.limits.platform)


@frozen
class Limits:
    """The limits of a device.

    Attributes:
        platform: as `config.device` names it.
        name: of the device, in messages.
        total_bytes: of its memory, as far as that is known.
        buffer_bytes: of the largest buffer.
        errors: by which the driver says that there is no room.
    """

    platform: str
    name: str
    total_bytes: int
    buffer_bytes: int
    errors: tuple[type[Exception], ...]


class DriverMemory:
    """Memory of a device, by way of its driver.

    Attributes:
        live_bytes: of the buffers in use.
    """

    def __init__(self, limits: Limits, copies: Copies) -> None:
        self.limits, self.copies, self.live_bytes = limits, copies, 0

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.

        Raises:
            OutOfMemoryError: if the device has none, or `config.memory_limit_bytes` would be
                passed.
        """
        self.check_room(size_bytes)
        try:
            memory = self.copies.create(size_bytes)
        except self.limits.errors as error:
            total_bytes, name = self.limits.total_bytes, self.limits.name
            raise device_full(size_bytes, total_bytes, name, str(error)) from None
        return cast("Buffer", DriverBuffer(memory, size_bytes, self))

    def check_room(self, size_bytes: int) -> None:
        """Check the device and `config.memory_limit_bytes` before `size_bytes` more are allocated.

        Raises:
            OutOfMemoryError: if they would pass it, or no buffer can be that large.
        """
        limits = self.limits
        if size_bytes > limits.buffer_bytes:
            reason = "a kernel reads no larger buffer"
            raise device_full(size_bytes, limits.buffer_bytes, limits.name, reason)
        most = config.memory_limit_bytes
        check_device(size_bytes, self.live_bytes, limits.total_bytes, most, limits.name)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array in row-major order.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        buffer = self.allocate(x.nbytes)
        self.write(self.of(buffer), 0, np.ascontiguousarray(x))
        events.use("write", events.HOST, buffer)
        return buffer

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """Refuse: the device has memory of its own.

        Raises:
            ArgumentError: always.
        """
        raise unshared(f"the device {self.limits.platform} has memory of its own")

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only copy on the host; waits for the programs that write it.

        Raises:
            DeviceError: for a buffer of another device.
        """
        events.use("read", events.HOST, buffer)
        data = self.fetch(self.of(buffer), 0, shape, dtype)
        data.flags.writeable = False
        return data

    def of(self, buffer: object) -> Any:
        """The memory of a buffer of this device, as the driver knows it.

        Raises:
            DeviceError: for a buffer of another one.
        """
        platform = self.limits.platform
        if not isinstance(buffer, DriverBuffer) or buffer.pool.copies != self.copies:
            raise foreign(platform, buffer)
        return buffer.memory

    def write(self, memory: Any, at: int, x: np.ndarray[Any, Any]) -> None:
        """Copy contiguous elements to the device."""
        if x.nbytes:
            self.copies.write(memory, at, x.reshape(-1).view(np.uint8))

    def fetch(self, memory: Any, at: int, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy elements to the host, and wait."""
        size_bytes = prod(shape) * dtype.itemsize
        raw = self.copies.fetch(memory, at, size_bytes) if size_bytes else np.empty(0, np.uint8)
        return raw.view(dtype).reshape(shape)


Enqueue = Callable[["DriverRun", Launch], None]
Begin = Callable[[], tuple[Enqueue, Callable[[], None]]]
"""Begins a run: returns what enqueues a launch, and what hands all of these to the device."""


class DriverExecutable:
    """The commands of a program, for a device that the host steps."""

    def __init__(
        self,
        program: Program,
        memory: DriverMemory,
        lock: AbstractContextManager[Any],
        begin: Begin,
        functions: Sequence[Any] = (),
    ) -> None:
        self.program, self.memory, self.lock = program, memory, lock
        self.begin, self.functions = begin, functions
        self.commands = record(program)

    def with_callbacks(self, functions: Sequence[object]) -> DriverExecutable:
        """The same program with functions of the host in its slots."""
        return DriverExecutable(self.program, self.memory, self.lock, self.begin, functions)

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Enqueue it once.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device, or the driver refuses a command.
            Exception: what a function of the host raised.
        """
        arena = self.memory.allocate(self.program.arena_bytes)
        bases = [self.memory.of(buffer) for buffer in (*inputs, *outputs, arena)]
        with self.lock:
            run = DriverRun(self.memory, bases, self.functions, *self.begin())
            run.run(self.commands)
            run.submit()

    entry, on_share = no_entry, no_share


class DriverRun:
    """One run of a program, which the host steps.

    Attributes:
        bases: inputs, outputs and the arena, as the driver knows them.
        loops: the iteration of each open loop.
        enqueue: enqueues a launch.
        submit: hands what is enqueued to the device, before the host looks at memory.
    """

    def __init__(
        self,
        memory: DriverMemory,
        bases: Sequence[Any],
        functions: Sequence[Any],
        enqueue: Enqueue,
        submit: Callable[[], None],
    ) -> None:
        self.memory, self.bases, self.functions = memory, bases, functions
        self.enqueue, self.submit = enqueue, submit
        self.loops = dict[int, int]()

    def run(self, commands: Sequence[Command]) -> None:
        """Enqueue commands in order."""
        for command in commands:
            RUN[type(command)](self, command)

    def place(self, address: Address) -> tuple[Any, int]:
        """The buffer of an operand and the offset there, in the present iteration of loops."""
        moved = sum(self.loops[number] * step for number, step in address.strides)
        return self.bases[address.base], address.offset + moved

    def number(self, address: Address, dtype: DType) -> int:
        """A number that the commands so far have written."""
        return int(self.fetch(address, (), dtype))

    def fetch(self, address: Address, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """Copy an operand to the host, and wait."""
        self.submit()
        return self.memory.fetch(*self.place(address), shape, dtype)

    def write(self, address: Address, x: np.ndarray[Any, Any]) -> None:
        """Copy a value to an operand."""
        self.submit()
        self.memory.write(*self.place(address), x)

    def launch(self, command: Launch) -> None:
        """Enqueue a kernel."""
        self.enqueue(self, command)

    def host(self, command: Host) -> None:
        """Call a function of the host."""
        function = filled(command.call.host.run, self.functions)
        call_host(command, function, self.fetch, self.write)


RUN: dict[type, Callable[[DriverRun, Any], None]] = {
    Launch: DriverRun.launch,
    Repeat: repeat,
    Choose: choose,
    Host: DriverRun.host,
}
"""The function that enqueues each command."""
