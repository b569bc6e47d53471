"""The CPU queue: links programs with their kernels, and runs them on this machine's cores."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial

from tfn._support import events
from tfn._support.sections import cached_property
from tfn.hw.buffer import ALIGNMENT, Buffer
from tfn.hw.compile.llvm import LOCK, drop_pages
from tfn.hw.cpu import denormals, thread_pool
from tfn.hw.cpu.callbacks import HostEntry
from tfn.hw.cpu.dispatch import Dispatch
from tfn.hw.cpu.loader import Code, Loader
from tfn.hw.cpu.target import host
from tfn.hw.cpu.threads import Threads, of_process, share
from tfn.hw.device import Entry, EntryForm, Learn
from tfn.hw.memory import HostMemory
from tfn.lower.program import Launch, Program

UNLOCKED_MIN_NS = 5_000
"""Estimated time above which a program runs without the interpreter's lock.  Below it, other Python
threads wait; above it, each call pays for releasing and taking the lock."""
MIN_PATIENCE_NS = 2_000
"""Enough for workers that still spin after the job before."""
MAX_PATIENCE_NS = 100_000
"""A bound for long programs: workers that have not joined by then have no core of their own."""
MIN_KERNELS_TO_DROP_PAGES = 16
"""Kernels of a program after which LLVM's code is taken out of memory: those of models and steps of
training, which load few programs, and need memory."""

PATIENCE_SHARE = 1 / 8
"""The patience as a share of a program's estimated time: less than one more thread would save."""
_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p
)  # releases the interpreter's lock


def patience_ns(program: Program) -> int:
    """The time for which a caller waits for workers that spin, before it runs without them."""
    return min(max(int(program.work_ns * PATIENCE_SHARE), MIN_PATIENCE_NS), MAX_PATIENCE_NS)


class CpuExecutable:
    """A program linked with its kernels.

    A call packs the addresses of the buffers and enters `run` of `thread_pool.ll`; the words of the
    program that `run` reads are packed once, into `call`.

    Attributes:
        code: keeps the program loaded.
        call: the words of `thread_pool.CALL`.
        work_bytes: arena and sync together.
        unlocked: whether it runs without the interpreter's lock.
    """

    __slots__ = (
        "_calls",
        "_dispatch",
        "_host",
        "_known",
        "_memory",
        "_native",
        "_pack",
        "_pool",
        "_run",
        "_shares",
        "_times",
        "_words",
        "_work_ns",
        "call",
        "code",
        "unlocked",
        "work_bytes",
    )

    def __init__(
        self,
        program: Program,
        code: Code,
        native: Code,
        pool: Callable[[], int] | None,
        memory: HostMemory,
        dispatch: Dispatch | None,
        shares: Callable[[int], int] | None = None,
    ) -> None:
        arena_bytes = -(-program.arena_bytes // ALIGNMENT) * ALIGNMENT
        entry = code.addresses[program.name]
        self.code, self.work_bytes = code, arena_bytes + program.sync_bytes
        self._calls = program.host_calls
        # The name is that of the text: one program may serve several functions of the user.
        number, self._known = events.number_of(program.name, lambda: program)
        log = dispatch.kernels.switch_of(program) if dispatch else 0
        self._words = entry, arena_bytes, program.sync_bytes, patience_ns(program), log, number
        self._work_ns = program.work_ns
        self._times = (ctypes.c_int64 * (thread_pool.TIMES_BYTES // 8))()
        self._set_host(HostEntry(self._calls) if self._calls else None)
        # Loops may be endless, and callbacks take the lock: another thread must be able to run.
        blocks = any(not isinstance(step, Launch) for step in program.steps)
        self.unlocked = pool is not None or blocks or program.work_ns > UNLOCKED_MIN_NS
        self._pack = struct.Struct(f"{len(program.inputs) + len(program.outputs)}Q").pack
        self._native, self._run = native, _RUN(native.addresses["run"])
        self._pool, self._memory, self._dispatch = pool, memory, dispatch
        self._shares = shares

    def _set_host(self, host: HostEntry | None) -> None:
        self._host = host
        *words, log, number = self._words
        words += [host.address if host else 0, log, number]
        words += [ctypes.addressof(self._times), self._work_ns]
        self.call = struct.pack(f"{len(thread_pool.CALL)}Q", *words)

    def with_callbacks(self, functions: Sequence[object]) -> CpuExecutable:
        """The same program with functions of the host in its slots."""
        other = copy(self)
        other._set_host(HostEntry(self._calls, functions))
        return other

    def on_share(self, number: int) -> CpuExecutable:
        """The same program on the threads of one of the devices of this process."""
        if self._pool is None or self._shares is None:
            return self
        other = copy(self)
        other._pool = partial(self._shares, number)
        other._times = type(self._times)()
        other._set_host(self._host)
        return other

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once, and return when it has finished.

        Raises:
            OutOfMemoryError: before anything runs.
            Exception: what a function of the host raised.
        """
        work = self._memory.allocate(self.work_bytes)
        events.use("work", "", work)
        buffers = self._pack(*[b.address for b in inputs], *[b.address for b in outputs])
        self._run(self._pool() if self._pool else None, self.call, buffers, work.address)
        if self._host:
            self._host.check()

    def entry(self, form: EntryForm) -> Entry | None:
        """A builtin that runs the program; see `tfn.hw.device.Executable.entry`."""
        if self._dispatch is None:
            return None
        words = {
            "run": self._native.addresses["run"],
            "call": ctypes.c_void_p.from_buffer(ctypes.c_char_p(self.call)).value or 0,
            "pool": id(self._pool) if self._pool else 0,
            "work_bytes": self.work_bytes,
            "unlocked": self.unlocked,
            "number": form.number,
        }
        entry = self._dispatch.entry(words, self, form)
        return self._host.checked(entry) if self._host and entry else entry


class CpuQueue:
    """Runs programs synchronously: in the caller's thread, and on workers if they are parallel."""

    def __init__(
        self, loader: Loader, memory: HostMemory, dispatch: Dispatch | None = None
    ) -> None:
        self.loader, self.memory, self.dispatch = loader, memory, dispatch
        self._shares: dict[int, Threads] = {}

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """See `tfn.hw.device.Queue.serve`."""
        if self.dispatch:
            self.dispatch.serve(array, learn)

    @cached_property
    def runtime(self) -> Code:
        """The native part, compiled at first use, at level 0: it calls and waits, no more."""
        data = self.loader.compiler.compile(thread_pool.text(), host(), level=0)
        code = self.loader.load(data, ("run", "work", "stop", "float_mode"))
        denormals.follow(code)
        return code

    @cached_property
    def threads(self) -> Threads:
        """The workers."""
        return Threads(self.runtime)

    def load(self, program: Program, objects: Mapping[str, bytes]) -> CpuExecutable:
        """The program, linked with its kernels.

        Raises:
            CompileError: if a symbol is missing.
        """
        kernels = {k.name: objects[k.name] for k in program.kernels if k.name in objects}
        code = self.loader.load_with(program.name, objects[program.name], kernels)
        if len(kernels) >= MIN_KERNELS_TO_DROP_PAGES:
            drop_pages()
        with LOCK:  # which forks know already: a lock of its own would be one more for them
            native = self.runtime
            pool = self.threads.pool if program.parallel else None
        return CpuExecutable(
            program, code, native, pool, self.memory, self.dispatch, self._pool_of_share
        )

    def _pool_of_share(self, number: int) -> int:
        """The pool of the threads of one of the devices of this process; 0 for a single thread."""
        count = share(number)
        if count == 1:
            return 0
        if count == of_process():
            return self.threads.pool()
        with LOCK:
            threads = self._shares.setdefault(number, Threads(self.runtime, partial(share, number)))
        return threads.pool()

    def synchronize(self) -> None:
        """Programs have finished when their call returns."""
