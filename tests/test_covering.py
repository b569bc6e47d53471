"""Covers of parameters have what they promise, in few rows, the same ones each time."""

from __future__ import annotations

from inspect import signature
from itertools import product
from pathlib import Path

import pytest

from tests import covering
from tests.covering import cover, in_turn, together

LISTS = ("abcdefg", range(4), (True, False), "xyz")


@pytest.mark.parametrize("pairs", [(), [(1, 2)], [(0, 1), (2, 3)], [(0, 1), (0, 3), (1, 3)]])
def test_each_value_and_each_wanted_pair_is_there(pairs: list[tuple[int, int]]) -> None:
    rows = cover(*LISTS, pairs=pairs)
    assert rows == cover(*LISTS, pairs=pairs) and {*rows} <= {*product(*LISTS)}
    for i, values in enumerate(LISTS):
        assert {row[i] for row in rows} == {*values}
    for i, j in pairs:
        assert {(row[i], row[j]) for row in rows} == {*product(LISTS[i], LISTS[j])}


def test_rows_are_few_and_their_pairs_are_mixed() -> None:
    assert len(cover(*LISTS)) == 7
    assert len(cover(*LISTS, pairs=[(0, 1)])) == 28
    assert len(cover(*LISTS, pairs=[(0, 1), (0, 3), (1, 3)])) <= 30
    rows = cover(range(12), range(6), range(3), pairs=[(0, 2)])
    assert len(rows) == 36 and len({row[1:] for row in rows}) == 18


def test_every_combination_is_there_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "exhaustive", True)
    assert cover(*LISTS) == list(product(*LISTS))


@pytest.mark.parametrize("one_in", [2, 3, 4, 6, 12])
def test_every_row_has_a_turn(one_in: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, taken = [*product("abcdefg", "xy", range(6))], []
    for turn in range(one_in):
        monkeypatch.setattr(covering, "turn", turn)
        taken.append(in_turn(one_in, rows))
        assert abs(len(taken[-1]) - len(rows) / one_in) < 1
        assert {row[1] for row in taken[-1]} == {*"xy"} and len({row[2] for row in taken[-1]}) > 1
    assert sorted(row for some in taken for row in some) == sorted(rows)
    assert taken[0][0] == rows[0]


def test_all_rows_are_taken_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covering, "exhaustive", True)
    assert in_turn(6, "abcdefgh") == [*"abcdefgh"]


def test_sets_have_one_order_in_every_process() -> None:
    assert cover({"b", "a", "c"}) == cover(frozenset("cab")) == [("a",), ("b",), ("c",)]


def test_rows_of_one_test_all_run_and_errors_name_theirs(tmp_path: Path) -> None:
    seen = []

    @together("size", range(3))
    @together("name, value", [("a", 0), ("b", 1)])
    def check(name: str, value: int, size: int, tmp_path: Path) -> None:
        seen.append((size, name, tmp_path))
        assert value + size != 3 and (size or value), "wrong"

    assert [*signature(check).parameters] == ["tmp_path"]
    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as caught:
        check(tmp_path=tmp_path)
    assert seen == [(size, name, tmp_path) for size in range(3) for name in "ab"]
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes[0] == ["where name, value is 'a', 0", "where size is 0"]
    assert notes[1] == ["where name, value is 'b', 1", "where size is 2"]
