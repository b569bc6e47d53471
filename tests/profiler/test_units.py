"""Units: three digits at most, and the unit that they are read in."""

from __future__ import annotations

import pytest

from tfn.profiler import units


@pytest.mark.parametrize("ns, text", [(0, "0 ns"), (1e3, "1.00 us"), (99.94e6, "99.9 ms")])
def test_durations(ns: float, text: str) -> None:
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    "size_bytes, text", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (5 * 10**10, "50.0 GB")]
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert units.size(size_bytes) == text
