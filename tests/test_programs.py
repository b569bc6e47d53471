"""Programs that the fuzzer writes, run in every way there is: all must agree.

These are the same few programs every time.  `make fuzz` runs new ones, as many as there is time for
(`tests/fuzz`).
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, reject, settings

from tests.fuzz.checks import CHECKS, Inapplicable
from tests.fuzz.programs import Program, programs

EXAMPLES = {"jit": 60, "eager": 25, "oracle": 25, "vmap": 20, "gradient": 40, "adjoint": 40}


@pytest.mark.parametrize("way", CHECKS)
def test_every_way_to_run_a_program_agrees(way: str) -> None:
    @given(programs())
    @settings(max_examples=EXAMPLES.get(way, 10), suppress_health_check=list(HealthCheck))
    def agree(program: Program) -> None:
        try:
            CHECKS[way].run(program)
        except Inapplicable:  # a call of the host, which exported C has not
            reject()

    agree()
