"""Arguments found by number and by name, and calls split by them."""

from __future__ import annotations

from typing import Any

import pytest

from tfn.errors import ArgumentError, StaticArgumentError
from tfn.transforms.static_args import Selection


def f(a: Any, b: Any, *, c: Any = 0) -> Any:
    return a, b, c


def g(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def test_by_number_and_by_name() -> None:
    assert Selection.of(f, "static", 1, ()) == Selection(frozenset({1}), frozenset({"b"}))
    assert (
        Selection.of(f, "static", (), "b")
        == Selection.of(f, "static", -1, ())
        == Selection.of(f, "static", 1, "b")
    )
    assert Selection.of(f, "static", (), ["a", "c"]) == Selection(
        frozenset({0}), frozenset({"a", "c"})
    )
    assert Selection.of(g, "static", (4, -1), "any") == Selection(
        frozenset({4, -1}), frozenset({"any"})
    )
    assert Selection.of(dict, "static", 0, "x") == Selection(frozenset({0}), frozenset({"x"}))
    assert not Selection.of(f, "static", (), ())


@pytest.mark.parametrize(("numbers", "names"), [(2, ()), (-3, ()), ((), "d")])
def test_refused(numbers: Any, names: Any) -> None:
    with pytest.raises(ArgumentError, match="f has no argument"):
        Selection.of(f, "static", numbers, names)


def test_split_and_join() -> None:
    chosen = Selection.of(f, "static", 0, "c")
    split = chosen.split(f, (1, 2), {"c": 3})
    assert split.dynamic == ((2,), {})
    assert split.statics == ((0, int, 1), ("c", int, 3))
    assert split.join((("two",), {})) == ([1, "two"], {"c": 3})
    assert chosen.split(f, (), {"a": 1, "b": 2, "c": 3}).dynamic == ((), {"b": 2})
    assert chosen.split(f, (True, 2), {}).statics != chosen.split(f, (1, 2), {}).statics


def test_a_negative_position_counts_from_the_end_of_the_call() -> None:
    split = Selection.of(g, "static", -1, ()).split(g, (1, 2, 3), {})
    assert split.dynamic[0] == (1, 2) and split.statics == ((2, int, 3),)


def test_nothing_chosen() -> None:
    split = Selection().split(f, (1, [2]), {})
    assert split.dynamic == ((1, [2]), {}) and split.join(split.dynamic) == split.dynamic


def test_unhashable() -> None:
    with pytest.raises(StaticArgumentError, match="the static argument a of f cannot be hashed"):
        Selection.of(f, "static", 0, ()).split(f, ([], 1), {})
