"""Checks of jaxtyping annotations when a function is traced: once for each trace, never after.

``def loss(w: Float[Array, "d k"], x: Float[Array, "batch d"])``: each name is bound to one size, in
all arguments and in the result, and errors show the sizes of the names.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from tfn.dtypes import SHORT
from tfn.errors import DTypeError, ShapeError, TfnError
from tfn.trace.concretization import show
from tfn.trace.op import Op, Shape

Function = Callable[..., Any]
HELD: list[bool] = [True]
"""Whether annotations are held: not those of libraries written for JAX, which it never reads."""

_SIGNATURES: WeakKeyDictionary[Function, inspect.Signature | None] = WeakKeyDictionary()


def checked(
    name: str, function: Function, args: Sequence[object], kwargs: Mapping[str, object]
) -> Any:
    """``function(*args, **kwargs)``, whose arguments and result are as its annotations say.

    `name` is what messages call it.

    Raises:
        ShapeError, DTypeError: naming the argument, what it was, and where a name got its size.
    """
    signature = _signature(function)
    if signature is None:
        return function(*args, **kwargs)
    sizes = Sizes(name)
    for path, value in signature.bind(*args, **kwargs).arguments.items():
        parameter = signature.parameters[path]
        for part, leaf, hint in _leaves(path, value, parameter.annotation, parameter.kind):
            sizes.hold(part, leaf, hint)
            _name_axes(leaf, hint)
    try:
        out = function(*args, **kwargs)
        for path, leaf, hint in _leaves("the result", out, signature.return_annotation):
            sizes.hold(path, leaf, hint)
    except TfnError as error:
        if sizes.known:
            error.add_note(f"  where: {sizes} in {sizes.function}")
        raise
    return out


def _signature(function: Function) -> inspect.Signature | None:
    """The signature of a function that has annotations of jaxtyping, else None."""
    if "jaxtyping" not in sys.modules or not HELD[0]:
        return None
    try:
        return _SIGNATURES[function]
    except (KeyError, TypeError):
        pass
    try:
        signature: inspect.Signature | None = inspect.signature(function, eval_str=True)
    except Exception:  # a builtin, or names that are there for a type checker only
        signature = None
    if signature is not None:
        hints = [p.annotation for p in signature.parameters.values()]
        hints.append(signature.return_annotation)
        if not any(map(_mentions, hints)):
            signature = None
    try:
        _SIGNATURES[function] = signature
    except TypeError:  # such as a bound method, which is new each time
        return signature
    return signature


def _mentions(hint: object) -> bool:
    return _is_array(hint) or any(map(_mentions, typing.get_args(hint)))


def _is_array(hint: object) -> bool:
    """Whether an annotation is one of jaxtyping's for arrays."""
    base: Any = getattr(sys.modules["jaxtyping"], "AbstractArray", None)
    return isinstance(hint, type) and base is not None and issubclass(hint, base)


_Part = tuple[str, Any, Any]


def _leaves(path: str, value: Any, hint: Any, kind: object = None) -> Iterator[_Part]:
    """The arrays in a value, each with its annotation and the user's name for it."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        hint = tuple[hint, ...]
    elif kind is inspect.Parameter.VAR_KEYWORD:
        hint = dict[str, hint]
    if _is_array(hint):
        if hasattr(value, "shape") and getattr(value, "dtype", None) in SHORT:
            yield path, value, hint
        return
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        arrays = [h for h in inner if _is_array(h)]
        if len(arrays) == 1:  # of several, none has to hold
            yield from _leaves(path, value, arrays[0])
    elif origin is tuple and isinstance(value, tuple):
        if len(inner) == 2 and inner[1] is Ellipsis:
            inner = (inner[0],) * len(value)
        for i, (v, h) in enumerate(zip(value, inner)):
            yield from _leaves(f"{path}[{i}]", v, h)
    elif origin is list and isinstance(value, list):
        for i, v in enumerate(value):
            yield from _leaves(f"{path}[{i}]", v, inner[0])
    elif origin is dict and isinstance(value, dict):
        for k, v in value.items():
            yield from _leaves(f"{path}[{k!r}]", v, inner[1])


def _name_axes(value: object, hint: Any) -> None:
    """Let messages that name an input of a trace say what its axes are called."""
    node = getattr(value, "uop", None)
    if node is not None and node.op is Op.LEAF and node.arg.name and hint.dim_str:
        node.arg.name = f"{node.arg.name} ({hint.dim_str})"


class Sizes:
    """The sizes that names are bound to in one call; shapes for names with a star."""

    def __init__(self, function: str) -> None:
        self.function = function
        self.known: dict[str, int | Shape] = {}
        self.place: dict[str, str] = {}

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.known.items())

    def hold(self, path: str, value: Any, hint: Any) -> None:
        """Bind the names of an annotation to the sizes of an array, or refuse it."""
        kind = hint.__name__.partition("[")[0]
        written = f'{kind}[{hint.array_type.__name__}, "{hint.dim_str}"]'
        dtypes = hint.dtypes
        if isinstance(dtypes, (tuple, list, frozenset)) and value.dtype.name not in dtypes:
            raise DTypeError(
                f"{path} of {self.function} is annotated {written}",
                got=show(value),
                hint="use .astype or another annotation",
            )
        wrong = self._mismatch(path, tuple(value.shape), hint.dim_str.split())
        if wrong:
            raise ShapeError(
                f"{path} of {self.function} is annotated {written}",
                got=f"{show(value)}, where {wrong}",
                hint="a name stands for one size in all annotations of a function",
            )

    def _mismatch(self, path: str, shape: Shape, dims: list[str]) -> str:
        """Why a shape is not the one written, empty if it is."""
        stars = [i for i, dim in enumerate(dims) if dim.startswith(("*", "...", "#*"))]
        if len(dims) != len(shape) and not (stars and len(dims) - 1 <= len(shape)):
            return f"{len(dims) - len(stars)} axes are wanted"
        if stars:
            at = stars[0]
            end = len(shape) - (len(dims) - at - 1)
            many, dim = shape[at:end], dims[at]
            shape, dims = (*shape[:at], *shape[end:]), dims[:at] + dims[at + 1 :]
            if dim.startswith("*") and not dim.startswith(("*_", "*#")):
                wrong = self._same(dim, many, f"of {path}")
                if wrong:
                    return wrong
        for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
            wrong = self._axis(dim.rpartition("=")[2], size, f"axis {axis} of {path}")
            if wrong:
                return wrong
        return ""

    def _axis(self, dim: str, size: int, place: str) -> str:
        if dim.startswith("#"):
            if size == 1:
                return ""
            dim = dim[1:]
        if dim.startswith(("_", "?")):
            return ""
        if dim.isidentifier():
            return self._same(dim, size, place)
        try:
            expected = eval(dim, {"__builtins__": {}}, dict(self.known))
        except NameError:  # of a name that has no size yet
            return ""
        return (
            ""
            if expected == size
            else f"{place} should be {dim}" + ("" if dim.isdigit() else f" = {expected}")
        )

    def _same(self, name: str, size: int | Shape, place: str) -> str:
        known = self.known.setdefault(name, size)
        first = self.place.setdefault(name, place)
        return "" if known == size else f"{name} is {known} ({first}) and {size} ({place})"
