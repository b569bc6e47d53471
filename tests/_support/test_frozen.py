"""They behave as frozen dataclasses with slots, from the first instance on."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading

import pytest

from tfn._support.frozen import frozen, mutable


@frozen
class Point:
    """A place."""

    x: float
    y: float = 0.5

    @property
    def both(self) -> tuple[float, float]:
        return self.x, self.y


@dataclasses.dataclass(frozen=True, slots=True)
class Usual:
    """A place."""

    x: float
    y: float = 0.5


@frozen
class Checked:
    n: int
    names: tuple[str, ...] = dataclasses.field(default_factory=lambda: ("a",))

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("negative")

    def __repr__(self) -> str:
        return f"<{self.n}>"


def test_instances_are_as_usual() -> None:
    one, usual = Point(1.0), Usual(1.0)
    assert repr(one) == repr(usual).replace("Usual", "Point")
    assert one == Point(1.0, 0.5) != Point(1.0, 1.0) and one != usual
    assert hash(one) == hash(Point(1.0)) and len({one, Point(1.0), Point(2.0)}) == 2
    assert one.both == (1.0, 0.5) and not hasattr(one, "__dict__")
    assert dataclasses.replace(one, x=3.0) == Point(3.0)
    assert [f.name for f in dataclasses.fields(one)] == ["x", "y"]
    assert dataclasses.astuple(one) == (1.0, 0.5)
    assert copy.deepcopy(one) == one and pickle.loads(pickle.dumps(one)) == one
    match one:
        case Point(x, y):
            assert (x, y) == (1.0, 0.5)
    assert (Point.__doc__, Point.__name__, Point.__module__) == ("A place.", "Point", __name__)


def test_instances_are_frozen() -> None:
    one = Point(1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    with pytest.raises((AttributeError, TypeError)):
        one.z = 2.0  # type: ignore[attr-defined]


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="missing 1 required"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(x=1.0, z=2.0)  # type: ignore[call-arg]


def test_own_methods_and_factories_stay() -> None:
    assert repr(Checked(3)) == "<3>" and Checked(3).names == ("a",)
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_an_instance_may_come_before_the_first_is_made() -> None:
    """Unpickled in a process that has made none."""
    script = (
        "import pickle, sys; from tfn.trace.argument import Access;"
        "x = pickle.loads(sys.stdin.buffer.read());"
        "assert x == Access(1, 2, 3) and hash(x) == hash(Access(1, 2, 3)); print(x)"
    )
    from tfn.trace.argument import Access

    ended = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(Access(1, 2, 3)),
        capture_output=True,
        check=True,
    )
    assert ended.stdout.decode().strip() == "Access(offset=1, lanes=2, stride=3)"


@mutable
class Sum:
    parts: list[int] = dataclasses.field(default_factory=list)
    scale: int = 1

    def total(self) -> int:
        return self.scale * sum(self.parts)


def test_mutable_ones_change_and_are_themselves() -> None:
    one, other = Sum(), Sum()
    one.parts.append(3)
    one.scale += 1
    assert one.total() == 6 and other.parts == []
    assert one != Sum([3], 2) and len({one, other}) == 2
    assert repr(one) == "Sum(parts=[3], scale=2)" and not hasattr(one, "__dict__")
    assert dataclasses.replace(one, scale=5).total() == 15
    again = pickle.loads(pickle.dumps(one))
    assert (again.parts, again.scale) == (one.parts, one.scale)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]


def test_fields_may_stay_out() -> None:
    assert Partial(1, "a") == Partial(1, "b") and hash(Partial(1, "a")) == hash(Partial(1))
    assert repr(Partial(1, "a")) == "Partial(n=1)" and Partial(1).note == ""
    nan = float("nan")
    assert One(nan) == One(nan) != One(1.0) and hash(One(2.0)) == hash(One(2))
    assert str(inspect.signature(Partial)) == "(n: 'int', note: 'str' = '') -> None"


@frozen
class Partial:
    """Of which a part counts."""

    n: int
    note: str = dataclasses.field(default="", compare=False, repr=False)


@frozen
class One:
    """Of a single value."""

    value: float


def test_fields_of_a_class_without_instances() -> None:
    for decorate in (frozen, mutable):

        @decorate
        class Fresh:
            """New each time."""

            x: int
            y: str = ""

        assert dataclasses.is_dataclass(Fresh)
        assert [f.name for f in dataclasses.fields(Fresh)] == ["x", "y"]
        assert Fresh(1).y == ""


def test_threads_may_make_the_first_instances_together() -> None:
    for _ in range(50):

        @frozen
        class Fresh:
            """New each time."""

            x: int
            names: list[str] = dataclasses.field(default_factory=list, compare=False)

        threads = 8
        ready, made = threading.Barrier(threads), []

        def make(cls: type[Fresh], ready: threading.Barrier, made: list[Fresh]) -> None:
            ready.wait()
            made.append(cls(1))
            hash(made[-1])

        workers = [threading.Thread(target=make, args=(Fresh, ready, made)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(made) == threads and len(set(made)) == 1
