"""Dataclasses with slots that cost nothing until they are used: `frozen` and `mutable` ones.

`dataclass` writes each method of a class as text and compiles it, half a millisecond for a class:
for those of a compiler that is more than a small program takes to compile.  Here the methods
that are called most are one text, which is compiled when the first instance is made; all classes
share the others.  What they do is the same.

Source: the Python documentation, library/dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from threading import RLock
from typing import Any, NoReturn, TypeVar, dataclass_transform

from tfn._support.sections import section

T = TypeVar("T")
_WRITING = RLock()


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
    return _slotted(cls, _FROZEN)


@dataclass_transform(eq_default=False)
def mutable(cls: type[T]) -> type[T]:
    """A class as ``dataclass(slots=True, eq=False)`` makes it, at its first use.

    Example:
        >>> @mutable
        ... class Total:
        ...     value: float = 0.0
        >>> total = Total()
        >>> total.value += 2.5
        >>> total
        Total(value=2.5)
    """
    return _slotted(cls, {})


def _slotted(cls: type[T], methods: dict[str, Any]) -> type[T]:
    """The class with slots, and with methods that write the rest of it when one is called."""
    names = tuple(cls.__annotations__)
    own = {k: v for k, v in vars(cls).items() if k not in (*names, "__dict__", "__weakref__")}

    def write() -> None:
        with section(), _WRITING:
            if not isinstance(vars(made)["__dataclass_fields__"], _LateFields):
                return  # by another thread
            whole: Any = dataclass(init=False, repr=False, eq=False)(cls)
            found = {name: vars(whole)[name] for name in _OF_ALL if name in vars(whole)}
            found |= _methods(made, fields(whole), equal=methods is _FROZEN)
            for name, value in found.items():
                if name not in own:
                    setattr(made, name, value)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        write()
        self.__init__(*args, **kwargs)

    def setstate(self: Any, state: Any) -> None:
        write()
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    late: dict[str, Any] = {"__init__": init}
    late |= {"__setstate__": setstate} if methods else {}
    late["__dataclass_fields__"] = _LateFields(write)
    members = {"__repr__": _repr, **methods, **late, **own, "__slots__": names}
    made: type[T] = type(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made


class _LateFields:
    """The fields of a class without instances, for `dataclasses.fields`: written when asked for."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.write = write

    def __get__(self, instance: Any, cls: type[Any]) -> Any:
        self.write()
        return cls.__dataclass_fields__


_OF_ALL = ("__dataclass_fields__", "__match_args__", "__replace__")
"""What other functions of `dataclasses`, and of Python, look for."""


def _methods(cls: type[Any], given: Sequence[Field[Any]], equal: bool) -> dict[str, Any]:
    """The methods that are called most, as text: ``__init__``, and those of equality if asked for.

    The first fills the slots past ``__setattr__``, which may refuse.
    """
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], []
    for f in given:
        value = parameter = f.name
        names[f"put_{f.name}"] = vars(cls)[f.name].__set__
        if f.default is not MISSING:
            names[f"default_{f.name}"] = f.default
            parameter = f"{f.name}=default_{f.name}"
        elif f.default_factory is not MISSING:
            names[f"make_{f.name}"] = f.default_factory
            parameter = f"{f.name}=MISSING"
            value = f"make_{f.name}() if {f.name} is MISSING else {f.name}"
        parameters.append(parameter)
        lines.append(f"put_{f.name}(self, {value})")
    lines += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = ""
    if equal:
        mine = "".join(f"self.{f.name}, " for f in given if f.compare)
        its = "".join(f"other.{f.name}, " for f in given if f.compare)
        text = f"""
def __hash__(self): return hash(({mine}))
def __eq__(self, other):
 return ({mine}) == ({its}) if other.__class__ is self.__class__ else NotImplemented
"""
    # The last one, since a thread that finds it written finds the others too.
    text += f"def __init__({', '.join(parameters)}):\n " + "\n ".join([*lines, "pass"])
    found: dict[str, Any] = {}
    exec(text, names, found)
    for name, method in found.items():
        method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    found["__init__"].__annotations__ = {**{f.name: f.type for f in given}, "return": None}
    return found


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


_FROZEN = {"__setattr__": _setattr, "__delattr__": _delattr, "__getstate__": _getstate}
