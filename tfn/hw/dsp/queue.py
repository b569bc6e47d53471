"""The queue of the DSP: loads programs, launches them, waits for signals, turns faults into errors.

A call is three records: copies of arrays that are not in shared memory, a launch, a signal.  Only
this file writes the ring.  A fault (the DSP dies, says something else, says nothing in time) ends
the monitor and is an error that names the kernel; arrays stay where they are, in shared memory, and
the next call starts the monitor again.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from copy import copy

from tfn.errors import DeviceError
from tfn.extend import Buffer, Learn, Program, no_entry, no_share
from tfn.hw.dsp import commands
from tfn.hw.dsp.callbacks import HostCalls
from tfn.hw.dsp.commands import (
    ANSWERED,
    BASE,
    COMMANDED,
    HOST_CALLED,
    LAST_SIGNAL,
    Command,
    Launch,
    Signal,
)
from tfn.hw.dsp.linker import link
from tfn.hw.dsp.memory import Block, CodeSpace, SharedMemory, SharedPool
from tfn.hw.dsp.transport import Transport

DEADLINE_SECONDS = 60.0
"""For a call, beside its estimated time: a DSP that says nothing for longer has hung."""
SLOWNESS = 10_000.0
"""The emulator's time for a program, over the estimate for a core of this machine, at the most.
A quantized convolutional network took 1,500 times its estimate."""
RETIRED_BYTES = 32 << 20
"""Code that is no longer used, for which the monitor is started anew so that its place is free."""


class DspExecutable:
    """A program at its place in shared memory.

    Attributes:
        image: its code, linked for the address where the DSP has mapped the place.
    """

    def __init__(
        self, queue: DspQueue, program: Program, files: Sequence[bytes], place: Block
    ) -> None:
        self._queue, self._files, self._place = queue, files, place
        self._name = program.name
        self._link()
        self._arena_bytes = program.arena_bytes
        self._outputs = len(program.outputs)
        self._kernels = [launch.kernel.name for launch in program.launches]
        self._calls = program.host_calls
        self._host = HostCalls(queue.shared, self._calls) if self._calls else None
        self._deadline_seconds = queue.deadline_seconds + program.work_ns * SLOWNESS / 1e9

    def _link(self) -> None:
        """Link the program for the address of its place, and put it there."""
        shared, begin = self._queue.shared, self._place.begin
        self.image = link(self._files, shared.base + begin)
        ctypes.memmove(shared.address + begin, self.image.data, len(self.image.data))

    def with_callbacks(self, functions: Sequence[object]) -> DspExecutable:
        """The same program with functions of the host in its slots."""
        other = copy(self)
        other._host = HostCalls(self._queue.shared, self._calls, functions)
        return other

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once, and return when it has finished.

        Raises:
            OutOfMemoryError: before anything runs.
            DeviceError: if the DSP fails; the message names the kernel.
            Exception: what a function of the host raised.
        """
        queue = self._queue
        with queue.lock:
            queue.start()
            if self.image.address != queue.shared.base + self._place.begin:
                self._link()  # the DSP was started anew, and has mapped memory elsewhere
            self._run(inputs, outputs)

    def _run(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        queue = self._queue
        arena = queue.pool.allocate(self._arena_bytes)
        foreign: dict[int, tuple[Buffer, Buffer]] = {}
        buffers = [queue.resident(buffer, foreign) for buffer in (*inputs, *outputs)]
        on_device = queue.shared.on_device
        launch = Launch(
            self.image.symbols[self._name],
            on_device(arena.address),
            tuple(on_device(buffer.address) for buffer in buffers),
        )
        try:
            queue.run([launch], self._deadline_seconds, self._host)
        except DeviceError as error:
            what = f"{error.what}, {self._where(queue.progress)}"
            raise DeviceError(what, got=error.got, hint=error.hint, where=error.where) from error
        for buffer in outputs:
            if id(buffer) in foreign:
                original, copied = foreign[id(buffer)]
                ctypes.memmove(original.address, copied.address, original.size_bytes)
        if self._host is not None and self._host.error is not None:
            raised, self._host.error = self._host.error, None
            raise raised

    def _where(self, number: int) -> str:
        if not self._kernels:
            return "no kernel ran"
        number = min(number, len(self._kernels) - 1)
        return f"in kernel {number + 1} of {len(self._kernels)}, {self._kernels[number]}"

    entry, on_share = no_entry, no_share


class DspQueue:
    """Runs programs one after the other.

    Attributes:
        deadline_seconds: for a call, beside its estimated time.
        lock: held from the start of the DSP to the end of a call.
        progress: the number of the launch that ran last.
    """

    def __init__(
        self, shared: SharedMemory, pool: SharedPool, transport: Transport, library: bytes
    ) -> None:
        self.shared, self.pool, self.transport = shared, pool, transport
        self.deadline_seconds = DEADLINE_SECONDS
        self._library, self._code = library, CodeSpace()
        self.lock = threading.RLock()
        self._signal = 0
        self._words = shared.words

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> DspExecutable:
        """The program, linked with its kernels, at its place.

        Raises:
            CompileError: if a symbol is missing.
            OutOfMemoryError: if there is no place for its code.
            DeviceError: in a process that was forked after the device was opened.
        """
        self.shared.check_process()
        files = [objects[program.name], *(objects[k.name] for k in program.kernels), self._library]
        # Its size does not depend on its address.
        size_bytes = len(link(files, BASE).data)
        return DspExecutable(self, program, files, self._code.allocate(size_bytes))

    def resident(self, buffer: Buffer, foreign: dict[int, tuple[Buffer, Buffer]]) -> Buffer:
        """A buffer in shared memory: itself, or a copy of one of another device."""
        if self.shared.holds(buffer.address, buffer.size_bytes):
            return buffer
        if id(buffer) not in foreign:
            copied = self.pool.allocate(buffer.size_bytes)
            ctypes.memmove(copied.address, buffer.address, buffer.size_bytes)
            foreign[id(buffer)] = buffer, copied
        return foreign[id(buffer)][1]

    @property
    def progress(self) -> int:
        """The number of the launch that runs, or ran last."""
        return self._words[commands.PROGRESS_AT // 4]

    def start(self) -> None:
        """Start the DSP if it does not run, or anew if much of its code is no longer used.

        Raises:
            DeviceError: if it does not start; in a process that was forked.
        """
        self.shared.check_process()
        if self.transport.is_running and self._code.retired_bytes > RETIRED_BYTES:
            self.transport.stop()
        if not self.transport.is_running:
            self._words[commands.HEAD_AT // 4] = self._words[commands.TAIL_AT // 4] = 0
            self._code.reuse()
            self.transport.start()

    def run(
        self,
        batch: Sequence[Command],
        deadline_seconds: float | None = None,
        host: HostCalls | None = None,
    ) -> None:
        """Write commands with a signal after them, and wait for it.

        Raises:
            DeviceError: if the DSP dies, answers something else, or does not answer in time.
        """
        with self.lock:
            self.start()
            self._signal = self._signal % LAST_SIGNAL + 1
            self._words[commands.PROGRESS_AT // 4] = 0
            self._write([*batch, Signal(self._signal)])
            try:
                self.transport.ring(COMMANDED)
                self._wait(self._signal, deadline_seconds or self.deadline_seconds, host)
            except BaseException:  # an interrupt leaves a program running, too
                self.transport.stop()
                raise

    def _write(self, batch: Sequence[Command]) -> None:
        """Write records at the head of the ring, then the new head."""
        head = self._words[commands.HEAD_AT // 4]
        for at, record in commands.records(batch, head):
            begin = commands.RING_AT // 4 + at
            for i, word in enumerate(record):
                self._words[begin + i] = word
            # The rest of a record that is skipped has no words, but a length.
            head += record[1]
        self._words[commands.HEAD_AT // 4] = head & 0xFFFF_FFFF

    def _wait(self, signal: int, deadline_seconds: float, host: HostCalls | None) -> None:
        while True:
            began = time.monotonic()
            word = self.transport.answer(deadline_seconds)
            if word == signal and self._words[commands.SIGNAL_AT // 4] == signal:
                return
            if word == HOST_CALLED and host is not None:
                number = self._words[commands.HOST_NUMBER_AT // 4]
                number -= (number >> 31) << 32
                host.run(number, self._words[commands.HOST_OPERANDS_AT // 4])
                self.transport.ring(ANSWERED)
                continue
            if word is None:
                raise DeviceError(
                    "the DSP does not answer",
                    got=f"nothing in {time.monotonic() - began:.0f} seconds",
                    hint="arrays are not lost, and the next call starts it again",
                )
            raise DeviceError(
                "the DSP answers with a word that is no signal",
                got=f"{word:#x} instead of {signal:#x}",
                hint="arrays are not lost, and the next call starts it again",
            )

    def synchronize(self) -> None:
        """Nothing: every call has finished when it returns."""
