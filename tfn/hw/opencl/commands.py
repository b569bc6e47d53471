"""Commands: a program as frozen records, which a queue enqueues one by one.

    Program                               commands
      Launch k1 (arena 0, input 0)        Launch k1, 4 groups of 256 threads
      Loop 100 trips:                     Repeat 100 times:
        Launch k2 (arena 0, arena 256)      Launch k2, ...
      Branch input 1: ...                 Signal 1, Wait 1, Choose by input 1: ...

Commands run in the order of their list, so a launch sees what those before it wrote.  The host
waits only where it has to know a value, the condition of a loop, the index of a branch, or the
operands of a call of the host: a Signal is set when all commands before it have run, and a Wait
holds the host until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod

from tfn._support.frozen import frozen
from tfn.lower.program import Branch, Call, HostCall, Loop, Slot, Step
from tfn.lower.program import Launch as LaunchStep


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
    operands: tuple[Slot, ...]


@frozen
class Copy:
    """A copy from one part of memory to another; they do not overlap."""

    target: Slot
    source: Slot
    size_bytes: int


@frozen
class Signal:
    """An event that happens when all commands before it have run."""

    number: int


@frozen
class Wait:
    """The host waits for an event."""

    number: int


@frozen
class Repeat:
    """Commands in a loop; see `lower.program.Loop`.  The head ends with the wait for its condition.

    Attributes:
        number: of the loop in the strides of slots.
        trips: the trip count, or None: while `condition` holds.
    """

    number: int
    trips: int | None
    head: tuple[Command, ...]
    condition: Slot | None
    body: tuple[Command, ...]


@frozen
class Choose:
    """One of several lists of commands, by an int32 index that is clamped."""

    index: Slot
    branches: tuple[tuple[Command, ...], ...]


@frozen
class Routine:
    """Commands on operands and an arena of their own: a routine of the program."""

    commands: tuple[Command, ...]
    inputs: int
    operands: tuple[Slot, ...]
    arena: Slot


@frozen
class Host:
    """A function of the host on copies of its operands, by the number of the call."""

    number: int
    call: HostCall


Command = Launch | Copy | Signal | Wait | Repeat | Choose | Routine | Host


def record(steps: Sequence[Step]) -> tuple[Command, ...]:
    """The commands of a program's steps."""
    return tuple(_Recorder().commands(steps))


class _Recorder:
    """Numbers of events and of calls so far."""

    def __init__(self) -> None:
        self.events, self.calls = count(1), count()

    def commands(self, steps: Sequence[Step]) -> Iterator[Command]:
        """The commands of steps, in order."""
        for step in steps:
            if isinstance(step, LaunchStep):
                yield _launch(step)
            elif isinstance(step, Loop):
                yield self.loop(step)
            elif isinstance(step, Branch):
                yield from self.waited()
                branches = [tuple(self.commands(branch)) for branch in step.branches]
                yield Choose(step.index, tuple(branches))
            elif isinstance(step, Call):
                inside = tuple(self.commands(step.routine.steps))
                yield Routine(inside, step.routine.inputs, step.operands, step.arena)
            else:
                yield from self.waited()
                yield Host(next(self.calls), step)

    def waited(self) -> Iterator[Command]:
        """The wait of the host for all commands so far."""
        number = next(self.events)
        yield Signal(number)
        yield Wait(number)

    def loop(self, step: Loop) -> Repeat:
        """A loop; one with a condition waits for it in every iteration."""
        head = list(self.commands(step.head))
        if step.condition is not None:
            head += self.waited()
        body = tuple(self.commands(step.body))
        return Repeat(step.number, step.trips, tuple(head), step.condition, body)


def _launch(step: LaunchStep) -> Launch | Copy:
    kernel = step.kernel
    if kernel.is_copy:
        assert kernel.body is not None
        target, _, value = kernel.body.src[0].src
        size_bytes = prod(target.shape) * target.dtype.itemsize
        to, source = (step.operands[u.arg.index] for u in (target, value.src[0]))
        return Copy(to, source, size_bytes)  # there may be operands that no instruction needs
    return Launch(kernel.name, kernel.tiles, kernel.threads, step.operands)


def every(commands: Sequence[Command]) -> Iterator[Command]:
    """All commands, those in loops, branches and routines included."""
    for command in commands:
        yield command
        if isinstance(command, Repeat):
            yield from every((*command.head, *command.body))
        elif isinstance(command, Choose):
            for branch in command.branches:
                yield from every(branch)
        elif isinstance(command, Routine):
            yield from every(command.commands)
