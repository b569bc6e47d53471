"""Frozen dataclasses with slots that cost nothing until they are used.

`dataclass` writes the methods of a class as text and compiles them, half a millisecond for each
class: that would be half the time of importing tfn.  Here they are written when the first instance
is made.  What they do is the same.

Source: the Python documentation, library/dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

_WRITTEN = (
    "__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__",
    "__getstate__", "__setstate__", "__dataclass_fields__", "__dataclass_params__",
    "__match_args__",
)  # fmt: skip
"""What `dataclass` gives a class."""


@dataclass_transform(frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """A class as ``dataclass(frozen=True, slots=True)`` makes it, at its first use.

    Example:
        >>> @frozen
        ... class Point:
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0)
        Point(x=1.0, y=0.0)
        >>> Point(1.0) == Point(1.0, 0.0), len({Point(1.0), Point(1.0)})
        (True, 1)
    """
    names = tuple(cls.__annotations__)
    own = {k: v for k, v in vars(cls).items() if k not in (*names, "__dict__", "__weakref__")}

    def write() -> None:
        whole = dataclass(frozen=True, slots=True)(cls)
        for name in _WRITTEN:
            if name in vars(whole) and (name not in own or name in unwritten):
                setattr(made, name, vars(whole)[name])

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        write()
        self.__init__(*args, **kwargs)

    def setstate(self: Any, state: Any) -> None:
        write()
        self.__setstate__(state)

    unwritten = {"__init__": init, "__setstate__": setstate}
    members = {**own, **unwritten, "__slots__": names}
    made: type[T] = type(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made
