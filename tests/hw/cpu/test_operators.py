"""The table of operators: what it learns, what it leaves to methods, and how long it keeps."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.hw.entries import Toy, entry, numbers, toy
from tfn._support import cache
from tfn.hw.cpu import native, operators
from tfn.hw.cpu.device import cpu
from tfn.hw.device import Device, Operation


def adder() -> type:
    """A new class of arrays of the tests' own, with methods that say who was called."""

    class Adder:
        __slots__ = Toy.__slots__
        __hash__ = None  # type: ignore[assignment]

        def __add__(self, other: Any) -> Any:
            return NotImplemented if isinstance(other, str) else ("add", self, other)

        def __radd__(self, other: Any) -> Any:
            return "radd", self, other

        def __pow__(self, other: Any) -> Any:
            return "pow", self, other

        def __neg__(self) -> Any:
            return "neg", self

        def __lt__(self, other: Any) -> Any:
            return "lt", self, other

        def __ge__(self, other: Any) -> Any:
            return "ge", self, other

    return Adder


class Learner:
    """Answers each operation with an entry that it was given, and counts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.next = Operation("python")

    def __call__(self, method: str, reflected: str, left: Any, right: Any) -> Operation:
        self.asked.append((method, reflected))
        return self.next


@pytest.fixture
def served(monkeypatch: Any) -> tuple[Device, Learner, type]:
    monkeypatch.setattr(cache, "AT_TURN", list(cache.AT_TURN))
    own, learner = cpu(), Learner()
    array = adder()
    own.queue.serve(array, learner)
    return own, learner, array


def make(on: Device, array: type, value: float = 1) -> Any:
    x, like = array(), toy(on, value)
    for name in Toy.__slots__:
        setattr(x, name, getattr(like, name))
    return x


def test_the_first_operation_is_learnt_and_others_enter(served: Any) -> None:
    on, learner, array = served
    x, y = make(on, array, 2), make(on, array, 5)
    learner.next = Operation("first", entry(on), ("right",))
    assert x + y == "first" and learner.asked == [("__add__", "__radd__")]
    learner.next = Operation("again")
    assert numbers(on, x + y)[0] == 15 and numbers(on, y + x)[0] == 6
    assert len(learner.asked) == 1
    cache.turn()
    assert x + y == "again"


def test_what_no_program_serves_is_the_method(served: Any) -> None:
    on, learner, array = served
    x, y = make(on, array), make(on, array)
    assert x + y == "python" and x + y == ("add", x, y) and len(learner.asked) == 1
    assert None + x == ("radd", x, None)
    with pytest.raises(TypeError):
        x + "a"
    assert -x == "python" and -x == ("neg", x)
    assert (x < y) == "python" and (x < y) == ("lt", x, y) and x >= 3
    with pytest.raises(TypeError):
        pow(x, 2, 3)
    x.kind = None  # as of a value that is traced
    assert x + y == ("add", x, y)


def test_an_entry_that_refuses_leaves_the_operation_to_the_method(served: Any) -> None:
    on, learner, array = served
    x, y = make(on, array), make(on, array)
    learner.next = Operation("first", entry(on), ("left",))
    assert x + y == "first"
    x.buffer = None
    assert x + y == ("add", x, y)


def test_exponents_have_rows_of_their_own(served: Any) -> None:
    on, learner, array = served
    x = make(on, array)
    learner.next = Operation("square", entry(on), ("left",))
    assert x**2 == "square" and numbers(on, x**2)[0] == 3
    assert x**3 == "square" and len(learner.asked) == 2
    assert x**1000 == ("pow", x, 1000) and x ** (1 << 70) == ("pow", x, 1 << 70)


def test_rows_keep_programs_until_the_caches_turn(served: Any) -> None:
    on, learner, array = served
    x = make(on, array)
    enter = entry(on)
    before = sys.getrefcount(enter)
    learner.next = Operation("first", enter, ("left",))
    assert x + x == "first"
    learner.next = Operation("python")
    assert sys.getrefcount(enter) == before + 1
    cache.turn()
    assert sys.getrefcount(enter) == before


def test_methods_of_slots_are_numbered_in_order() -> None:
    assert native.OPERATOR_METHODS[native.POWER] == ("__pow__", "__rpow__")
    assert len(set(native.OPERATOR_METHODS)) == len(native.OPERATOR_METHODS)
    assert native.OPERATOR_METHODS[-6:] == native.SLOTS[-1].methods


def test_types_of_another_layout_keep_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    filled = {slot.name for slot, _ in operators._slots(adder())}
    assert {"add", "power", "compare"} <= filled
    monkeypatch.setattr(operators, "_COMPARISON_AT", operators._COMPARISON_AT - 8)
    assert operators._slots(adder()) == []
