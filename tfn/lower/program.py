"""The data that lowering hands to hardware: Kernel, Launch, Program.

A Kernel is one stage between GBARRIERs.  A Program is the whole computation: launches of kernels
in order with the barriers between them, the plan of its memory, and the text of one function that
runs it all.
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
    """Which memory an operand of a launch lives in."""

    INPUT = "input"
    OUTPUT = "output"
    ARENA = "arena"


@frozen
class Slot:
    """Where an operand of a launch is.

    Attributes:
        at: the index of an input or output, or a position in the arena in bytes.
        offset: bytes from there, for a slice of an array.
        steps: loops that move it, by their number, and how many bytes each iteration.
    """

    space: Space
    at: int
    offset: int = 0
    steps: tuple[tuple[int, int], ...] = ()


class OptOp(Protocol):
    """A loop transformation, as a record; see `lower.loops.opt_ops`."""

    def apply(self, nest: Any, /) -> Any:
        """The transformed nest."""


@frozen
class Kernel:
    """One stage between GBARRIERs, lowered.

    Its text defines ``void NAME(i64 begin, i64 end, ptr operands)``: it runs tiles begin to
    end - 1 of its outermost parallel range on the buffers whose pointers `operands` holds.

    Attributes:
        name: symbol of the function; the same for the same body, options and target.
        body: the SINK over ranges, after its splits; as `source` if another process made it.
        opts: the opt-ops that were applied, in order.
        tiles: size of the parallel range, 1 if there is none.
        text: LLVM IR, or C: what the program is written in.
        work: estimated nanoseconds on one core.
        source: the body before its splits, from which it can be made again.
    """

    name: str
    body: UOp
    opts: tuple[OptOp, ...]
    tiles: int
    text: str
    work: int
    source: UOp | None = None

    @property
    def copies(self) -> bool:
        """Whether all that it does is to copy one buffer to another of its size."""
        return copies(self.body)


def copies(body: UOp) -> bool:
    """Whether a kernel over ranges copies one buffer to another of its size, and does no more."""
    stores = body.src if body.op is Op.SINK else ()
    if len(stores) != 1 or stores[0].op is not Op.STORE or len(stores[0].src) > 3:
        return False
    to, at, value = stores[0].src
    plain = value.op is Op.LOAD and value.src[1:] == (at,)
    return plain and to.arg.shape == value.src[0].arg.shape


class Written(NamedTuple):
    """A kernel without its body, as it is kept for other processes; opt-ops are plain rows."""

    name: str
    opts: tuple[tuple[str | int, ...], ...]
    tiles: int
    text: str
    work: int


@frozen
class Launch:
    """A kernel run on operands.  `barrier`: what came before must be finished by all threads."""

    kernel: Kernel
    operands: tuple[Slot, ...]
    barrier: bool


@frozen
class Loop:
    """Steps repeated, with a barrier after each iteration.

    Attributes:
        number: what the slots that it moves call it.
        trips: how often, or None: while `condition` holds.
        head: steps that compute the condition, before each iteration.
        condition: a byte, not zero to go on.
        barrier: whether what came before must be finished by all threads.
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
    ways: tuple[tuple[Step, ...], ...]
    barrier: bool


@frozen
class HostCall:
    """A function of the host, called by one thread, on memory as it is; a barrier comes after.

    Attributes:
        host: the function.
        operands: its results, then what it reads.
        types: shape and dtype of each.
        barrier: whether what came before must be finished by all threads.
    """

    host: Host
    operands: tuple[Slot, ...]
    types: tuple[tuple[Shape, DType], ...]
    barrier: bool


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """The steps of a function that is called: scheduled once, like a program of its own.

    Attributes:
        steps: their slots are its own inputs, outputs and arena.
        inputs: how many inputs it has; the outputs come after them.
        arena_bytes: what it needs for the time of a call.
        work: estimated nanoseconds on one core.
        spent: how many of them in each kernel.
    """

    steps: tuple[Step, ...]
    inputs: int
    arena_bytes: int
    work: int
    spent: Counter[str]


@frozen
class Call:
    """A routine run on these inputs and outputs, in that part of the arena; a barrier comes after.

    `barrier`: what came before must be finished by all threads.
    """

    routine: Routine
    operands: tuple[Slot, ...]
    arena: Slot
    barrier: bool


ESTIMATED_LOOP_TRIPS = 100
"""Iterations for which a loop of kernels counts in estimated times, if their number is unknown."""

Step = Launch | Loop | Branch | HostCall | Call


def each(steps: Iterable[Step]) -> Iterator[Launch | HostCall | Call]:
    """All that is done, in the order of the text: without the loops and branches around it.

    The steps of a routine come once, before its first call.
    """
    return _each(steps, set())


def _each(steps: Iterable[Step], met: set[Routine]) -> Iterator[Launch | HostCall | Call]:
    for step in steps:
        if isinstance(step, Loop):
            yield from _each((*step.head, *step.body), met)
        elif isinstance(step, Branch):
            for way in step.ways:
                yield from _each(way, met)
        else:
            if isinstance(step, Call) and step.routine not in met:
                met.add(step.routine)
                yield from _each(step.routine.steps, met)
            yield step


def flatten(steps: Iterable[Step]) -> Iterator[Launch]:
    """All launches, in the order of their text."""
    return (step for step in each(steps) if isinstance(step, Launch))


def spent(steps: Iterable[Step]) -> Counter[str]:
    """Estimated nanoseconds in each kernel, by name: loops by their trips, if known."""
    found: Counter[str] = Counter()
    for step in steps:
        if isinstance(step, Launch):
            found[step.kernel.name] += step.kernel.work
        elif isinstance(step, Loop):
            for name, time in spent((*step.head, *step.body)).items():
                found[name] += time * (step.trips or ESTIMATED_LOOP_TRIPS)
        elif isinstance(step, Branch):
            for way in step.ways:
                found += spent(way)
        elif isinstance(step, Call):
            found += step.routine.spent
    return found


def host_calls(steps: Iterable[Step]) -> Iterator[HostCall]:
    """All calls of the host, in the order of their text."""
    return (step for step in each(steps) if isinstance(step, HostCall))


def routines(steps: Iterable[Step]) -> list[Routine]:
    """All routines that steps call, those first that others call."""
    return list(dict.fromkeys(step.routine for step in each(steps) if isinstance(step, Call)))


class Footprint(NamedTuple):
    """The memory of one run of a program, known before it runs.

    Attributes:
        argument_bytes: of the inputs, which exist already.
        output_bytes: of the outputs that are written.
        alias_bytes: of the outputs that share the memory of an input or of another output.
        temporary_bytes: of what lives only meanwhile.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int

    @property
    def new_bytes(self) -> int:
        """What a run adds to the memory in use."""
        return self.output_bytes + self.temporary_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that is in use at once, the arguments included."""
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
        work: estimated nanoseconds on one core.
        inputs, outputs: shape and dtype of each.
        aliases: outputs that are just an input, or another output: they are not written.
        arena_bytes, sync_bytes: memory it needs beside inputs and outputs.
        text: LLVM IR of the driver; it declares the kernels' functions.
        parallel: whether more than one thread is worth waking.
    """

    name: str
    function: UOp
    steps: tuple[Step, ...]
    work: int
    inputs: tuple[tuple[Shape, DType], ...]
    outputs: tuple[tuple[Shape, DType], ...]
    aliases: tuple[tuple[int, Slot], ...]
    arena_bytes: int
    sync_bytes: int
    text: str
    parallel: bool

    @property
    def footprint(self) -> Footprint:
        """How much memory one run takes."""
        shared = dict(self.aliases)
        sizes = [prod(shape) * dtype.itemsize for shape, dtype in self.outputs]
        return Footprint(
            sum(prod(shape) * dtype.itemsize for shape, dtype in self.inputs),
            sum(size for i, size in enumerate(sizes) if i not in shared),
            sum(size for i, size in enumerate(sizes) if i in shared),
            self.arena_bytes + self.sync_bytes,
        )

    @property
    def launches(self) -> tuple[Launch, ...]:
        """All launches, those in loops and branches included, in the order of their text."""
        return tuple(flatten(self.steps))

    @property
    def host_calls(self) -> tuple[HostCall, ...]:
        """All calls of the host, by number."""
        return tuple(host_calls(self.steps))

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, in order of first use."""
        return tuple({launch.kernel.name: launch.kernel for launch in self.launches}.values())


ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector; the arena, and every value in it, begins at one."""


def rounded(size_bytes: int) -> int:
    """Bytes rounded up to whole cache lines."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def size_bytes(node: UOp) -> int:
    """Bytes of a value, rounded up to whole cache lines."""
    return rounded(count(node.shape) * node.dtype.itemsize)
