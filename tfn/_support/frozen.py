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
    """A class with slots, whose first methods compile the others when one is called."""
    names = tuple(cls.__annotations__)
    own = {k: v for k, v in vars(cls).items() if k not in (*names, "__dict__", "__weakref__")}

    def write() -> None:
        with section(), _WRITING:
            if not isinstance(vars(slotted)["__dataclass_fields__"], _LateFields):
                return  # by another thread
            whole: Any = dataclass(init=False, repr=False, eq=False)(cls)
            written = {name: vars(whole)[name] for name in _OF_ALL if name in vars(whole)}
            written |= _methods(slotted, fields(whole), equal=methods is _FROZEN)
            for name, value in written.items():
                if name not in own:
                    setattr(slotted, name, value)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        write()
        self.__init__(*args, **kwargs)

    def setstate(self: object, state: Any) -> None:
        write()
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    late: dict[str, Any] = {"__init__": init}
    late |= {"__setstate__": setstate} if methods else {}
    late["__dataclass_fields__"] = _LateFields(write)
    members = {"__repr__": _repr, **methods, **late, **own, "__slots__": names}
    slotted: type[T] = type(cls.__name__, cls.__bases__, members)
    slotted.__qualname__ = cls.__qualname__
    return slotted


class _LateFields:
    """The fields of a class without instances, compiled when `dataclasses.fields` reads them."""

    def __init__(self, write: Callable[[], None]) -> None:
        self.write = write

    def __get__(self, instance: object, cls: type[Any]) -> Any:
        self.write()
        return cls.__dataclass_fields__


_OF_ALL = ("__dataclass_fields__", "__match_args__", "__replace__")
"""Attributes that other functions of `dataclasses`, and of Python, read."""


def _methods(cls: type[Any], fields_: Sequence[Field[Any]], equal: bool) -> dict[str, Any]:
    """Compiles the methods that are called most, from one text: ``__init__``; equality if `equal`.

    ``__init__`` fills the slots past ``__setattr__``, which may refuse.
    """
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], []
    for f in fields_:
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
        mine = "".join(f"self.{f.name}, " for f in fields_ if f.compare)
        its = "".join(f"other.{f.name}, " for f in fields_ if f.compare)
        text = f"""
def __hash__(self): return hash(({mine}))
def __eq__(self, other):
 return ({mine}) == ({its}) if other.__class__ is self.__class__ else NotImplemented
"""
    # Last, so that a thread that sees it sees the others too.
    text += f"def __init__({', '.join(parameters)}):\n " + "\n ".join([*lines, "pass"])
    methods: dict[str, Any] = {}
    # As a file of tfn: a message about a call of the user does not name a line of this text.
    exec(compile(text, f"{__file__}:{cls.__qualname__}", "exec"), names, methods)
    for name, method in methods.items():
        method.__qualname__, method.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    methods["__init__"].__annotations__ = {**{f.name: f.type for f in fields_}, "return": None}
    return methods


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__slots__]


_FROZEN = {"__setattr__": _setattr, "__delattr__": _delattr, "__getstate__": _getstate}
