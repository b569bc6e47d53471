"""Covers of parameters have what they promise, in few rows, the same ones each time."""

from __future__ import annotations

from itertools import product

import pytest

from tests import covering
from tests.covering import cover

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


def test_sets_have_one_order_in_every_process() -> None:
    assert cover({"b", "a", "c"}) == cover(frozenset("cab")) == [("a",), ("b",), ("c",)]
