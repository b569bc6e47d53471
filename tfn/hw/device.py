"""A Device is five parts, instantiated: name, target, compiler, memory, queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.hw.buffer import Buffer
from tfn.hw.compile.object_cache import Counts
from tfn.lower.program import INLINE, Kernel, Program, kernel_times_ns
from tfn.lower.target.target import Target
from tfn.trace.op import Shape

MIN_SHARE_TO_OPTIMIZE = 1 / 10_000
"""Kernels below this share of a program's estimated time are compiled at level 0: careful code
takes four times as long to make, and could save less than is measurable."""

MIN_CAREFUL_NS = 10_000
"""Estimated nanoseconds of a run from which a kernel is compiled with care in any program, and may
be while others are lowered: care takes about as long as 50 runs, 5 ms."""

Entry = Callable[..., Any]
"""A native function of the user's arguments as they are; it answers NotImplemented, and has done
nothing, if they do not fit.  See `Executable.entry`."""


class Compiler(Protocol):
    """Text to bytes, offline, for any target; `counts` says where objects came from."""

    counts: Counts

    def compile(self, text: str, target: Target, level: int = ...) -> bytes:
        """An object file from LLVM IR; level 0 is quick, 2 careful.  Raises CompileError."""

    def compile_all(self, texts: Sequence[str], target: Target, level: int = ...) -> list[bytes]:
        """For each text an object that holds it, and others perhaps.  Raises CompileError."""


class Memory(Protocol):
    """Allocates buffers, and moves data in and out."""

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory.  Raises OutOfMemoryError."""

    def check_room(self, size_bytes: int) -> None:
        """Raise OutOfMemoryError if `size_bytes` more would pass the limit."""

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array.  Raises OutOfMemoryError."""

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The memory of a NumPy array itself.  Raises ArgumentError if it cannot be shared."""

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """A read-only NumPy array of the contents.  Raises DeviceError if data cannot leave."""


@frozen
class EntryInput:
    """An array that an entry takes, recognised by the identity of what describes it.

    Attributes:
        kind: shape and dtype as one object.
        weak: whether its dtype is weak; None for either.
        donated: whether the array loses its buffer.
    """

    kind: Any
    weak: bool | None = None
    donated: bool = False


@frozen
class EntryOutput:
    """An array that an entry makes.

    Attributes:
        kind: shape and dtype as one object.
        weak: whether its dtype is weak.
        size_bytes: of its buffer, unless it shares one.
        alias: number of the buffer that it shares, inputs counted first, then outputs; -1 if none.
        in_place: number of the donated input whose buffer it takes, where no other array has that
            buffer; -1 if none.
    """

    kind: Any
    weak: bool
    size_bytes: int
    alias: int = -1
    in_place: int = -1


@frozen
class EntryForm:
    """The calls that an entry takes, and what they give.

    Attributes:
        inputs, outputs: a row for each input and output of the program.
        arguments: trees of the function's arguments, with numbers of inputs for arrays.
        result: the tree of its result, with numbers of outputs for arrays.
        captured: the arrays of the last inputs, which are no arguments.
        keep: an object that lives as long as the entry.
        number: of the program in the event log.
    """

    inputs: Sequence[EntryInput]
    outputs: Sequence[EntryOutput]
    arguments: Sequence[Any]
    result: Any
    captured: Sequence[Any] = ()
    keep: object = None
    number: int = 0


@frozen
class Operation:
    """An operation that Python has run, and how the same program runs others like it.

    Attributes:
        result: what it gave.
        entry: of the one program that made the result; None if there is none, or there are more.
        operands: of the program: ``left``, ``right``, or ``number`` for one that is a number.
        number: an array of no other user that takes the number; None if there is none.
    """

    result: Any
    entry: Entry | None = None
    operands: tuple[str, ...] = ()
    number: Any = None


Learn = Callable[[str, str, Any, Any], Operation]
"""Runs an operator: the name of its method, that of the reflected one, and the operands, arrays or
numbers, of which the right one is None where there is only one."""


class Executable(Protocol):
    """A program made ready to run on one device."""

    def __call__(self, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> None:
        """Run it once."""

    def with_callbacks(self, functions: Sequence[object]) -> Executable:
        """The same program with functions of the host in its slots."""

    def on_share(self, number: int) -> Executable:
        """The same program on the threads of one of the devices of this process, by number."""

    def entry(self, form: EntryForm) -> Entry | None:
        """A native function that runs the program; None if the device has none for these trees."""


def no_share(self: Executable, number: int) -> Executable:
    """Itself: the `on_share` of the executables of a device that runs on no threads of the host."""
    return self


def no_entry(self: Executable, form: EntryForm) -> None:
    """None: the `entry` of the executables of a device that has no native entries."""


class Queue(Protocol):
    """Runs programs."""

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Learn the class of the arrays that entries take and make; comes before the first.

        With `learn` the operators of the class may run natively what it has run once.
        """

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """Make a program ready; `objects` holds the compiled text by symbol name."""

    def synchronize(self) -> None:
        """Wait until all that was started has finished."""


class KernelTimer(Protocol):
    """Times kernels one by one; a context, which ends what it has started."""

    def __enter__(self) -> KernelTimer: ...

    def __exit__(self, *_: object) -> None: ...

    def measure(self, kernel: Kernel, buffers: Sequence[tuple[int, DType]]) -> float:
        """Nanoseconds of one launch on one core; inf if it fails.

        Args:
            kernel: compiled here, with all its tiles.
            buffers: number of elements and dtype of each operand.
        """


@frozen
class Device:
    """The five parts.

    Attributes:
        name: ``cpu``, ``python``, ``null``, ...
        target: what code is generated for.
        compiler: None for devices that run no code.
        kernel_timer: makes a timer, for `tfn.tune`; None where kernels cannot be timed.
        begin: begins to compile a text with care for a target, in the background; None where that
            does not pay.
        count: how many of its kind this process has, each with memory of its own.
        others: the device of these numbers: another one, or several as one.
    """

    name: str
    target: Target
    compiler: Compiler | None
    memory: Memory
    queue: Queue
    kernel_timer: Callable[[Target], KernelTimer] | None = None
    begin: Callable[[str, Target], None] | None = None
    count: int = 1
    others: Callable[[tuple[int, ...]], Device] | None = None

    def expect(self, kernel: Kernel) -> None:
        """Begin to compile a kernel of a program that is being lowered, if it is a long one."""
        if self.begin is not None and kernel.work_ns >= MIN_CAREFUL_NS:
            self.begin(kernel.text, self.target)

    def load(self, program: Program) -> Executable:
        """Compile the texts of a program and make it ready to run."""
        if self.compiler is None:
            return self.queue.load(program, {})
        times = kernel_times_ns(program.steps)
        least = min(times.total() * MIN_SHARE_TO_OPTIMIZE, MIN_CAREFUL_NS)
        driver = program.text  # a grid has none: its queue runs the steps
        # Small kernels of loops are within the driver, which is compiled like a kernel then.
        apart = [k for k in program.kernels if not driver or f"@{k.name}" in driver]
        objects: dict[str, bytes] = {}
        for level, careful in ((2, True), (0, False)):
            kernels = [k for k in apart if (times[k.name] >= least) is careful]
            compiled = self.compiler.compile_all([k.text for k in kernels], self.target, level)
            objects |= zip([k.name for k in kernels], compiled, strict=True)
        if driver:
            level = 2 if INLINE in driver else 0
            objects[program.name] = self.compiler.compile(driver, self.target, level)
        return self.queue.load(program, objects)
