"""GPUs of this process that run one program together: a mesh over memories of their own.

    Recorded   the graph of each GPU is launched
    Message    values go from GPU to GPU, in the streams of their programs: the host waits for none
    Host       the function is called for each GPU

A buffer of the group is one buffer of each GPU, in the order of the mesh.  Loops and branches with
messages in them are stepped through for all GPUs at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tfn.dtypes import BOOL, INT32, DType
from tfn.errors import DeviceError
from tfn.extend import Buffer, Learn, Message, Program, Shape, argument, memory, no_entry, no_share
from tfn.extend import commands as records
from tfn.hw.cuda.exchange import Carrier, Place
from tfn.hw.cuda.library import CudaError
from tfn.hw.cuda.memory import CudaMemory
from tfn.hw.cuda.queue import RUN, CudaExecutable, CudaQueue, Run
from tfn.trace.processes import Coordinates

_OWN_REFERENCES = 3
"""To a buffer that belongs to one `Parts` alone: the tuple, the name in a loop, an argument."""


class Parts:
    """A buffer of a group: one of each GPU.

    Attributes:
        parts: in the order of the mesh.
        size_bytes: of each.
    """

    __slots__ = ("parts", "size_bytes")

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts, self.size_bytes = tuple(parts), parts[0].size_bytes

    @property
    def exclusive(self) -> bool:
        """Whether no array of a single GPU shares one of them."""
        return all(
            part.exclusive and sys.getrefcount(part) <= _OWN_REFERENCES for part in self.parts
        )

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise memory.foreign("of one memory", self)


def parts_of(buffer: object, size: int) -> tuple[Any, ...]:
    """The buffers of a group of so many GPUs.

    Raises:
        DeviceError: for a buffer of another device.
    """
    if not isinstance(buffer, Parts) or len(buffer.parts) != size:
        raise memory.foreign("cuda, with several GPUs", buffer)
    return buffer.parts


class GroupMemory:
    """The memories of a group."""

    def __init__(self, members: Sequence[CudaMemory]) -> None:
        self.members = tuple(members)

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory of each GPU.

        Raises:
            OutOfMemoryError: if one has none.
        """
        return Parts([m.allocate(size_bytes) for m in self.members])  # type: ignore[return-value]

    def check_room(self, size_bytes: int) -> None:
        """Check each memory before `size_bytes` more are allocated in it.

        Raises:
            OutOfMemoryError: if they would pass a limit.
        """
        for member in self.members:
            member.check_room(size_bytes)

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The same elements in each memory.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        return Parts([m.copy(x) for m in self.members])  # type: ignore[return-value]

    def joined(self, parts: Sequence[Buffer]) -> Buffer:
        """The buffer of these parts, one of each GPU."""
        for member, part in zip(self.members, parts, strict=True):
            member.pointer(part)
        return Parts(parts)  # type: ignore[return-value]

    def brought(self, source: CudaMemory, buffer: Buffer) -> Buffer:
        """A copy of a buffer of one GPU in each memory; the memory itself where it is one."""
        parts = [m.brought(source, buffer) for m in self.members]
        return Parts(parts)  # type: ignore[return-value]

    def adopt(self, x: np.ndarray[Any, Any]) -> NoReturn:
        """Refuse: GPUs have memory of their own.

        Raises:
            ArgumentError: always.
        """
        raise memory.unshared("the device cuda has memory of its own")

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only copy of the contents that the first GPU has.

        Raises:
            DeviceError: for a buffer of another device, or if a program has failed.
        """
        return self.members[0].read(parts_of(buffer, len(self.members))[0], shape, dtype)


class GroupQueue:
    """Runs programs on all GPUs of a group.

    Attributes:
        carrier: exchanges their values.
    """

    def __init__(self, members: Sequence[CudaQueue], carrier: Carrier) -> None:
        self.members, self.carrier = tuple(members), carrier

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> GroupExecutable:
        """The program on each GPU, with its kernels.

        Raises:
            CompileError: as `CudaQueue.load`.
        """
        return GroupExecutable(self, [queue.load(program, objects) for queue in self.members])

    def synchronize(self) -> None:
        """Wait until all programs have run.

        Raises:
            DeviceError: if one of them has failed.
        """
        for queue in self.members:
            queue.synchronize()


class GroupExecutable:
    """A program of each GPU of a group.

    Attributes:
        members: it on each.
    """

    def __init__(self, queue: GroupQueue, members: Sequence[CudaExecutable]) -> None:
        self.queue, self.members = queue, tuple(members)

    def with_callbacks(self, functions: Sequence[object]) -> GroupExecutable:
        """The same program with functions of the host in its slots."""
        return GroupExecutable(self.queue, [m.with_callbacks(functions) for m in self.members])

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Enqueue it once on each GPU.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if a buffer is of another device, or a program before it has failed.
            Exception: what a function of the host raised.
        """
        size = len(self.members)
        given = [[parts_of(b, size) for b in buffers] for buffers in (inputs, outputs)]
        runs: list[Run] = []
        try:
            for i, member in enumerate(self.members):
                runs.append(member.begin(*[[parts[i] for parts in rows] for rows in given]))
            _Together(self.queue.carrier, runs).run(self.members[0].commands)
        except CudaError as error:
            first = self.members[0]
            raise first.queue.failed(error, first.program, "") from None

    entry, on_share = no_entry, no_share


class _Together:
    """A run of each GPU, command after command."""

    def __init__(self, carrier: Carrier, runs: Sequence[Run]) -> None:
        self.carrier, self.runs = carrier, runs
        self.loops: dict[int, int] = {}
        for run in runs:
            run.loops = self.loops

    def run(self, commands: Sequence[records.Command]) -> None:
        """Enqueue commands in order."""
        for command in commands:
            step = STEPS.get(type(command))
            if step is not None:
                step(self, command)
                continue
            for run in self.runs:
                run.driver.enter()
                RUN[type(command)](run, command)

    def number(self, address: records.Address, dtype: DType) -> int:
        """A number that all GPUs have.

        Raises:
            DeviceError: if they have not the same.
        """
        numbers = [run.number(address, dtype) for run in self.runs]
        if len(set(numbers)) > 1:
            what = "a loop" if dtype is BOOL else "a branch"
            raise DeviceError(
                f"the GPUs of a mesh disagree about {what} with exchanges in it",
                got=f"{numbers} on GPUs {[run.driver.number for run in self.runs]}",
                hint="its condition has to be the same on all devices, as that of psum is",
            )
        return numbers[0]

    def host(self, command: records.Host) -> None:
        """Exchange values, say where a GPU is in the mesh, or call a function for each."""
        call, callbacks = command.call, self.runs[0].executable.callbacks
        function = argument.filled(call.host.run, callbacks)
        results = len(call.host.results)
        if isinstance(function, Message):
            places = [
                Place(run.driver, [run.address(a) for a in command.operands]) for run in self.runs
            ]
            sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in call.types]
            self.carrier.exchange(function, places, results, sizes)
            return
        for i, run in enumerate(self.runs):
            run.driver.enter()
            if isinstance(function, Coordinates):
                place = function.hosts.place(i)
                for at, address in zip(place, command.operands, strict=True):
                    run.write(address, np.array(at, INT32))
            else:
                RUN[records.Host](run, command)


STEPS: dict[type, Callable[[_Together, Any], None]] = {
    records.Repeat: records.repeat,
    records.Choose: records.choose,
    records.Host: _Together.host,
}
"""The commands that run for all GPUs at once; all others run for each by itself."""
