"""Portable functions: a closed function with its signature, independent of Python code.

Arguments are identified by paths: the position or the name of an argument, then keys, indices and
names of fields.  A user's class is accepted as itself or as a dict of its fields; a result of such
a class comes back as a dict, since bytes do not hold classes.

    def step(network, x): ...        has the inputs  (0, "weight"), (0, "bias"), (1,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from tfn import tree
from tfn.dtypes import DType
from tfn.errors import ArgumentError, DTypeError, ExportError, ShapeError
from tfn.exporting.container import read_again, written
from tfn.extend import (
    Jaxpr,
    Jitted,
    Shape,
    ShapeDtypeStruct,
    argument,
    as_value,
    bind,
    frozen,
    name_of,
    runtime,
)
from tfn.lax.linalg.lapack_programs import without_lapack
from tfn.transforms.arguments import show

Path = tuple[str | int, ...]
Outline = Any
"""A tree of results: the number of an output, None, or (kind, keys, outlines)."""


@frozen
class Input:
    """One input of a function: its path among the arguments, and its type."""

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
        jaxpr: closed: its parameters are the inputs, then the captured arrays.
        inputs: in the order of the parameters.
        captured: arrays that the function has captured.
        outputs: the tree of the results.
        weak: whether each result has a weak dtype.
    """

    jaxpr: Jaxpr
    inputs: tuple[Input, ...]
    captured: tuple[Any, ...]
    outputs: Outline
    weak: tuple[bool, ...]

    @staticmethod
    def of(jaxpr: Jaxpr) -> Portable:
        """A closed function with its parameters by position, whose result is a tuple."""
        inputs = tuple(Input((p.index,), p.shape, p.dtype, False) for p in jaxpr.params)
        count = len(jaxpr.outputs)
        outputs = ("tuple", (), tuple(range(count))) if count != 1 else 0
        return Portable(jaxpr, inputs, (), outputs, (False,) * count)

    @property
    def in_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the inputs."""
        return tuple(ShapeDtypeStruct(i.shape, i.dtype, i.weak) for i in self.inputs)

    @property
    def out_avals(self) -> tuple[ShapeDtypeStruct, ...]:
        """The types of the results."""
        outputs = zip(self.jaxpr.outputs, self.weak, strict=True)
        return tuple(ShapeDtypeStruct(u.shape, u.dtype, weak) for u, weak in outputs)

    @property
    def call(self) -> Callable[..., Any]:
        """The function, under the name that JAX gives it."""
        return self.__call__

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Apply the function to arguments, which may be traced.

        Raises:
            ArgumentError: naming arrays that are missing or superfluous.
            ShapeError, DTypeError: naming an array of another type.
        """
        values = [_fit(i, x) for i, x in zip(self.inputs, arranged(self.inputs, args, kwargs))]
        return nested(self.outputs, bind.call(self.jaxpr, [*values, *self.captured], self.weak))

    def serialize(self) -> bytes:
        """The function as bytes; see `tfn.export.serialize`.

        Raises:
            ExportError: naming the value that bytes cannot hold.
        """
        inputs = tuple((i.path, i.shape, i.dtype, i.weak) for i in self.inputs)
        arrays = stored(self.captured)
        return read_again(
            written(without_lapack(self.jaxpr)), inputs, arrays, self.outputs, self.weak, ()
        )

    def check(self) -> None:
        """Refuse a signature that does not match the function.

        Raises:
            ExportError: if it does not.
        """
        agree(self, self.jaxpr.params, len(self.jaxpr.outputs))

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(show, avals)) for avals in (self.in_avals, self.out_avals))
        return f"<a function of ({takes}) -> ({gives})>"


class Signature(Protocol):
    """The signature of a portable function; see `Portable`."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The arrays that are arguments."""

    @property
    def captured(self) -> tuple[Any, ...]:
        """The arrays that the function has captured."""

    @property
    def outputs(self) -> Outline:
        """The tree of the results."""

    @property
    def weak(self) -> tuple[bool, ...]:
        """Whether each result has a weak dtype."""


def agree(signature: Signature, params: Sequence[argument.Param], results: int) -> None:
    """Refuse a signature that does not match parameters and the number of results.

    Raises:
        ExportError: if it does not.
    """
    types = [(i.shape, i.dtype) for i in signature.inputs]
    types += [(x.shape, x.dtype) for x in signature.captured]
    expected = [(p.shape, p.dtype) for p in params]
    numbered = [p.index for p in params] == list(range(len(expected)))
    complete = sorted(_numbers(signature.outputs)) == list(range(results))
    if types != expected or not numbered or not complete or len(signature.weak) != results:
        raise ExportError("a serialized function is not what its signature says")


def portable(function: Callable[..., Any]) -> Callable[..., Portable]:
    """Returns a function that makes `function` portable for example arguments.

    Raises:
        ExportError: if it has effects, or keys of its trees are neither text nor integers.

    Example:
        >>> import tfn
        >>> portable(tfn.jit(lambda x: {"sum": x.sum()}))(tfn.ShapeDtypeStruct((3,), "float32"))
        <a function of (f32[3]) -> (f32[])>
    """
    jitted = function if isinstance(function, Jitted) else Jitted(function)

    def make(*args: Any, **kwargs: Any) -> Portable:
        traced = jitted.trace(*args, **kwargs)
        if traced.cells:
            raise ExportError(
                f"{name_of(jitted.function)} has effects outside of it, which bytes do not hold",
                hint="leave out debug.print and callbacks, or guard them by a static argument",
            )
        split = jitted.static.split(jitted.function, args, kwargs)
        kinds = traced.takes.types
        inputs = tuple(
            Input(path, kind.shape, kind.dtype, kind.weak_type)
            for path, kind in zip(paths(*split.dynamic), kinds, strict=True)
        )
        outputs = outline(traced.structure, iter(range(len(traced.weak))))
        return Portable(traced.jaxpr, inputs, tuple(traced.captured), outputs, tuple(traced.weak))

    return make


def paths(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Path]:
    """The paths of the leaves of arguments, in order."""
    leaves = tree.leaves_with_path((tuple(args), kwargs))
    return [tuple(_plain(key) for key in path[1:]) for path, _ in leaves]


def _plain(key: Any) -> str | int:
    for name in ("key", "idx", "name"):
        value = getattr(key, name, None)
        if type(value) in (str, int):
            return cast("str | int", value)
    raise ExportError(
        f"arguments and results are known by text and numbers, not by {key}",
        hint="use keys that are str or int",
    )


def arranged(inputs: Sequence[Input], args: Sequence[object], kwargs: dict[str, Any]) -> list[Any]:
    """The leaves of arguments in the order of the inputs.

    Raises:
        ArgumentError: naming arguments that are missing or superfluous.
    """
    leaves = dict(zip(paths(args, kwargs), tree.leaves((tuple(args), kwargs)), strict=True))
    missing = [str(i) for i in inputs if i.path not in leaves]
    known = {i.path for i in inputs}
    other = [place(path) for path in leaves if path not in known]
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
    return [leaves[i.path] for i in inputs]


def _fit(expected: Input, leaf: object) -> Any:
    """A leaf as a Value of the expected type."""
    if isinstance(leaf, (bool, int, float, complex)):
        leaf = runtime.installed().asarray(leaf, expected.dtype if expected.weak else None)
    value = as_value(leaf, str(expected))
    for error, got, want in (
        (ShapeError, value.shape, expected.shape),
        (DTypeError, value.dtype, expected.dtype),
    ):
        if got != want:
            raise error(
                "the function was serialized for other arguments",
                got=f"{expected}: {show(value)}",
                hint=f"it takes {expected}: {show(expected)}",
            )
    return value


_LISTS = {"list", "deque"}
_DICTS = {"dict", "OrderedDict", "defaultdict"}


def outline(structure: tree.Structure, numbers: Any) -> Outline:
    """The outline of a tree; an instance of a class becomes a dict of its fields."""
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


def nested(outline: Outline, values: Sequence[object]) -> Any:
    """Values in the tree of an outline."""
    if outline is None:
        return None
    if isinstance(outline, int):
        return values[outline]
    kind, keys, children = outline
    items = [nested(child, values) for child in children]
    if kind == "dict":
        return dict(zip(keys, items, strict=True))
    return tuple(items) if kind == "tuple" else items


def _numbers(outline: Outline) -> list[int]:
    if outline is None or isinstance(outline, int):
        return [] if outline is None else [outline]
    return [n for child in outline[2] for n in _numbers(child)]


def stored(arrays: Sequence[object]) -> tuple[tuple[Shape, DType, bytes], ...]:
    """Arrays as shape, dtype and little-endian bytes."""
    records = []
    for array in arrays:
        x: np.ndarray[Any, Any] = np.asarray(runtime.installed().read(array))
        little = x if x.dtype.kind == "V" else x.astype(x.dtype.newbyteorder("<"), copy=False)
        records.append((x.shape, x.dtype, little.tobytes()))
    return tuple(records)
