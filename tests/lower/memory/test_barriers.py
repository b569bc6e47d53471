"""Barriers are where hazards are; short steps are serial, and wait for none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, jaxpr, matmul, p
from tests.lower.memory.test_schedule import body, loops, mixed, program
from tests.lower.thread_team import all_shared
from tfn.dtypes import INT32
from tfn.lower.memory.barriers import Hazards
from tfn.lower.pipeline import lower
from tfn.lower.program import Branch, Launch, Space, is_serial
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def inside(begin: int, end: int) -> tuple[Space, int, int]:
    return Space.ARENA, begin, end


@pytest.mark.parametrize(
    ("before", "after", "wait"),
    [
        ("w", "r", True),
        ("r", "w", True),
        ("w", "w", True),
        ("r", "r", False),
    ],
)
def test_launches_with_a_hazard_need_a_barrier(before: str, after: str, wait: bool) -> None:
    hazards = Hazards()
    assert not hazards.needs_barrier([inside(0, 64)], int(before == "w"))
    assert hazards.needs_barrier([inside(0, 64)], int(after == "w")) is wait


def test_disjoint_memory_needs_no_barrier() -> None:
    hazards = Hazards()
    assert not hazards.needs_barrier([inside(0, 128)], 1)
    assert not hazards.needs_barrier([inside(128, 192)], 1)
    assert not hazards.needs_barrier([(Space.OUTPUT, 0, 1)], 1)
    assert hazards.needs_barrier([inside(127, 129)], 0)


def test_a_barrier_clears_hazards() -> None:
    hazards = Hazards()
    hazards.needs_barrier([inside(0, 64)], 1)
    assert hazards.needs_barrier([inside(64, 128), inside(0, 64)], 1)
    assert not hazards.needs_barrier([inside(128, 192), inside(0, 64)], 1)  # reads it
    assert hazards.needs_barrier([inside(0, 1), inside(200, 201)], 1)
    assert hazards.clear() and not hazards.clear()
    assert not hazards.needs_barrier([inside(0, 64)], 1)


def test_serial_launches_wait_only_for_shared_ones() -> None:
    hazards = Hazards()
    assert not hazards.needs_barrier([inside(0, 64)], 1, serial=True)
    assert not hazards.needs_barrier([inside(64, 128), inside(0, 64)], 1, serial=True)
    assert not hazards.clear(serial=True)
    assert hazards.needs_barrier([inside(128, 192), inside(64, 128)], 1)
    assert hazards.needs_barrier([inside(0, 64), inside(128, 192)], 1, serial=True)
    assert not hazards.clear(serial=True) and hazards.clear()
    assert not hazards.needs_barrier([inside(0, 64)], 1)
    assert hazards.clear(serial=True) and not hazards.clear()


accesses = st.tuples(st.integers(0, 40), st.integers(1, 6), st.sampled_from(list(Space)))
launched = st.tuples(st.lists(accesses, max_size=3), st.integers(0, 2), st.booleans())


@given(st.lists(launched, max_size=10))
def test_hazards_are_conflicts_of_any_two_launches_since_the_barrier(
    launches: list[tuple[list[tuple[int, int, Space]], int, bool]],
) -> None:
    hazards = Hazards()
    since: list[tuple[int, int, Space, bool, bool]] = []
    for operands, written, serial in launches:
        launch = [
            (start, start + n, space, i < written, serial)
            for i, (start, n, space) in enumerate(operands)
        ]
        conflict = any(
            space is other and start < stop and begin < end and (writes or wrote)
            for start, end, space, writes, alone in launch
            for begin, stop, other, wrote, was_alone in since
            if not (alone and was_alone)
        )
        extents = [(space, start, end) for start, end, space, *_ in launch]
        assert hazards.needs_barrier(extents, written, serial) is conflict
        since = launch if conflict else since + launch


def barriers(*outputs: UOp) -> list[bool]:
    with all_shared():
        return [launch.barrier for launch in lower(jaxpr(outputs), HOST).launches]


def test_barriers_are_where_hazards_are() -> None:
    x, w = p(0, 32, 64), p(1, 64, 64)
    independent = [build.add_up(x, (0,)), build.add_up(x, (1,)), matmul(x, w)]
    assert barriers(*independent) == [False] * 3
    assert barriers(matmul(matmul(matmul(x, w), w), w)) == [False, True, True]
    both = matmul(x, w), matmul(x, build.flip(w, (0,)))
    assert barriers(both[0], both[1], matmul(both[0], w)).count(True) <= 2


def test_reused_memory_needs_a_barrier() -> None:
    """Memory of a dead value may be written while another launch still reads it."""
    x, w = p(0, 8, 64), p(1, 64, 64)
    y = x
    for _ in range(6):
        y = matmul(build.unary(Op.ABS, matmul(y, w)), w)
    with all_shared():
        program = lower(jaxpr([y]), HOST)
    hazards = Hazards()
    for launch in program.launches:
        extents = [
            (s.space, s.at, s.at + (8 * 64 * 4 if s.space is Space.ARENA else 1))
            for s in launch.operands
        ]
        assert hazards.needs_barrier(extents, 1) is launch.barrier


# Serial steps.


def test_short_steps_are_serial_and_wait_for_none() -> None:
    """One thread runs the loop and the kernels around it; threads share the products."""
    x, w = p(0, 256, 256), p(1, 256, 256)
    c = p(0, 6, 6)
    small = build.scan(body([c], mixed(c, c)), [], [p(2, 6, 6)], [], 3)[0]
    sum_ = build.add_up(small * 0.1, (0, 1))
    outputs = [matmul(x, w) * build.expand(build.reshape(sum_, (1, 1)), (256, 256))]
    steps = program(*outputs).steps
    (loop,) = loops(steps)
    assert is_serial(loop) and not any(step.barrier for step in (loop, *loop.body))
    *before, last = steps
    assert all(map(is_serial, before)) and not is_serial(last) and last.barrier
    assert sum(step.barrier for step in steps) == 1
    assert_matches_oracle(outputs, rtol=1e-3, atol=1e-3)


def test_one_long_kernel_alone_is_serial() -> None:
    """No thread can help with it, and it waits for none of its own."""
    (step,) = program(build.sort([p(0, 100_000)])[0]).steps
    assert isinstance(step, Launch) and step.serial == (step.kernel.tiles == 1)


def test_a_serial_branch_waits_for_none() -> None:
    a, i = p(0, 6, 6), p(1, dtype=INT32)
    ways = [body([p(0, 6, 6)], w) for w in (mixed(p(0, 6, 6), p(0, 6, 6)), p(0, 6, 6) * 2.0)]
    outputs = [build.choose(i + 1, ways, [a * 3.0])[0] + 1.0]
    with all_shared():
        assert any(step.barrier for step in program(*outputs).steps)
    steps = program(*outputs).steps
    assert any(isinstance(step, Branch) for step in steps)
    assert all(map(is_serial, steps)) and not any(step.barrier for step in steps)
