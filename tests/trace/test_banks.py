"""Banks: how often a warp waits, which no constant changes."""

from __future__ import annotations

import pytest

from tfn.trace.banks import BANKS, degree


@pytest.mark.parametrize(("step", "waits"), [(0, 1), (1, 1), (2, 2), (8, 8), (32, 32), (33, 1)])
@pytest.mark.parametrize("start", [0, 1, 77])
def test_the_waits_of_a_stride(step: int, waits: int, start: int) -> None:
    assert degree(start + step * lane for lane in range(BANKS)) == waits


def test_threads_that_read_one_word_share_it() -> None:
    assert degree([5] * BANKS) == 1
    assert degree([0, 0, BANKS, BANKS]) == 2
