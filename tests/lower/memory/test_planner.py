"""The plan of memory: nothing that is alive is overwritten, and nobody waits without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, matmul, p
from tfn.dtypes import BFLOAT16, BOOL, FLOAT32
from tfn.lower.memory.planner import Life, Memory, arena
from tfn.lower.pipeline import lower
from tfn.lower.program import ALIGNMENT, Space, rounded, size_bytes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@st.composite
def lives(draw: st.DrawFn) -> dict[int, Life]:
    found = {}
    for i in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 9))
        size = rounded(draw(st.sampled_from([0, 1, 64, 100, 1000, 4096])))
        found[i] = Life(size, first, first + draw(st.integers(0, 4)))
    return found


@given(lives())
@settings(max_examples=200)
def test_values_that_live_at_once_do_not_overlap(values: dict[int, Life]) -> None:
    offsets, total = arena(values)
    assert offsets.keys() == values.keys()
    for i, life in values.items():
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] >= 0 and offsets[i] + life.size_bytes <= total
        for k, other in values.items():
            at_once = life.first <= other.last and other.first <= life.last
            if k != i and at_once and life.size_bytes and other.size_bytes:
                apart = (
                    offsets[i] + life.size_bytes <= offsets[k]
                    or offsets[k] + other.size_bytes <= offsets[i]
                )
                assert apart, (life, other)


@given(lives())
@settings(max_examples=200)
def test_the_arena_is_never_larger_than_all_and_never_smaller_than_what_is_needed(
    values: dict[int, Life],
) -> None:
    _, total = arena(values)
    needed = max(
        (sum(v.size_bytes for v in values.values() if v.first <= t <= v.last) for t in range(15)),
        default=0,
    )
    assert needed <= total <= sum(v.size_bytes for v in values.values())


def test_what_has_died_makes_room() -> None:
    values = {i: Life(128, i, i + 1) for i in range(10)}
    assert arena(values)[1] == 256


def test_sizes_are_whole_cache_lines() -> None:
    assert rounded(0) == 0 and rounded(1) == 64 and rounded(64) == 64 and rounded(65) == 128
    assert size_bytes(p(0, 3, 5, dtype=BFLOAT16)) == 64
    assert size_bytes(p(0, 65, dtype=BOOL)) == 128
    assert size_bytes(p(0, 0, 5, dtype=FLOAT32)) == 0


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
def test_a_launch_waits_for_those_it_would_disturb(before: str, after: str, wait: bool) -> None:
    memory = Memory()
    assert not memory.must_wait([inside(0, 64)], int(before == "w"))
    assert memory.must_wait([inside(0, 64)], int(after == "w")) is wait


def test_only_overlapping_memory_is_waited_for() -> None:
    memory = Memory()
    assert not memory.must_wait([inside(0, 128)], 1)
    assert not memory.must_wait([inside(128, 192)], 1)
    assert not memory.must_wait([(Space.OUTPUT, 0, 1)], 1)
    assert memory.must_wait([inside(127, 129)], 0)


def test_after_a_barrier_what_came_before_is_forgotten() -> None:
    memory = Memory()
    memory.must_wait([inside(0, 64)], 1)
    assert memory.must_wait([inside(64, 128), inside(0, 64)], 1)
    assert not memory.must_wait([inside(128, 192), inside(0, 64)], 1)  # it only reads the first
    assert memory.must_wait([inside(0, 1), inside(200, 201)], 1)
    assert memory.clear() and not memory.clear()
    assert not memory.must_wait([inside(0, 64)], 1)


def barriers(*outputs: UOp) -> list[bool]:
    return [launch.barrier for launch in lower(jaxpr(outputs), HOST).launches]


def test_barriers_stand_where_they_are_needed_and_nowhere_else() -> None:
    x, w = p(0, 32, 64), p(1, 64, 64)
    apart = [build.add_up(x, (0,)), build.add_up(x, (1,)), matmul(x, w)]
    assert barriers(*apart) == [False] * 3
    assert barriers(matmul(matmul(matmul(x, w), w), w)) == [False, True, True]
    both = matmul(x, w), matmul(x, build.flip(w, (0,)))
    assert barriers(both[0], both[1], matmul(both[0], w)).count(True) <= 2


def test_memory_that_is_used_again_is_waited_for() -> None:
    """Of two chains beside each other, one may write where the other has yet to read."""
    x, w = p(0, 8, 64), p(1, 64, 64)
    y = x
    for _ in range(6):
        y = matmul(build.unary(Op.ABS, matmul(y, w)), w)
    program = lower(jaxpr([y]), HOST)
    memory = Memory()
    for launch in program.launches:
        extents = [
            (s.space, s.at, s.at + (8 * 64 * 4 if s.space is Space.ARENA else 1))
            for s in launch.operands
        ]
        assert memory.must_wait(extents, 1) is launch.barrier


def test_outputs_are_written_where_they_belong() -> None:
    x, w = p(0, 8, 64), p(1, 64, 64)
    program = lower(jaxpr([matmul(x, w), matmul(x, w) + 1.0]), HOST)
    assert program.arena_bytes == 0
    assert {launch.operands[0].space for launch in program.launches} == {Space.OUTPUT}
