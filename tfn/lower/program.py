"""Executable program: kernels, launches, control flow, and memory, as data for a device.

A Kernel is the code between two GBARRIERs.  A Program is the whole computation: launches of kernels
in order with the barriers between them, the addresses of their operands, and the text of one driver
function that runs it all::

    Program
      Launch k1 (arena 0, input 0)
      Loop 100 trips:  Launch k2 (arena 0, arena 256)
      Branch input 1:  [Launch k3 ...] | [Call routine ...]

Lowering makes it and devices run it; neither knows the other.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, Protocol

from tfn._support.frozen import frozen
from tfn._support.members import plain
from tfn.dtypes import DType
from tfn.trace.argument import Host
from tfn.trace.build import count
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp


@plain
class Space(enum.Enum):
    """The memory that holds an operand of a launch."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"


@frozen
class Slot:
    """The address of an operand of a launch.

    Attributes:
        at: the index of an input or output, or a position in the arena in bytes.
        offset: bytes from there, for a slice of an array.
        strides: the numbers of loops that move it, and the bytes by which each iteration does.
        size_bytes: of all that was allocated there; 0 for an input.
        is_inner: whether no step outside of the outermost loop of one thread needs the value.
    """

    space: Space
    at: int
    offset: int = 0
    strides: tuple[tuple[int, int], ...] = ()
    size_bytes: int = 0
    is_inner: bool = False


class OptOp(Protocol):
    """A loop transformation, as a record; see `lower.loops.opt_ops`."""

    def apply(self, nest: Any, /) -> Any:
        """The transformed nest."""


@frozen
class Accesses:
    """The operands that a kernel writes and reads, with a number for each index expression.

    Attributes:
        stores: operand and index of each store, in order; None if some add to what is there.
        loads: operand and index of each load, and the first store that needs it: the number of
            stores for a load in a fold, which no store may precede.
    """

    stores: tuple[tuple[int, int], ...] | None
    loads: tuple[tuple[int, int, int], ...]


@frozen
class Kernel:
    """A kernel: the code between two GBARRIERs, as text.

    Its text defines ``void NAME(i64 begin, i64 end, ptr operands)``: it runs iterations begin to
    end - 1 of its parallel range, on the buffers whose pointers `operands` holds.

    Attributes:
        name: symbol of the function: a digest of its text.
        body: the SINK over ranges after the opt-ops; that before them if the kernel comes from the
            disk, and None if the whole program does: see `pipeline.with_bodies`.
        opts: the opt-ops that were applied, in order.
        tiles: size of the parallel range, 1 if there is none.
        text: LLVM IR, or C, as the program.
        work_ns: estimated nanoseconds on one core.
        source: the body before the opt-ops, from which the kernel can be lowered again.
        threads: of a group, on a grid: `tiles` are its groups.
        local_bytes: of memory that the threads of a group share.
        accesses: those of a kernel without a body.
    """

    name: str
    body: UOp | None
    opts: tuple[OptOp, ...]
    tiles: int
    text: str
    work_ns: int
    source: UOp | None = None
    threads: int = 1
    local_bytes: int = 0
    accesses: Accesses | None = None

    @property
    def is_copy(self) -> bool:
        """Whether it copies one buffer to another of the same size, and does no more."""
        assert self.body is not None, "a program that was lowered here"
        return is_copy(self.body)


def is_copy(body: UOp) -> bool:
    """Whether a kernel over ranges copies one buffer to another of the same size, and no more."""
    stores = body.src if body.op is Op.SINK else ()
    if len(stores) != 1 or stores[0].op is not Op.STORE or len(stores[0].src) > 3:
        return False
    target, index, value = stores[0].src
    at_same_index = value.op is Op.LOAD and value.src[1:] == (index,)
    return at_same_index and target.arg.shape == value.src[0].arg.shape


class CachedKernel(NamedTuple):
    """A kernel as the disk cache stores it: without its body, its opt-ops as plain rows."""

    name: str
    opts: tuple[tuple[str | int, ...], ...]
    tiles: int
    text: str
    work_ns: int


@frozen
class Launch:
    """A kernel run on operands.

    Attributes:
        barrier: whether all threads wait before it for the steps before it.
        serial: whether the calling thread runs all of it, and every other serial step.
    """

    kernel: Kernel
    operands: tuple[Slot, ...]
    barrier: bool
    serial: bool = False


@frozen
class Loop:
    """Steps repeated.

    Threads meet after each iteration, or between the head and the test if there is a condition;
    not if all steps are serial.

    Attributes:
        number: the loop's number in the strides of slots.
        trips: the trip count, or None: while `condition` holds.
        head: steps that compute the condition, before each iteration.
        condition: a byte; the loop ends when it is zero.
        barrier: whether all threads wait before it for the steps before it.
    """

    number: int
    trips: int | None
    head: tuple[Step, ...]
    condition: Slot | None
    body: tuple[Step, ...]
    barrier: bool


@frozen
class Branch:
    """One of several lists of steps, by an int32 index that is clamped; a barrier comes after."""

    index: Slot
    branches: tuple[tuple[Step, ...], ...]
    barrier: bool


class HostPart(enum.Enum):
    """The part of a call of the host that a step does."""

    WHOLE = "whole"  # all of it
    BEGIN = "begin"  # it may return before the results are written
    END = "end"  # it waits for the results of the last BEGIN at the same addresses


@frozen
class HostCall:
    """A function of the host, called by one thread on the program's memory; a barrier comes after.

    Attributes:
        host: the function.
        operands: its results, then its arguments.
        types: shape and dtype of each.
        barrier: whether all threads wait before it for the steps before it.
        part: all of it, its beginning or its end.
    """

    host: Host
    operands: tuple[Slot, ...]
    types: tuple[tuple[Shape, DType], ...]
    barrier: bool
    part: HostPart = HostPart.WHOLE


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """A subroutine: the steps of a function that is called, scheduled once.

    Attributes:
        steps: their slots are in its own inputs, outputs and arena.
        inputs: the number of its inputs; outputs are numbered after them.
        arena_bytes: size of the arena that each call gets.
        work_ns: estimated nanoseconds on one core.
        kernel_times_ns: the same for each kernel, by name.
    """

    steps: tuple[Step, ...]
    inputs: int
    arena_bytes: int
    work_ns: int
    kernel_times_ns: Counter[str]


@frozen
class Call:
    """A routine run on inputs and outputs; a barrier comes after.

    Attributes:
        routine: the steps to run.
        operands: its inputs, then its outputs.
        arena: the part of the caller's arena that is the routine's.
        barrier: whether all threads wait before it for the steps before it.
    """

    routine: Routine
    operands: tuple[Slot, ...]
    arena: Slot
    barrier: bool


ESTIMATED_LOOP_TRIPS = 100
"""Iterations that estimates assume of a loop whose trip count is unknown.

Large enough that its kernels count as the hot ones of a program, which are compiled with care.
"""

MIN_SHARED_NS = 10_000
"""Nanoseconds in what threads share of a program, below which it stays on one thread: waking
another costs about that."""

BARRIER_NS = 500
"""Nanoseconds that two threads take to wait for each other.

The gradient of 50 steps, each of some forty kernels on matrices of 2 by 2, has 1,851 barriers: it
takes 34 us on one thread, and took 1,077 on two."""

Step = Launch | Loop | Branch | HostCall | Call


def leaf_steps(steps: Iterable[Step]) -> Iterator[Launch | HostCall | Call]:
    """Launches and calls, in the order of the text, without the loops and branches around them.

    The steps of a routine come once, before its first call.
    """
    return _leaf_steps(steps, set())


def _leaf_steps(steps: Iterable[Step], seen: set[Routine]) -> Iterator[Launch | HostCall | Call]:
    for step in steps:
        if isinstance(step, Loop):
            yield from _leaf_steps((*step.head, *step.body), seen)
        elif isinstance(step, Branch):
            for branch in step.branches:
                yield from _leaf_steps(branch, seen)
        else:
            # The text of a routine is emitted once, however often it is called.
            if isinstance(step, Call) and step.routine not in seen:
                seen.add(step.routine)
                yield from _leaf_steps(step.routine.steps, seen)
            yield step


def is_serial(step: Step) -> bool:
    """Whether the calling thread runs all of a step, so that no thread waits in it."""
    if isinstance(step, Launch):
        return step.serial
    if isinstance(step, Loop):
        return all(map(is_serial, (*step.head, *step.body)))
    if isinstance(step, Branch):
        return all(is_serial(inner) for way in step.branches for inner in way)
    return isinstance(step, Call) and all(map(is_serial, step.routine.steps))


def all_launches(steps: Iterable[Step]) -> Iterator[Launch]:
    """All launches, those in loops, branches and routines included, in the order of the text."""
    return (step for step in leaf_steps(steps) if isinstance(step, Launch))


def launch_runs(steps: Iterable[Step], runs: int = 1) -> Iterator[tuple[Launch, int]]:
    """The launches in running order, and how often each runs: those of all branches.

    A loop without a trip count counts once, and a routine in each call.
    """
    for step in steps:
        if isinstance(step, Launch):
            yield step, runs
        elif isinstance(step, Loop):
            yield from launch_runs((*step.head, *step.body), runs * (step.trips or 1))
        elif isinstance(step, Branch):
            for way in step.branches:
                yield from launch_runs(way, runs)
        elif isinstance(step, Call):
            yield from launch_runs(step.routine.steps, runs)


def kernel_times_ns(steps: Iterable[Step]) -> Counter[str]:
    """Estimated nanoseconds in each kernel, by name, with the trip counts of loops."""
    times_ns: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, Launch):
            times_ns[step.kernel.name] += step.kernel.work_ns
        elif isinstance(step, Loop):
            for name, time_ns in kernel_times_ns((*step.head, *step.body)).items():
                times_ns[name] += time_ns * (step.trips or ESTIMATED_LOOP_TRIPS)
        elif isinstance(step, Branch):
            for branch in step.branches:
                times_ns += kernel_times_ns(branch)
        elif isinstance(step, Call):
            times_ns += step.routine.kernel_times_ns
    return times_ns


def launch_count(steps: Iterable[Step]) -> int:
    """Launches of one run, with the trip counts of loops; of a branch, those of its longest way."""
    launches = 0
    for step in steps:
        if isinstance(step, Launch):
            launches += 1
        elif isinstance(step, Loop):
            trips = step.trips or ESTIMATED_LOOP_TRIPS
            launches += launch_count((*step.head, *step.body)) * trips
        elif isinstance(step, Branch):
            launches += max(map(launch_count, step.branches))
        elif isinstance(step, Call):
            launches += launch_count(step.routine.steps)
    return launches


def shared_work(steps: Iterable[Step]) -> tuple[int, int]:
    """Estimated nanoseconds of one run in kernels that threads share; how often threads wait.

    With the trip counts of loops; of a branch, those of its longest way.
    """
    work_ns = barriers = 0
    for step in steps:
        of_step, trips, after = (0, 0), 1, int(not isinstance(step, Launch))
        if is_serial(step):
            after = 0
        elif isinstance(step, Launch):
            of_step = step.kernel.work_ns * (step.kernel.tiles > 1), 0
        elif isinstance(step, Loop):
            of_step = shared_work((*step.head, *step.body))
            trips = step.trips or ESTIMATED_LOOP_TRIPS
        elif isinstance(step, Branch):
            of_step = max(map(shared_work, step.branches))
        elif isinstance(step, Call):
            of_step = shared_work(step.routine.steps)
        work_ns += trips * of_step[0]
        barriers += trips * (of_step[1] + after) + step.barrier
    return work_ns, barriers


def is_worth_threads(steps: Iterable[Step]) -> bool:
    """Whether a second thread saves more than it costs: its start, and the waits at barriers."""
    work_ns, barriers = shared_work(steps)
    return work_ns > max(MIN_SHARED_NS, 2 * BARRIER_NS * barriers)


def host_calls(steps: Iterable[Step]) -> Iterator[HostCall]:
    """All calls of the host, in the order of the text."""
    return (step for step in leaf_steps(steps) if isinstance(step, HostCall))


def routines(steps: Iterable[Step]) -> list[Routine]:
    """All routines that steps call, callees before their callers."""
    return list(dict.fromkeys(step.routine for step in leaf_steps(steps) if isinstance(step, Call)))


class Footprint(NamedTuple):
    """The memory of one run of a program, known before it runs.

    Attributes:
        argument_bytes: size of the inputs, which exist already.
        output_bytes: size of the outputs that are written.
        alias_bytes: size of the outputs that share the memory of an input or of another output.
        temporary_bytes: size of the arena and of the words for barriers.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int

    @property
    def new_bytes(self) -> int:
        """The bytes that a run adds to the memory in use."""
        return self.output_bytes + self.temporary_bytes

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes in use at once, the arguments included."""
        return self.argument_bytes + self.new_bytes


@frozen
class Program:
    """A whole computation: one native function with loops and barriers.

    Its text defines ``void NAME(i64 thread, i64 threads, ptr buffers, ptr arena, ptr sync)``:
    every thread calls it with the same `buffers` (pointers of the inputs, then of the outputs),
    an arena of `arena_bytes`, and `sync_bytes` of zeroed memory for barriers and tile counters.

    Attributes:
        name: symbol of the function.
        function: the FUNCTION node it was lowered from.
        steps: launches of kernels, calls of the host and of routines in order, loops, branches.
        work_ns: estimated nanoseconds on one core.
        inputs, outputs: shape and dtype of each.
        aliases: outputs that are an input, or another output: they are not written.
        arena_bytes, sync_bytes: sizes of the arena, and of the words for barriers.
        text: the driver, which declares the functions of the kernels.
        parallel: whether it is worth waking more than one thread.
        tables: the function, without parameters, of inputs after the parameters, which the loader
            of the program computes; None if there are none.
        captured: the number of the last parameters that are the same arrays in every call.
        prelude: the program of the last inputs, which takes those parameters and the tables, and
            runs once for them; None if there is none.
    """

    name: str
    function: UOp
    steps: tuple[Step, ...]
    work_ns: int
    inputs: tuple[tuple[Shape, DType], ...]
    outputs: tuple[tuple[Shape, DType], ...]
    aliases: tuple[tuple[int, Slot], ...]
    arena_bytes: int
    sync_bytes: int
    text: str
    parallel: bool
    tables: UOp | None = None
    captured: int = 0
    prelude: Program | None = None

    @property
    def footprint(self) -> Footprint:
        """The memory of one run."""
        aliased = dict(self.aliases)
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in self.outputs]
        return Footprint(
            sum(prod(shape) * dtype.itemsize for shape, dtype in self.inputs),
            sum(size for i, size in enumerate(sizes) if i not in aliased),
            sum(size for i, size in enumerate(sizes) if i in aliased),
            self.arena_bytes + self.sync_bytes,
        )

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, those in loops and branches included, in the order of their text."""
        return tuple(all_launches(self.steps))

    @property
    def host_calls(self) -> tuple[HostCall, ...]:
        """All calls of the host; their positions are their numbers in the driver."""
        return tuple(host_calls(self.steps))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, in order of first use."""
        return tuple({launch.kernel.name: launch.kernel for launch in self.launches}.values())


LOG_OFFSET = 32
"""Byte of `sync` that holds the address of the log of kernel times, or zero; see
`codegen/render/timing.py`, which writes it."""

NUMBER_OFFSET = 40
"""Byte of `sync` that holds the number of the program in that log."""

LOG_ROWS = 1 << 15
"""Rows of the log that are kept, a power of two: 1.5 MB, of which pages that were never written
take nothing; 40 steps of 400 kernels on two threads."""

LOG_HEAD_BYTES = 64
"""Bytes before the first row: the number of rows that were ever reserved, in its cache line."""

LOG_ROW = ("number", "launch", "thread", "begin", "busy", "waiting", "count")
"""The words of a row of the log: number of the program, 0 while the row is empty; number of the
launch; number of the thread; counter at the begin of its first run; ticks in the kernel; ticks at
the barrier after it; how often it ran."""

LOG_ROW_BYTES = 8 * len(LOG_ROW)

MAX_TIMED_LAUNCHES = 1 << 12
"""Launches of a program beyond which its kernels are not timed; the log has as many rows more, so
that the rows of a call lie side by side."""

INLINE = " alwaysinline "
"""The attribute of kernels within a driver, whose text so is known to need LLVM's passes."""

SMALL_BYTES = 64
"""The size of values that a loop of one thread keeps in registers or on its stack."""

ALIGNMENT = 64
"""Bytes to which the arena and each value in it are aligned: a cache line, and a vector."""


def align_up(size_bytes: int) -> int:
    """Bytes rounded up to whole cache lines."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def aligned_size_bytes(node: UOp) -> int:
    """Bytes of a value, rounded up to whole cache lines."""
    return align_up(count(node.shape) * node.dtype.itemsize)
