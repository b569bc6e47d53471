"""Programs that the fuzzer writes, run in every way there is: all must agree.

These are the same few programs every time.  `make fuzz` runs new ones, as many as there is time for
(`tests/fuzz`).
"""

from __future__ import annotations

import pytest

from tests import covering
from tests.fuzz.batches import run
from tests.fuzz.checks import CHECKS

EXAMPLES = {
    "jit": 24,
    "eager": 10,
    "oracle": 12,
    "vmap": 8,
    "gradient": 16,
    "adjoint": 16,
    "sanitize": 6,
}


@pytest.mark.parametrize("way", CHECKS)
def test_every_way_to_run_a_program_agrees(way: str) -> None:
    numbers = range(EXAMPLES.get(way, 6))
    few = numbers if covering.exhaustive or way not in EXAMPLES else numbers[: len(numbers) // 2]
    report = run(0, few, only=way)
    assert not report.failures, report.failures[0]
    assert report.checks[way] > 2
