"""Commands: the records of a program, routines written out, and what needs no host."""

from __future__ import annotations

from tests.lower.graphs import jaxpr, p
from tfn.dtypes import INT32
from tfn.hw import commands as records
from tfn.hw.commands import (
    Address,
    Choose,
    Command,
    Host,
    Launch,
    Recorded,
    Repeat,
    divided,
    every,
    record,
)
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline
from tfn.lower.program import HostCall, Slot, Space
from tfn.trace import build
from tfn.trace.argument import Host as HostArgument
from tfn.trace.argument import VmapMethod
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

X = p(0, 4)
TARGET = TARGETS["sm_90"]


def commands(*outputs: UOp) -> tuple[Command, ...]:
    return record(pipeline.lower(jaxpr(outputs), TARGET))


def kinds(recorded: tuple[Command, ...]) -> list[type]:
    return [type(command) for command in recorded]


def body(f: UOp, *like: UOp) -> UOp:
    return function([f], tuple(u.arg for u in like))


def step() -> UOp:
    """A body that needs two kernels: a loop of it is one of the program."""
    total = build.broadcast_to(build.add_up(X, (0,)), (4,))
    return body(X + UOp(Op.GBARRIER, (total,)), X)


def test_buffers_are_numbered_inputs_first_and_the_arena_last() -> None:
    (launch,) = commands(p(0, 600) * 2.0)
    assert isinstance(launch, Launch) and launch.groups * launch.threads >= 600
    assert launch.operands == (Address(1, 0), Address(0, 0))


def test_a_short_loop_is_written_out() -> None:
    recorded = commands(build.scan(step(), [], [p(0, 4)], [], 5, False)[0])
    assert set(kinds(recorded)) == {Launch} and len(recorded) >= 10


def test_a_long_loop_is_a_loop() -> None:
    recorded = commands(build.scan(step(), [], [p(0, 4)], [], 1000, False)[0])
    (loop,) = (c for c in recorded if isinstance(c, Repeat))
    assert loop.trips == 1000 and loop.condition is None and not loop.head


def test_iterations_that_are_written_out_have_their_own_addresses() -> None:
    launch = Launch("k", 1, 1, (Address(0, 8, ((3, 16), (4, 1000))),))
    assert records._iteration(launch.operands[0], 3, 2) == Address(0, 40, ((4, 1000),))


def test_a_loop_with_a_condition_keeps_its_head() -> None:
    first = build.reshape(build.shrink(X, (0,), (1,)), ())
    cond = body(first < const(9.0, first.dtype), X)
    recorded = commands(build.repeat_while(cond, step(), [], [], [p(0, 4)])[0])
    (loop,) = (c for c in recorded if isinstance(c, Repeat))
    assert loop.trips is None and loop.condition is not None and loop.head


def test_routines_are_written_out_at_their_operands() -> None:
    f = body(X * 2.0, X)
    (once,) = build.call("f", f, [p(0, 4)])
    first, second = commands(build.call("f", f, [once])[0])
    assert isinstance(first, Launch) and isinstance(second, Launch)
    assert first.kernel == second.kernel and first.operands[1] == Address(0, 0)
    assert second.operands[1] == first.operands[0] and second.operands[0] == Address(1, 0)


def host() -> Host:
    call = HostArgument(print, (((4,), X.dtype),), VmapMethod.REFUSE)
    slots = Slot(Space.OUTPUT, 0), Slot(Space.INPUT, 0)
    return Host(
        HostCall(call, slots, (((4,), X.dtype),) * 2, False), (Address(1, 0), Address(0, 0))
    )


def test_graphs_are_as_long_as_the_host_lets_them() -> None:
    a, b = (Launch(name, 1, 32, (Address(0, 0),)) for name in "ab")
    loop = Repeat(0, 9, (), None, (a, b))
    hosted = Repeat(1, 9, (), None, (a, host(), b))
    choose = Choose(Address(0, 0), ((a,), (host(),)))
    assert divided([a, loop, b]) == (Recorded((a, loop, b)),)
    assert kinds(divided([a, host(), b, loop])) == [Recorded, Host, Recorded]
    recorded = divided([a, hosted, choose, b])
    assert kinds(recorded) == [Recorded, Repeat, Choose, Recorded]
    assert isinstance(recorded[1], Repeat) and kinds(recorded[1].body) == [Recorded, Host, Recorded]
    assert sum(isinstance(c, Launch) for c in every(recorded)) == 5
    assert divided([]) == ()


def test_a_branch_is_chosen_by_an_address() -> None:
    ways = [body(X * 2.0, X), body(X + 1.0, X)]
    recorded = commands(build.choose(p(1, dtype=INT32), ways, [p(0, 4)])[0])
    (choose,) = (c for c in recorded if isinstance(c, Choose))
    assert [kinds(way) for way in choose.branches] == [[Launch], [Launch]]
