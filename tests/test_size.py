"""Lines of code are bounded, room by room."""

from __future__ import annotations

import pytest

from tests import size

STALE = 1.06
"""A bound so far above its room is lowered, so that what was deleted stays deleted."""


@pytest.mark.parametrize("room", size.ROOMS, ids=lambda room: room.name)
def test_no_room_outgrows_its_bound(room: size.Room) -> None:
    now = size.size(room)
    assert now.lines <= room.bound, (
        f"{room.name} has {now.lines} lines of code, {room.bound} are allowed: delete as many, or "
        "raise the bound in tests/size.py and say why in its row"
    )
    assert room.bound <= now.lines * STALE + 30, (
        f"{room.name} has {now.lines} lines of code: lower its bound in tests/size.py"
    )
    assert now.density <= room.density, "lines of code are fewer, and denser"


@pytest.mark.parametrize("total", size.BOUNDS)
def test_bounds_of_rooms_sum_to_those_of_the_whole(total: str) -> None:
    allowed = sum(room.bound for room in size.ROOMS if room.group in size.GROUPS[total])
    assert allowed <= size.BOUNDS[total]


def test_rows_of_loops_stand_in_few_files() -> None:
    files = size.places(size.FIGURES["files with a row `Op.SCAN:`"])
    assert len(files) <= size.MOST_FILES_WITH_ROWS_OF_LOOPS, f"rules of loops are in {files}"


def test_each_bound_has_a_reason() -> None:
    assert all(room.reason for room in size.ROOMS)


def test_comments_and_docstrings_are_no_code() -> None:
    text = '"""A module."""\n\n# why\nx = """\n\na"""  # three lines\n"""Its docs."""\n'
    assert size.count(text) == (3, 3)
    assert size.assembly("; why\n\nret i64 0 ; done\n") == (1, 3)
