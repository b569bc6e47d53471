"""A closed function with its signature, that needs nothing of the Python it was traced from.

Arguments are known by their paths: the position or the name of an argument, then keys, numbers and
names of fields.  So a class of the user's comes in as itself, or as a dict of its fields, and what
is returned in such a class comes back as a dict of them: bytes do not hold classes.

    def step(network, x): ...                  takes  (0, "weight"), (0, "bias"), (1,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from tfn import tree
from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.errors import ArgumentError, DTypeError, ExportError, ShapeError
from tfn.exporting.container import read_again, written
from tfn.trace import bind
from tfn.trace.argument import Param
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Shape
from tfn.transforms.arguments import as_value, name_of, show
from tfn.transforms.jit import Jitted
from tfn.transforms.shapes import ShapeDtypeStruct

Path = tuple[str | int, ...]
Outline = Any
"""A tree of results: a number of an output, None, or (kind, keys, outlines)."""


@frozen
class Input:
    """One array that a function takes: where it stands among the arguments, and its type."""

    path: Path
    shape: Shape
    dtype: DType
    weak: bool

    def __str__(self) -> str:
        return place(self.path)


def place(path: Path) -> str:
    """A path as messages show it.

    Example:
        >>> place((0, "w")), place(("scale",))
        ("argument 0['w']", 'scale')
    """
    first, rest = path[0], path[1:]
    name = f"argument {first}" if isinstance(first, int) else first
    return name + "".join(f"[{key!r}]" for key in rest)


@dataclass(frozen=True, slots=True, eq=False)
class Portable:
    """A function that can be called, transformed and serialized.

    Attributes:
        jaxpr: closed: it takes the inputs, then what was captured.
        inputs: by position.
        captured: arrays that belong to it.
        outputs: how results are nested.
        weak: which results are weak.
    """

    jaxpr: Jaxpr
    inputs: tuple[Input, ...]
    captured: tuple[Any, ...]
    outputs: Outline
    weak: tuple[bool, ...]

    @staticmethod
    def of(jaxpr: Jaxpr) -> Portable:
        """A closed function as one that takes its parameters by position, and gives a tuple."""
        inputs = tuple(Input((p.index,), p.shape, p.dtype, False) for p in jaxpr.params)
        count = len(jaxpr.outputs)
        outputs = ("tuple", (), tuple(range(count))) if count != 1 else 0
        return Portable(jaxpr, inputs, (), outputs, (False,) * count)

    @property
    def in_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the arrays it takes."""
        return tuple(ShapeDtypeStruct(i.shape, i.dtype, i.weak) for i in self.inputs)

    @property
    def out_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the arrays it gives."""
        found = zip(self.jaxpr.outputs, self.weak, strict=True)
        return tuple(ShapeDtypeStruct(u.shape, u.dtype, weak) for u, weak in found)

    @property
    def call(self) -> Callable[..., Any]:
        """The function, under the name that JAX gives it."""
        return self.__call__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function of arguments, which may be traced.

        Raises:
            ArgumentError: naming arrays that are missing, or that it does not take.
            ShapeError, DTypeError: naming an array of another type.
        """
        values = [_fit(i, x) for i, x in zip(self.inputs, arranged(self.inputs, args, kwargs))]
        return nested(self.outputs, bind.call(self.jaxpr, [*values, *self.captured], self.weak))

    def serialize(self) -> bytes:
        """The function as bytes; see `tfn.export.serialize`.

        Raises:
            ExportError: naming what bytes cannot hold.
        """
        inputs = tuple((i.path, i.shape, i.dtype, i.weak) for i in self.inputs)
        arrays = stored(self.captured)
        return read_again(written(self.jaxpr), inputs, arrays, self.outputs, self.weak, ())

    def check(self) -> None:
        """Refuse a signature that is not that of the function.

        Raises:
            ExportError: if it is not.
        """
        agree(self, self.jaxpr.params, len(self.jaxpr.outputs))

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(show, avals)) for avals in (self.in_avals, self.out_avals))
        return f"<a function of ({takes}) -> ({gives})>"


class Signature(Protocol):
    """What a function takes and gives; see `Portable`."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The arrays that it is called with."""

    @property
    def captured(self) -> tuple[Any, ...]:
        """The arrays that belong to it."""

    @property
    def outputs(self) -> Outline:
        """How results are nested."""

    @property
    def weak(self) -> tuple[bool, ...]:
        """Which results are weak."""


def agree(signature: Signature, params: Sequence[Param], results: int) -> None:
    """Refuse a signature that is not that of a function of so many results.

    Raises:
        ExportError: if it is not.
    """
    takes = [(i.shape, i.dtype) for i in signature.inputs]
    takes += [(x.shape, x.dtype) for x in signature.captured]
    wanted = [(p.shape, p.dtype) for p in params]
    numbered = [p.index for p in params] == list(range(len(wanted)))
    every = list(range(results))
    given = sorted(_numbers(signature.outputs))
    if takes != wanted or not numbered or given != every or len(signature.weak) != results:
        raise ExportError("a serialized function is not what its signature says")


def portable(function: Callable[..., Any]) -> Callable[..., Portable]:
    """What makes a function portable, given the arguments that it would be called with.

    Raises:
        ExportError: if it has effects, or takes or gives keys that are neither text nor numbers.

    Example:
        >>> import tfn
        >>> portable(tfn.jit(lambda x: {"sum": x.sum()}))(tfn.ShapeDtypeStruct((3,), "float32"))
        <a function of (f32[3]) -> (f32[])>
    """
    jitted = function if isinstance(function, Jitted) else Jitted(function)

    def make(*args: Any, **kwargs: Any) -> Portable:
        found = jitted.trace(*args, **kwargs)
        if found.has_effects:
            raise ExportError(
                f"{name_of(jitted.function)} has effects outside of it, which bytes do not hold",
                hint="leave out debug.print and callbacks, or guard them by a static argument",
            )
        split = jitted.static.split(jitted.function, args, kwargs)
        kinds = found.takes.types
        inputs = tuple(
            Input(path, kind.shape, kind.dtype, kind.weak_type)
            for path, kind in zip(paths(*split.dynamic), kinds, strict=True)
        )
        outputs = outline(found.structure, iter(range(len(found.weak))))
        return Portable(found.jaxpr, inputs, tuple(found.captured), outputs, tuple(found.weak))

    return make


def paths(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Path]:
    """Where the leaves of arguments stand, in their order."""
    found = tree.leaves_with_path((tuple(args), kwargs))
    return [tuple(_plain(key) for key in path[1:]) for path, _ in found]


def _plain(key: Any) -> str | int:
    for name in ("key", "idx", "name"):
        value = getattr(key, name, None)
        if type(value) in (str, int):
            return cast("str | int", value)
    raise ExportError(
        f"arguments and results are known by text and numbers, not by {key}",
        hint="use keys that are str or int",
    )


def arranged(inputs: Sequence[Input], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of arguments in the order of the inputs.

    Raises:
        ArgumentError: naming those that are missing, and those that are not taken.
    """
    given = dict(zip(paths(args, kwargs), tree.leaves((tuple(args), kwargs)), strict=True))
    missing = [str(i) for i in inputs if i.path not in given]
    taken = {i.path for i in inputs}
    other = [place(path) for path in given if path not in taken]
    if missing or other:
        raise ArgumentError(
            f"the function takes {', '.join(map(str, inputs)) or 'nothing'}",
            got="; ".join(
                f"{', '.join(names)} {what}"
                for names, what in ((missing, "missing"), (other, "too much"))
                if names
            ),
            hint="pass the arguments that it was serialized for, by the same names",
        )
    return [given[i.path] for i in inputs]


def _fit(wanted: Input, leaf: Any) -> Any:
    """A leaf as a Value of the type that is wanted."""
    if isinstance(leaf, (bool, int, float, complex)):
        leaf = bind.runtime().asarray(leaf, wanted.dtype if wanted.weak else None)
    value = as_value(leaf, str(wanted))
    for error, got, want in (
        (ShapeError, value.shape, wanted.shape),
        (DTypeError, value.dtype, wanted.dtype),
    ):
        if got != want:
            raise error(
                "the function was serialized for other arguments",
                got=f"{wanted}: {show(value)}",
                hint=f"it takes {wanted}: {show(wanted)}",
            )
    return value


_LISTS = {"list", "deque"}
_DICTS = {"dict", "OrderedDict", "defaultdict"}


def outline(structure: tree.Structure, numbers: Any) -> Outline:
    """How a tree is nested; what is of a class becomes a dict of its fields."""
    if structure.is_leaf():
        return next(numbers)
    name = structure.type.__name__ if structure.type else ""
    if name == "NoneType":
        return None
    children = tuple(outline(child, numbers) for child in structure.children())
    if name == "tuple" or name in _LISTS:
        return ("list" if name in _LISTS else "tuple", (), children)
    keys = tuple(_plain(tree.DictKey(key)) for key in _fields(structure))
    return "dict", keys, children


def _fields(structure: tree.Structure) -> Sequence[Any]:
    """The names of the children of a dict, a namedtuple or a class."""
    names = getattr(structure.type, "_fields", None)
    return names if names is not None else structure.entries()


def nested(outline: Outline, values: Sequence[Any]) -> Any:
    """Values in the tree of an outline."""
    if outline is None:
        return None
    if isinstance(outline, int):
        return values[outline]
    kind, keys, children = outline
    found = [nested(child, values) for child in children]
    if kind == "dict":
        return dict(zip(keys, found, strict=True))
    return tuple(found) if kind == "tuple" else found


def _numbers(outline: Outline) -> list[int]:
    if outline is None or isinstance(outline, int):
        return [] if outline is None else [outline]
    return [n for child in outline[2] for n in _numbers(child)]


def stored(arrays: Sequence[Any]) -> tuple[tuple[Shape, DType, bytes], ...]:
    """Arrays as shape, dtype and bits, the lowest byte first."""
    found = []
    for array in arrays:
        x: np.ndarray[Any, Any] = np.asarray(bind.runtime().read(array))
        little = x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder("<"), copy=False)
        found.append((x.shape, x.dtype, little.tobytes()))
    return tuple(found)
