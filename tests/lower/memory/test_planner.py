"""Memory planner: live ranges that overlap get disjoint memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, matmul, p
from tfn.dtypes import BFLOAT16, BOOL, FLOAT32
from tfn.lower.memory.planner import LiveRange, plan_arena
from tfn.lower.pipeline import lower
from tfn.lower.program import ALIGNMENT, Space, align_up, aligned_size_bytes


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


def test_outputs_are_not_in_the_arena() -> None:
    x, w = p(0, 8, 64), p(1, 64, 64)
    program = lower(jaxpr([matmul(x, w), matmul(x, w) + 1.0]), HOST)
    assert program.arena_bytes == 0
    assert {launch.operands[0].space for launch in program.launches} == {Space.OUTPUT}
