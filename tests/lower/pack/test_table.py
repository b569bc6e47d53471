"""Tables of schedules: a row for each cycle, every instruction once."""

from __future__ import annotations

from tests.lower.pack.loops import loops
from tests.lower.pack.test_dependences import loop_of
from tfn.lower.pack import optimal, table
from tfn.lower.pack.machine import HEXAGON


def test_a_row_for_each_cycle() -> None:
    (loop,) = loops("int16 axpy", "hexagon")
    found = optimal.schedule(loop, HEXAGON)
    assert found is not None
    lines = table.table(loop, HEXAGON, found).splitlines()
    assert lines[0].split() == ["cycle", "S0", "S1", "S2", "S3"]
    assert len(lines) == found.interval + 1
    for item in loop.body:
        assert any(item.text[:20] in line for line in lines)
    assert "minimal: the units take as many" in table.heading(loop, HEXAGON, found)


def test_what_has_no_row_is_named() -> None:
    text = table.heading(loop_of("v1 = vnovel(v2)"), HEXAGON, None)
    assert "vnovel" in text
