"""Commands: the records of a program, without a device."""

from __future__ import annotations

from tests.lower.check_passes import GRID
from tests.lower.graphs import jaxpr, p
from tfn.dtypes import INT32
from tfn.hw.opencl.commands import (
    Choose,
    Command,
    Copy,
    Host,
    Launch,
    Repeat,
    Routine,
    Signal,
    Wait,
    every,
    record,
)
from tfn.lower import pipeline
from tfn.lower.program import HostCall, Slot, Space
from tfn.lower.program import Launch as LaunchStep
from tfn.trace import build
from tfn.trace.argument import Host as HostArgument
from tfn.trace.argument import VmapMethod
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = p(0, 4)


def commands(*outputs: UOp) -> tuple[Command, ...]:
    return record(pipeline.lower(jaxpr(outputs), GRID).steps)


def kinds(recorded: tuple[Command, ...]) -> list[type]:
    return [type(command) for command in recorded]


def test_a_kernel_is_a_launch_of_groups() -> None:
    (launch,) = commands(p(0, 600) * 2.0)
    assert isinstance(launch, Launch)
    assert (launch.groups, launch.threads) == (3, 256)
    assert launch.operands == (Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0))


def test_a_kernel_that_copies_is_a_copy() -> None:
    (step,) = pipeline.lower(jaxpr([build.reshape(p(0, 2, 3), (6,)) * 1.0]), GRID).steps
    assert isinstance(step, LaunchStep)
    recorded = record([step])
    assert kinds(recorded) == [Copy if step.kernel.is_copy else Launch]
    (copy,) = commands(UOp(Op.GBARRIER, (X,)))
    assert isinstance(copy, Copy) and copy.size_bytes == 16
    assert (copy.target.space, copy.source.space) == (Space.OUTPUT, Space.INPUT)


def test_an_operand_that_is_not_needed_is_not_copied() -> None:
    # The only index into one element is clamped to 0, whatever its value is.
    one = build.gather(p(0, 1), p(1, 1, 1, dtype=INT32), (1,))
    (copy,) = commands(one)
    assert isinstance(copy, Copy) and copy.size_bytes == 4
    assert (copy.target, copy.source) == (Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0))


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def test_a_counted_loop_never_waits() -> None:
    # A body that needs two kernels is a loop of the program, not of a kernel.
    total = build.broadcast_to(build.add_up(X, (0,)), (4,))
    step = body(X + UOp(Op.GBARRIER, (total,)), X)
    recorded = commands(build.scan(step, [], [p(0, 4)], [], 5, False)[0])
    (loop,) = (c for c in recorded if isinstance(c, Repeat))
    assert loop.trips == 5 and loop.condition is None and not loop.head
    assert not any(isinstance(c, (Wait, Signal)) for c in every(recorded))


def test_a_loop_with_a_condition_waits_in_every_iteration() -> None:
    total = build.broadcast_to(build.add_up(X, (0,)), (4,))
    step = body(X + UOp(Op.GBARRIER, (total,)), X)
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    cond = body(first < const(9.0, first.dtype), X)
    recorded = commands(build.repeat_while(cond, step, [], [], [p(0, 4)])[0])
    (loop,) = (c for c in recorded if isinstance(c, Repeat))
    assert loop.trips is None and loop.condition is not None
    signal, wait = loop.head[-2:]
    assert isinstance(signal, Signal) and isinstance(wait, Wait)
    assert signal.number == wait.number


def test_a_branch_waits_for_its_index() -> None:
    ways = [body(X * 2.0, X), body(X + 1.0, X)]
    recorded = commands(build.choose(p(1, dtype=INT32), ways, [p(0, 4)])[0])
    at = kinds(recorded).index(Choose)
    assert kinds(recorded)[at - 2 : at] == [Signal, Wait]
    choose = recorded[at]
    assert isinstance(choose, Choose) and len(choose.branches) == 2
    assert [kinds(way) for way in choose.branches] == [[Launch], [Launch]]


def test_a_routine_is_recorded_with_its_operands() -> None:
    f = body(X * 2.0, X)
    (once,) = build.call("f", f, [p(0, 4)])
    recorded = commands(build.call("f", f, [once])[0])
    routines = [c for c in recorded if isinstance(c, Routine)]
    assert len(routines) == 2 and routines[0].commands == routines[1].commands
    assert all(len(c.operands) == 2 and c.inputs == 1 for c in routines)


def test_a_call_of_the_host_waits_for_its_operands() -> None:
    host = HostArgument(print, (((4,), X.dtype),), VmapMethod.REFUSE)
    operands = Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0)
    call = HostCall(host, operands, (((4,), X.dtype),) * 2, False)
    recorded = record([call, call])
    assert kinds(recorded) == [Signal, Wait, Host] * 2
    assert len({c.number for c in recorded if isinstance(c, Signal)}) == 2
