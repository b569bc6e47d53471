"""The tour: what it prints, that its rooms are small, and that the files it names are there."""

from __future__ import annotations

from pathlib import Path

import pytest
import tour

from tests.conftest import Golden

ROOT = Path(__file__).parents[2]


def test_it_prints_the_same_everywhere(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    pytest.importorskip("z3", reason="the room of the laws asks z3")
    assert tour.main([]) == 0
    golden("tour.txt", capsys.readouterr().out)


@pytest.mark.parametrize("room", tour.ROOMS, ids=lambda room: room.name)
def test_rooms_are_small_and_lead_on(room: tour.Room) -> None:
    assert 0 < len(tour.code(room).splitlines()) <= 12
    assert (ROOT / room.open).exists()
    assert room.holds and room.visit.__doc__
