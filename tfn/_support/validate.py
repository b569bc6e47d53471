"""Checks of arguments: a function for each kind of mistake, with an error that tells the cure.

Each takes the name of the function that was called and that of its argument, as the user knows
them, and returns the value as the function needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, isfinite, prod
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, COMPLEXES, INEXACT, INTEGERS, SHORT, DType
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    NotAvailableError,
    ShapeError,
)

LARGEST_BYTES = 1 << 56
"""No array is as large: more than five levels of page tables can address for one process."""

SHOWN_CHARACTERS = 80  # of a value in a message: one line


def shown(value: Any) -> str:
    """A value as messages show it: ``f32[2,3]`` for arrays, the name of a function, else its repr.

    Example:
        >>> import numpy as np
        >>> shown(np.ones((2, 3), "float32")), shown("same"), shown(max)
        ('f32[2,3]', "'same'", 'max')
    """
    if isinstance(value, np.generic):
        return repr(value.item())
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{SHORT.get(dtype) or dtype}[{','.join(map(str, shape))}]"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def joined(words: Iterable[Any]) -> str:
    """Alternatives as a sentence lists them.

    Example:
        >>> joined(["full", "same", None])
        "'full', 'same' or None"
    """
    *most, last = map(repr, words)
    return f"{', '.join(most)} or {last}" if most else last


def integer(function: str, argument: str, value: Any, least: int | None = None) -> int:
    """An integer, which Python's and NumPy's integers and integer arrays of no axes are.

    Raises:
        ArgumentError: for what is no integer, or one below `least`.
        TracerIntegerConversionError: for a traced value.

    Example:
        >>> integer("roll", "shift", True)
        1
    """
    try:
        number = index(value)
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise ArgumentError(
            f"{function} needs an integer {argument}",
            got=f"{argument}={shown(value)}",
            hint=_to_integer(argument, value),
        ) from None
    if least is not None and number < least:
        raise ArgumentError(
            f"{function} needs {argument} >= {least}",
            got=f"{argument}={number}",
            hint=f"pass {argument}={least} or more",
        )
    return number


def _to_integer(argument: str, value: object) -> str:
    if isinstance(value, float) and isfinite(value):
        return f"write {argument}={round(value)}: int() cuts fractions off, round() rounds"
    return f"pass an int, such as {argument}=1"


def real_number(
    function: str, argument: str, value: object, least: float = -inf, most: float = inf
) -> Any:
    """A real number that Python knows, from `least` to `most`.

    Raises:
        ArgumentError: for something else, NaN among it.

    Example:
        >>> real_number("dropout", "rate", 0.5, 0, 1)
        0.5
    """
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentError(
            f"{function} needs a number as {argument}",
            got=f"{argument}={shown(value)}",
            hint=f"pass a Python number, such as {argument}={max(least, min(most, 1))}",
        )
    if not least <= value <= most:
        raise ArgumentError(
            f"{function} needs {argument} from {least:g} to {most:g}",
            got=f"{argument}={value}",
            hint=f"pass {argument} between them",
        )
    return value


def integers(
    function: str, argument: str, value: object, least: int | None = None
) -> tuple[int, ...]:
    """The integers of a sequence; see `integer`.

    Raises:
        ArgumentError: for what is no sequence, or holds something else.

    Example:
        >>> integers("transpose", "axes", [1, 0])
        (1, 0)
    """
    items = several(function, argument, value, "integers")
    return tuple([integer(function, f"{argument}[{i}]", n, least) for i, n in enumerate(items)])


def of_each_axis(
    function: str, argument: str, value: object, rank: int, least: int | None = 1
) -> tuple[int, ...]:
    """An integer for each of `rank` axes, ones for None.

    Raises:
        ArgumentError: for something else than integers from `least` on.
        ShapeError: for another number of them.

    Example:
        >>> of_each_axis("reduce_window", "strides", None, 2)
        (1, 1)
    """
    if value is None:
        return (1,) * rank
    numbers = integers(function, argument, value, least)
    if len(numbers) != rank:
        raise ShapeError(
            f"{function} needs {argument} for {rank} axes",
            got=f"{argument}={numbers}",
            hint="write one integer for each axis",
        )
    return numbers


def one_of(function: str, argument: str, value: object, allowed: Sequence[object]) -> None:
    """Raise ArgumentError unless a value is among those allowed.

    Example:
        >>> one_of("qr", "mode", "r", ("full", "r"))
    """
    for option in allowed:
        if value is option or (type(value) in (str, int) and value == option):
            return
    raise ArgumentError(
        f"{function} knows no {argument} {shown(value)}",
        got=f"{argument}={shown(value)}",
        hint=f"{argument} is {joined(allowed)}",
    )


def a_function(function: str, argument: str, value: object) -> None:
    """Raise ArgumentError unless a value can be called.

    Example:
        >>> a_function("vmap", "function", max)
    """
    if not callable(value):
        raise ArgumentError(
            f"{function} needs a function"
            + ("" if argument in ("fun", "function") else f" as {argument}"),
            got=f"{argument}={shown(value)}",
            hint="pass the function itself, such as a lambda or the name of a def, not its result",
        )


def file_path(function: str, argument: str, value: Any) -> Path:
    """The path of a file.

    Raises:
        ArgumentError: for what is none.

    Example:
        >>> file_path("load", "path", "model.so").suffix
        '.so'
    """
    try:
        return Path(value)
    except TypeError:
        raise ArgumentError(
            f"{function} needs the path of a file",
            got=f"{argument}={shown(value)}",
            hint="pass a str or a pathlib.Path",
        ) from None


def several(function: str, argument: str, value: Any, words: str = "values") -> tuple[Any, ...]:
    """The values of a sequence.

    Raises:
        ArgumentError: for what cannot be iterated.

    Example:
        >>> several("concatenate", "arrays", [1, 2])
        (1, 2)
    """
    try:
        return tuple(value)
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise ArgumentError(
            f"{function} needs a sequence of {words} as {argument}",
            got=f"{argument}={shown(value)}",
            hint=f"write ({argument},) for a single one",
        ) from None


_RANKS = {(0, 0): "a scalar", (1, 1): "a vector", (2, 2): "a matrix"}
_COUNTS = ("no axes", "one axis", "two axes", "three axes", "four axes")


def rank(function: str, x: Any, least: int, most: int | None = None, what: str = "") -> None:
    """Raise ShapeError unless an array has as many axes.

    Example:
        >>> import numpy as np
        >>> rank("trace", np.ones((2, 2)), 2)
    """
    count = len(x.shape)
    if least <= count and (most is None or count <= most):
        return
    if most is None:
        words = f"at least {_COUNTS[least]}"
    elif least == most:
        words = _RANKS.get((least, most)) or _COUNTS[least]
    else:
        words = " or ".join(_RANKS.get((n, n)) or _COUNTS[n] for n in range(least, most + 1))
    raise ShapeError(
        f"{function} needs {words}" + (f" {what}" if what else ""),
        got=shown(x),
        hint="add an axis of size 1: x[None]" + (", or x[:, None]" if count else "")
        if count < least
        else "tfn.vmap maps over more axes; x.reshape joins some",
    )


def element_type(function: str, x: Any, allowed: frozenset[DType], words: str) -> None:
    """Raise DTypeError unless the dtype of an array is among those allowed.

    Example:
        >>> import numpy as np
        >>> element_type("invert", np.ones(2, bool), frozenset({BOOL}), "booleans")
    """
    if x.dtype not in allowed:
        raise DTypeError(
            f"{function} needs {words}", got=shown(x), hint=cast_hint(x.dtype, allowed)
        )


def unfit(what: str, operands: Iterable[object], hint: str, also: str = "") -> ShapeError:
    """The error for operands whose shapes do not fit together; `also` follows what was got."""
    return ShapeError(what, got=", ".join(map(shown, operands)) + also, hint=hint)


def unlike(
    function: str, operands: Iterable[object], words: str = "operands of one dtype"
) -> DTypeError:
    """The error for operands of several dtypes."""
    return DTypeError(
        f"{function} needs {words}",
        got=", ".join(map(shown, operands)),
        hint="tfn.numpy promotes; with tfn.lax use .astype",
    )


_USUAL = tuple(map(np.dtype, ("float32", "int32", "uint32", "uint8", "bool", "complex64")))
"""The dtypes that a hint proposes to cast to, in order of preference."""


def cast_hint(dtype: DType, allowed: frozenset[DType]) -> str:
    """The hint that says how to convert values of a dtype to an allowed one.

    Example:
        >>> cast_hint(BOOL, INTEGERS), cast_hint(BOOL, frozenset({BOOL}))
        ("convert it: x.astype('int32')", 'compare: x != 0 gives booleans')
    """
    if dtype in COMPLEXES and not allowed & COMPLEXES:
        return "take x.real, x.imag or abs(x)"
    counts = dtype not in INEXACT and allowed & INTEGERS  # what counts stays exact
    best = _usual(allowed & (INTEGERS if counts else allowed))
    if best == BOOL:
        return "compare: x != 0 gives booleans"
    cut = ", which cuts fractions off" if dtype in INEXACT and best in INTEGERS else ""
    return f"convert it: x.astype({best.name!r}){cut}"


def result_type(function: str, dtype: DType, allowed: frozenset[DType], words: str) -> DType:
    """The dtype that was asked of a function, if it is among those allowed.

    Raises:
        DTypeError: if it is not.

    Example:
        >>> result_type("bincount", BOOL, frozenset({BOOL}), "a boolean dtype")
        dtype('bool')
    """
    if dtype not in allowed:
        raise DTypeError(
            f"{function} needs {words}",
            got=f"dtype={dtype.name}",
            hint=f"say dtype={_usual(allowed).name!r}",
        )
    return dtype


def _usual(allowed: Iterable[DType]) -> DType:
    """The dtype of these that is most likely meant."""
    rest = sorted(allowed, key=lambda dtype: dtype.name)
    return next((dtype for dtype in _USUAL if dtype in rest), rest[0])


def size_limit(function: str, shape: Sequence[int], itemsize: int = 1) -> None:
    """Raise ShapeError for an array that no machine can address, before anything is allocated.

    Example:
        >>> size_limit("zeros", (2, 3), 4)
    """
    size_bytes = prod(shape) * itemsize
    if type(size_bytes) is not int or 0 < size_bytes <= LARGEST_BYTES:  # int: not symbolic
        return
    if not size_bytes:  # strides are made of the other sizes
        size_bytes = prod([n for n in shape if n])
    if size_bytes > LARGEST_BYTES:
        raise ShapeError(
            f"{function} cannot make an array of 2**{size_bytes.bit_length() - 1} bytes or more",
            got=f"shape {tuple(shape)}",
            hint=f"no machine addresses 2**{LARGEST_BYTES.bit_length() - 1} bytes: look for a size "
            "that grew by mistake",
        )


def one_of_two(name: str, hint: str, **given: object) -> None:
    """Raise ArgumentError unless one of two arguments at most is given, by its name."""
    if all(value is not None for value in given.values()):
        raise ArgumentError(
            f"{name} takes {' or '.join(given)}, not both",
            got=", ".join(f"{argument}={shown(value)}" for argument, value in given.items()),
            hint=hint,
        )


def no_out(name: str, out: object) -> None:
    """Raise NotAvailableError for an array to write the result to; NumPy passes None for none."""
    if out is not None:
        raise NotAvailableError(
            f"{name} cannot write its result to out: an array never changes",
            got=f"out={shown(out)}",
            hint="use the result; x.at[...].set(result) gives an array with it in place",
        )
