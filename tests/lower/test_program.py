"""Executable programs: kernels, launches, control flow and estimates."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import jaxpr, matmul, p, softmax
from tfn.lower.pipeline import lower
from tfn.lower.program import (
    BARRIER_NS,
    MIN_SHARED_NS,
    Branch,
    Call,
    Launch,
    Loop,
    Program,
    Routine,
    Slot,
    Space,
    all_launches,
    is_worth_threads,
    kernel_times_ns,
    shared_work,
)


@pytest.fixture(scope="module")
def program() -> Program:
    x, w = p(0, 8, 8), p(1, 8, 8)
    return lower(jaxpr([softmax(matmul(matmul(x, w), w)), x]), HOST)


def test_kernels_are_listed_once_in_order_of_first_use(program: Program) -> None:
    names = [launch.kernel.name for launch in program.launches]
    assert [k.name for k in program.kernels] == list(dict.fromkeys(names))
    assert len(names) == 3 and len(set(names)) == 2


def test_a_name_is_a_digest_of_the_text(program: Program) -> None:
    same = lower(jaxpr([matmul(p(0, 8, 8), p(1, 8, 8))]), HOST)
    assert same.kernels[0].name == program.kernels[0].name
    other = lower(jaxpr([matmul(p(0, 8, 8), p(1, 8, 8))]), SMALL)
    assert other.kernels[0].name != program.kernels[0].name
    for kernel in program.kernels:
        assert f"@{kernel.name}(" in kernel.text and "@@" not in kernel.text
        assert f"@{kernel.name}(" in program.text
    assert f"@{program.name}(" in program.text


def test_inputs_outputs_and_aliases(program: Program) -> None:
    assert [shape for shape, _ in program.inputs] == [(8, 8)] * 2
    assert [shape for shape, _ in program.outputs] == [(8, 8)] * 2
    assert program.aliases == ((1, Slot(Space.INPUT, 0)),)


def test_programs_are_immutable(program: Program) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.name = "other"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        program.kernels[0].text = ""  # type: ignore[misc]


def test_a_program_is_equal_after_pickling(program: Program) -> None:
    assert pickle.loads(pickle.dumps(program)) == program


def test_launches_of_loops_and_branches_are_in_the_order_of_the_text(program: Program) -> None:
    kernel = program.kernels[0]
    a, b, c = (Launch(kernel, (Slot(Space.ARENA, i),), False) for i in range(3))
    loop = Loop(0, None, (a,), Slot(Space.ARENA, 0), (b,), False)
    branch = Branch(Slot(Space.ARENA, 0), ((c,), (loop,)), True)
    assert list(all_launches([branch, a])) == [c, a, b, a]


def test_kernel_times_count_trips_and_calls(program: Program) -> None:
    short, long = (replace(program.kernels[i], work_ns=10**i) for i in range(2))
    once, often = (Launch(kernel, (), False) for kernel in (short, long))
    ten = Loop(0, 10, (), None, (often, once), False)
    unknown = Loop(1, None, (once,), Slot(Space.ARENA, 0), (often,), False)
    assert kernel_times_ns([once, ten]) == {short.name: 11, long.name: 100}
    assert kernel_times_ns([unknown]) == {short.name: 100, long.name: 1000}
    routine = Routine((ten,), 0, 0, 110, kernel_times_ns([ten]))
    calls = [Call(routine, (), Slot(Space.ARENA, 0), False)] * 2
    assert kernel_times_ns(calls) == {short.name: 20, long.name: 200}


def test_threads_share_what_takes_longer_than_their_waits(program: Program) -> None:
    step = replace(program.launches[0], barrier=True, serial=False)

    def taking(work_ns: int, tiles: int = 8) -> Launch:
        return replace(step, kernel=replace(step.kernel, work_ns=work_ns, tiles=tiles))

    large, small = taking(MIN_SHARED_NS + 1), taking(2 * BARRIER_NS)
    assert is_worth_threads([large]) and not is_worth_threads([small])
    assert not is_worth_threads([taking(100 * MIN_SHARED_NS, tiles=1)])
    slot = Slot(Space.ARENA, 0)
    loop = Loop(0, 1000, (), slot, (small,), False)
    assert shared_work([loop]) == (1000 * 2 * BARRIER_NS, 2000) and not is_worth_threads([loop])
    assert is_worth_threads([replace(loop, body=(large, small))])
    branch = Branch(slot, ((small,), (large, small)), True)
    assert shared_work([branch]) == (large.kernel.work_ns + small.kernel.work_ns, 4)
    serial = replace(large, barrier=False, serial=True)
    assert shared_work([replace(loop, body=(serial, serial))]) == (0, 0)
    assert shared_work([serial, replace(loop, body=(serial, large))]) == (
        1000 * large.kernel.work_ns,
        2000,
    )
