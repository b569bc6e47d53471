"""Pytrees in native code: containers of arguments and of results."""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hw.entries import device, entry, numbers, toy
from tfn import tree
from tfn.dtypes import FLOAT32
from tfn.hw.cpu import native

Pair = namedtuple("Pair", "a b")


@tree.register_dataclass
@dataclass(frozen=True)
class Layer:
    weight: Any
    name: str = field(metadata={"static": True})
    inner: Any = None


@tree.register_dataclass
@dataclass(slots=True)
class Slotted:
    x: Any


class Lazy:
    """Its field is computed anew each time: there is nothing to borrow."""

    def __init__(self, x: Any) -> None:
        self.make = lambda: x

    @property
    def x(self) -> list[Any]:
        return [self.make()]


tree.register_dataclass(Lazy, ["x"])
shapes = st.recursive(
    st.just(0) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def on() -> Any:
    return the_device()


def filled(shape: Any, leaves: Any) -> Any:
    """A tree with its leaves replaced, in its own order; None is no leaf."""
    if shape is None:
        return None
    if isinstance(shape, dict):
        return {key: filled(child, leaves) for key, child in shape.items()}
    if isinstance(shape, (list, tuple)):
        return type(shape)([filled(child, leaves) for child in shape])
    return next(leaves)


def shown(x: Any) -> Any:
    """A tree with the first number of each array."""
    return tree.map(lambda leaf: leaf.buffer.view((5,), FLOAT32)[0].item(), x)


@cache
def the_device() -> Any:
    return device()


@given(st.lists(shapes, max_size=3), st.randoms(use_true_random=False))
def test_trees_of_arguments_and_results_round_trip(arguments: list[Any], random: Any) -> None:
    on = the_device()
    count = len(tree.leaves(arguments))
    order = random.sample(range(count), count)
    takes, gives = filled(arguments, iter(range(count))), filled(arguments, iter(order))
    enter = entry(on, takes, gives, count=count)
    xs = [toy(on, i + 1) for i in range(count)]
    live = on.memory.pool.live_bytes
    for _ in range(3):
        found = enter(*filled(arguments, iter(xs)))
        if found is NotImplemented:  # an empty free list
            spare = [on.memory.allocate(20) for _ in range(count)]
            del spare
            found = enter(*filled(arguments, iter(xs)))
        assert shown(found) == filled(arguments, iter([3.0 * (i + 1) for i in order]))
    del found
    assert on.memory.pool.live_bytes <= live  # less, if garbage of other tests was collected


def test_dicts_match_in_any_order_and_results_keep_theirs(on: Any) -> None:
    enter = entry(on, [{"a": 0, "b": 1}], {"z": 1, "y": 0}, count=2)
    found = enter({"b": toy(on, 2), "a": toy(on, 1)})
    assert list(found) == ["z", "y"]
    assert [numbers(on, y)[0] for y in found.values()] == [6, 3]


def test_other_containers_are_refused(on: Any) -> None:
    x = toy(on)
    enter = entry(on, [[0, (1,), {"a": 2}, None]], [0, 1, 2], count=3)
    assert enter([x, (x,), {"a": x}, None]) is not NotImplemented
    for other in (
        [x, (x,), {"b": x}, None],
        [x, (x,), {"a": x, "b": x}, None],
        [x, (x,), {}, None],
        [x, [x], {"a": x}, None],
        [x, (x, x), {"a": x}, None],
        [x, (), {"a": x}, None],
        [x, (x,), {"a": x}],
        [x, (x,), {"a": x}, None, None],
        [x, (x,), {"a": x}, x],
        (x, (x,), {"a": x}, None),
        [x, (x,), OrderedDict(a=x), None],
        x,
        None,
        3,
        [x, (x,), {1: x}, None],
        [x, x, x, x],
        [[x], (x,), {"a": x}, None],
    ):
        assert enter(other) is NotImplemented
    assert sys.exc_info() == (None, None, None)


def test_errors_of_key_comparison_are_not_raised(on: Any) -> None:
    class Bad:
        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

    enter = entry(on, [{"a": 0}])
    assert enter({Bad(): toy(on)}) is NotImplemented


@pytest.mark.parametrize("takes", [({1: 0},), (OrderedDict(a=0),), (1.5,)], ids=str)
def test_trees_without_native_entries(on: Any, takes: Any) -> None:
    assert entry(on, takes) is None


def test_depth_of_entries_is_limited(on: Any) -> None:
    deep: Any = 0
    for _ in range(2000):
        deep = [deep]
    assert entry(on, [deep]) is None


@pytest.mark.parametrize("over", [0, 1])  # the most that the stack takes, and one more
def test_width_of_entries_is_not_limited(on: Any, over: int) -> None:
    count = native.STACK_WORDS // 5 + over
    enter = entry(on, [list(range(count))], list(range(count)), count=count)
    assert enter is not None
    arrays = [toy(on, float(i)) for i in range(count)]
    spare = [toy(on) for _ in range(count)]
    del spare  # free blocks for the results
    results = enter(arrays)
    assert len(results) == count and enter([*arrays[:-1], None]) is NotImplemented
    assert numbers(on, results[-1]) == [3.0 * (count - 1)] * 5


def test_named_tuples_and_dataclasses(on: Any) -> None:
    name = "first"
    takes = [Layer(0, name, Pair(1, Slotted([2])))]
    enter = entry(on, takes, Pair(Slotted(2), Layer(0, name, {"a": 1})), count=3)
    xs = [toy(on, i) for i in range(3)]
    x = Layer(xs[0], name, Pair(xs[1], Slotted([xs[2]])))
    watched = [*xs, x, Pair, Layer, Slotted, name, tuple.__new__]
    shown(enter(x))  # structures are remembered with their classes
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(1000):
        found = enter(x)
        enter(Layer(xs[0], "second", x.inner))
    assert type(found) is Pair and type(found.a) is Slotted and type(found.b) is Layer
    assert shown(found) == Pair(Slotted(6.0), Layer(0.0, "first", {"a": 3.0}))
    del found
    assert [sys.getrefcount(each) for each in watched] == before

    class Other(Layer):
        pass

    half = object.__new__(Layer)
    object.__setattr__(half, "name", name)
    for other in (
        Layer(xs[0], "other", x.inner),
        Layer(xs[0], name),
        Other(*vars(x).values()),
        Layer(xs[0], name, (xs[1], x.inner.b)),
        half,
        vars(x),
    ):
        assert enter(other) is NotImplemented
    assert enter(x) is not NotImplemented


def test_computed_attributes_are_refused(on: Any) -> None:
    enter = entry(on, [Lazy(0)])
    assert enter is not None and enter(Lazy(toy(on))) is NotImplemented
