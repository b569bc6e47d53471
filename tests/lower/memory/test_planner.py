"""Memory planner: live ranges that overlap get disjoint memory; barriers are where hazards are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, matmul, p
from tfn.dtypes import BFLOAT16, BOOL, FLOAT32
from tfn.lower.memory.planner import Hazards, LiveRange, plan_arena
from tfn.lower.pipeline import lower
from tfn.lower.program import ALIGNMENT, Space, align_up, aligned_size_bytes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@st.composite
def live_ranges(draw: st.DrawFn) -> dict[int, LiveRange]:
    ranges = {}
    for i in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 9))
        size = align_up(draw(st.sampled_from([0, 1, 64, 100, 1000, 4096])))
        ranges[i] = LiveRange(size, first, first + draw(st.integers(0, 4)))
    return ranges


@given(live_ranges())
@settings(max_examples=200)
def test_overlapping_live_ranges_get_disjoint_memory(values: dict[int, LiveRange]) -> None:
    offsets, total = plan_arena(values)
    assert offsets.keys() == values.keys()
    for i, live in values.items():
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] >= 0 and offsets[i] + live.size_bytes <= total
        for k, other in values.items():
            at_once = live.first <= other.last and other.first <= live.last
            if k != i and at_once and live.size_bytes and other.size_bytes:
                disjoint = (
                    offsets[i] + live.size_bytes <= offsets[k]
                    or offsets[k] + other.size_bytes <= offsets[i]
                )
                assert disjoint, (live, other)


@given(live_ranges())
@settings(max_examples=200)
def test_arena_size_is_between_peak_and_sum(
    values: dict[int, LiveRange],
) -> None:
    _, total = plan_arena(values)
    needed = max(
        (sum(v.size_bytes for v in values.values() if v.first <= t <= v.last) for t in range(15)),
        default=0,
    )
    assert needed <= total <= sum(v.size_bytes for v in values.values())


def test_memory_of_dead_values_is_reused() -> None:
    values = {i: LiveRange(128, i, i + 1) for i in range(10)}
    assert plan_arena(values)[1] == 256


def test_sizes_are_whole_cache_lines() -> None:
    assert align_up(0) == 0 and align_up(1) == 64 and align_up(64) == 64 and align_up(65) == 128
    assert aligned_size_bytes(p(0, 3, 5, dtype=BFLOAT16)) == 64
    assert aligned_size_bytes(p(0, 65, dtype=BOOL)) == 128
    assert aligned_size_bytes(p(0, 0, 5, dtype=FLOAT32)) == 0


# Barriers.


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


accesses = st.tuples(st.integers(0, 40), st.integers(1, 6), st.sampled_from(list(Space)))


@given(st.lists(st.tuples(st.lists(accesses, max_size=3), st.integers(0, 2)), max_size=10))
def test_hazards_are_conflicts_of_any_two_launches_since_the_barrier(
    launches: list[tuple[list[tuple[int, int, Space]], int]],
) -> None:
    hazards = Hazards()
    since: list[tuple[int, int, Space, bool]] = []
    for operands, written in launches:
        launch = [
            (start, start + n, space, i < written) for i, (start, n, space) in enumerate(operands)
        ]
        conflict = any(
            space is other and start < stop and begin < end and (writes or wrote)
            for start, end, space, writes in launch
            for begin, stop, other, wrote in since
        )
        extents = [(space, start, end) for start, end, space, _ in launch]
        assert hazards.needs_barrier(extents, written) is conflict
        since = launch if conflict else since + launch


def barriers(*outputs: UOp) -> list[bool]:
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
    program = lower(jaxpr([y]), HOST)
    hazards = Hazards()
    for launch in program.launches:
        extents = [
            (s.space, s.at, s.at + (8 * 64 * 4 if s.space is Space.ARENA else 1))
            for s in launch.operands
        ]
        assert hazards.needs_barrier(extents, 1) is launch.barrier


def test_outputs_are_not_in_the_arena() -> None:
    x, w = p(0, 8, 64), p(1, 64, 64)
    program = lower(jaxpr([matmul(x, w), matmul(x, w) + 1.0]), HOST)
    assert program.arena_bytes == 0
    assert {launch.operands[0].space for launch in program.launches} == {Space.OUTPUT}
