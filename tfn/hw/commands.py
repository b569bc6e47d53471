"""Commands of a grid: a program as frozen records, with an address for every operand, no routines.

    Program                               commands
      Launch k1 (arena 0, input 0)        Launch k1, 4 groups of 256 threads
      Call f(...):                        Launch k2 (the operands of f in those of the program)
        Launch k2 (...)
      Loop 100 trips:                     Repeat 100 times:
        Launch k3 (arena 0, arena 256)      Launch k3, ...
      HostCall g                          Host g

Commands run in the order of their list, so a launch sees what those before it wrote.  The host
waits where it has to know a value: the condition of a loop, the index of a branch, or the operands
of a call of the host.  `divided` marks what needs no host: a CUDA graph each, launched at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Protocol

from tfn._support.frozen import frozen
from tfn.dtypes import BOOL, INT32, DType
from tfn.lower.program import Branch, Call, HostCall, Loop, Program, Slot, Space, Step
from tfn.lower.program import Launch as LaunchStep

MAX_UNROLLED_LAUNCHES = 128
"""Launches of a loop that is written out, iteration by iteration.

An iteration of a loop in a graph costs 4.3 us on an H100, and a kernel 1.0 us; to instantiate a
graph of 200 nodes takes 1.1 ms once.
"""


@frozen
class Address:
    """An operand.

    Attributes:
        base: the number of a buffer: inputs, then outputs, then the arena.
        offset: bytes from there.
        strides: the numbers of loops that move it, and the bytes by which each iteration does.
    """

    base: int
    offset: int
    strides: tuple[tuple[int, int], ...] = ()


@frozen
class Launch:
    """A kernel on a grid.

    Attributes:
        kernel: its name.
        groups, threads: the number of groups, and of threads in each.
    """

    kernel: str
    groups: int
    threads: int
    operands: tuple[Address, ...]


@frozen
class Repeat:
    """Commands in a loop; see `lower.program.Loop`.

    Attributes:
        number: of the loop in the strides of addresses, unique in the program.
        trips: the trip count, or None: while the byte at `condition` is not 0; `head` writes it.
    """

    number: int
    trips: int | None
    head: tuple[Command, ...]
    condition: Address | None
    body: tuple[Command, ...]


@frozen
class Choose:
    """One of several lists of commands, by an int32 index that is clamped."""

    index: Address
    branches: tuple[tuple[Command, ...], ...]


@frozen
class Host:
    """A function of the host on copies of its operands."""

    call: HostCall
    operands: tuple[Address, ...]


@frozen
class Recorded:
    """Commands that need no host: a graph."""

    commands: tuple[Command, ...]


Command = Launch | Repeat | Choose | Host | Recorded


def record(program: Program) -> tuple[Command, ...]:
    """The commands of a program."""
    inputs, outputs = len(program.inputs), len(program.outputs)
    buffers = [Address(i, 0) for i in range(inputs + outputs + 1)]
    frame = _Frame(buffers[:inputs], buffers[inputs:-1], buffers[-1], {})
    return tuple(_commands(program.steps, frame, count()))


@frozen
class _Frame:
    """The addresses that the slots of a routine stand for in the program."""

    inputs: Sequence[Address]
    outputs: Sequence[Address]
    arena: Address
    loops: Mapping[int, int]

    def address(self, slot: Slot) -> Address:
        """The address of a slot."""
        if slot.space is Space.ARENA:
            base, offset = self.arena, slot.at + slot.offset
        else:
            buffers = self.inputs if slot.space is Space.INPUT else self.outputs
            base, offset = buffers[slot.at], slot.offset
        strides = [(self.loops[number], step) for number, step in slot.strides]
        return Address(base.base, base.offset + offset, (*base.strides, *strides))


def _commands(steps: Sequence[Step], frame: _Frame, loops: Iterator[int]) -> Iterator[Command]:
    for step in steps:
        if isinstance(step, LaunchStep):
            kernel, operands = step.kernel, tuple(map(frame.address, step.operands))
            yield Launch(kernel.name, kernel.tiles, kernel.threads, operands)
        elif isinstance(step, Loop):
            yield from _loop(step, frame, loops)
        elif isinstance(step, Branch):
            branches = [tuple(_commands(branch, frame, loops)) for branch in step.branches]
            yield Choose(frame.address(step.index), tuple(branches))
        elif isinstance(step, Call):
            buffers, inputs = [*map(frame.address, step.operands)], step.routine.inputs
            arena = frame.address(step.arena)
            inner = _Frame(buffers[:inputs], buffers[inputs:], arena, {})
            yield from _commands(step.routine.steps, inner, loops)
        else:
            yield Host(step, tuple(map(frame.address, step.operands)))


def _loop(step: Loop, frame: _Frame, loops: Iterator[int]) -> Iterator[Command]:
    """A loop; written out, if it counts and is short."""
    number = next(loops)
    frame = _Frame(frame.inputs, frame.outputs, frame.arena, {**frame.loops, step.number: number})
    head, body = (tuple(_commands(part, frame, loops)) for part in (step.head, step.body))
    condition = None if step.condition is None else frame.address(step.condition)
    launches = [c for c in body if isinstance(c, Launch)]
    is_short = step.trips is not None and step.trips * len(body) <= MAX_UNROLLED_LAUNCHES
    if condition is None and is_short and len(launches) == len(body):
        for i in range(step.trips or 0):
            for c in launches:
                operands = tuple(_iteration(a, number, i) for a in c.operands)
                yield Launch(c.kernel, c.groups, c.threads, operands)
        return
    yield Repeat(number, step.trips, head, condition, body)


def _iteration(address: Address, number: int, i: int) -> Address:
    """An address in an iteration of a loop."""
    offset = sum(step * i for loop, step in address.strides if loop == number)
    strides = tuple((loop, step) for loop, step in address.strides if loop != number)
    return Address(address.base, address.offset + offset, strides)


def parts(command: Command) -> Sequence[Sequence[Command]]:
    """The lists of commands within a command."""
    if isinstance(command, Repeat):
        return command.head, command.body
    if isinstance(command, Choose):
        return command.branches
    return (command.commands,) if isinstance(command, Recorded) else ()


def every(commands: Sequence[Command]) -> Iterator[Command]:
    """All commands, those in loops, branches and graphs included."""
    for command in commands:
        yield command
        yield from every([*chain.from_iterable(parts(command))])


def divided(commands: Sequence[Command]) -> tuple[Command, ...]:
    """The same commands, those that need no host as graphs: as few and as long as possible."""
    result: list[Command] = []
    alone: list[Command] = []
    for command in commands:
        if not any(isinstance(c, Host) for c in every([command])):
            alone.append(command)
            continue
        if alone:
            result.append(Recorded(tuple(alone)))
            alone = []
        if isinstance(command, Repeat):
            head, body = divided(command.head), divided(command.body)
            command = Repeat(command.number, command.trips, head, command.condition, body)
        elif isinstance(command, Choose):
            command = Choose(command.index, tuple(map(divided, command.branches)))
        result.append(command)
    return (*result, Recorded(tuple(alone))) if alone else tuple(result)


class Flow(Protocol):
    """A run of commands, in which the host decides about loops and branches.

    Attributes:
        loops: the iteration of each loop that is open.
    """

    loops: dict[int, int]

    def run(self, commands: Sequence[Command]) -> None:
        """Enqueue commands in order."""
        ...

    def number(self, address: Address, dtype: DType) -> int:
        """A number that the commands so far have written."""
        ...


def repeat(flow: Flow, command: Repeat) -> None:
    """Enqueue a loop; the host tests its condition, if it has one."""
    for i in range(command.trips) if command.trips is not None else count():
        flow.loops[command.number] = i
        if command.condition is not None:
            flow.run(command.head)
            if not flow.number(command.condition, BOOL):
                return
        flow.run(command.body)


def choose(flow: Flow, command: Choose) -> None:
    """Enqueue the branch of an index."""
    index, last = flow.number(command.index, INT32), len(command.branches) - 1
    flow.run(command.branches[min(max(index, 0), last)])


def call_host(
    command: Host,
    function: Callable[[list[Any], list[Any]], None],
    fetch: Callable[..., Any],
    write: Callable[[Address, Any], None],
) -> None:
    """Call a function of the host on copies of its operands, and copy its results back."""
    call, results = command.call, len(command.call.host.results)
    pairs = zip(command.operands, call.types, strict=True)
    arrays = [fetch(address, *kind) for address, kind in pairs]
    for x in arrays[results:]:
        x.flags.writeable = False
    function(arrays[:results], arrays[results:])
    for address, x in zip(command.operands[:results], arrays, strict=False):
        write(address, x)
