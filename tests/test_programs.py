"""Programs that the fuzzer writes, run in every way there is: all must agree.

These are the same programs every time, which take turns.  `make fuzz` runs new ones, as many as
there is time for (`tests/fuzz`).
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
    most = EXAMPLES.get(way, 6)
    step = 1 if covering.exhaustive else 2 if most < 16 else 3
    report = run(0, range(covering.turn % step, most, step), only=way)
    assert not report.failures, report.failures[0]
    assert report.checks[way] > 1
