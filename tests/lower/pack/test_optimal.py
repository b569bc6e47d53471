"""Shortest intervals: proved, never longer than LLVM's order, the same by all methods."""

from __future__ import annotations

import time

import pytest

from tests.lower.pack.loops import FUNCTIONS, loops
from tests.lower.pack.test_dependences import loop_of
from tests.lower.pack.test_modulo import require_valid
from tfn.lower.index import solver
from tfn.lower.pack import modulo, optimal
from tfn.lower.pack.machine import HEXAGON

pytest.importorskip("z3", reason="z3 is not installed: pip install 'tfn[proofs]'")
MINIMAL = ("int8 dot", "int8 relu", "int16 axpy", "int32 axpy", "int32 sum", "saxpy")


@pytest.mark.parametrize("name", MINIMAL)
def test_intervals_are_minimal(name: str) -> None:
    for loop in loops(name, "hexagon"):
        found = optimal.schedule(loop, HEXAGON, 5.0)
        assert found is not None
        assert found.is_minimal
        assert found.interval <= modulo.emitted_cycles(loop, HEXAGON)
        assert modulo.fits(found.live, HEXAGON)
        require_valid(loop, HEXAGON, found.interval, found.cycles)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in MINIMAL])
def test_intervals_are_never_longer_than_that_of_llvm(name: str) -> None:
    for loop in loops(name, "hexagon"):
        found = optimal.schedule(loop, HEXAGON, 0.2)
        assert found is not None
        assert found.bound <= found.interval <= modulo.emitted_cycles(loop, HEXAGON)


# Two circles that bounds do not see together: a permute each, and an order between them.
KNOT = (
    "v1 = valign(v1,v2,r1)", "v2 = valign(v2,v1,r1)", "v3 = valign(v3,v4,r1)",
    "v4.w = vadd(v3.w,v1.w)",
)  # fmt: skip


def test_z3_agrees_with_the_heuristic() -> None:
    refused = []
    for loop in (loop_of(*KNOT), *loops("int32 sum", "hexagon"), *loops("int8 relu", "hexagon")):
        found = optimal.schedule(loop, HEXAGON, 5.0)
        assert found is not None
        end = time.monotonic() + 20
        answer = optimal.solve(loop, HEXAGON, found.interval, end)
        assert isinstance(answer, tuple)
        require_valid(loop, HEXAGON, found.interval, answer)
        if found.interval > 1 and found.is_minimal:
            refused.append(optimal.solve(loop, HEXAGON, found.interval - 1, end))
    # Where dependences allow more stages than are tried, no schedule is no proof.
    assert set(refused) <= {"none", "unknown"}
    assert "none" in refused


def test_deadlines_are_kept() -> None:
    (loop,) = loops("int32 matmul", "hexagon")
    began = time.monotonic()
    optimal.schedule(loop, HEXAGON, 0.5)
    assert time.monotonic() - began < 15  # conditions are made in some seconds


def test_without_z3_there_is_the_heuristic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)
    (loop,) = loops("int8 dot", "hexagon")
    found = optimal.schedule(loop, HEXAGON)
    assert found is not None
    assert found.is_minimal


def test_unknown_instructions_have_no_schedule() -> None:
    assert optimal.schedule(loop_of("v1 = vnovel(v2)"), HEXAGON) is None
