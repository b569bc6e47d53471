"""Calls of public functions with odd options: each keyword alone, and pairs drawn at random.

`calls` reads the keywords of a function from its signature.  The values of a keyword are those of
the function's row, or of `KEYWORDS`; a keyword without values is an error that names it.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.numpy.rows import ONE, REAL, Draw, Row, option, ranges, values
from tests.options.keywords import KEYWORDS


@dataclass(frozen=True)
class Odd:
    """A function, its operands, and the odd values of its keywords.

    Attributes:
        row: dtypes, shapes and ranges of the operands, and arguments that follow them.
        given: keywords of every call: those without a default.
        values: odd values by keyword, before those of `KEYWORDS`; a function as a value is called
            with the operands.  A keyword without values is left alone.
    """

    row: Row = field(default_factory=lambda: Row(REAL, ONE))
    given: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """A call as drawn, with a key that is the same on all machines."""

    key: str
    row: Row
    drawn: Draw

    def __call__(self, function: Callable[..., Any], *operands: Any) -> Any:
        return self.drawn.call(self.row, function, *operands)


def keywords(function: Callable[..., Any]) -> list[str]:
    """The parameters of a function that have a default, in order."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for name, p in inspect.signature(function).parameters.items()
        if p.kind in kinds and p.default is not p.empty and not name.startswith("_")
    ]


def missing(function: Callable[..., Any], odd: Odd) -> list[str]:
    """Keywords without a row."""
    return [k for k in keywords(function) if k not in odd.values and k not in KEYWORDS]


def calls(name: str, function: Callable[..., Any], odd: Odd, pairs: int = 2) -> Iterator[Call]:
    """Each keyword alone at each of its values, and pairs of keywords drawn at random."""
    known = {**KEYWORDS, **odd.values}
    found = [k for k in dict.fromkeys([*keywords(function), *odd.values]) if known.get(k)]
    yield _call(name, function, odd, {})
    for k in found:
        for i in range(len(known[k])):
            yield _call(name, function, odd, {k: i})
    random = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(pairs * len(found) if len(found) > 1 else 0):
        pair = sorted(random.choice(len(found), 2, replace=False))
        yield _call(
            name, function, odd, {found[i]: random.integers(len(known[found[i]])) for i in pair}
        )


def _call(name: str, function: Callable[..., Any], odd: Odd, chosen: Mapping[str, int]) -> Call:
    row = odd.row
    key = ", ".join([name, *(f"{k}#{i}" for k, i in chosen.items())])
    seed = zlib.crc32(key.encode())
    random = np.random.default_rng(seed)
    shapes = row.shapes[random.integers(len(row.shapes))]
    each = row.kinds if isinstance(row.kinds, tuple) else (row.kinds,) * len(shapes)
    same = random.integers(1 << 16)
    kinds = [k[same % len(k)] for k in each]
    bounds = ranges(row.within, len(shapes))
    operands = tuple(
        row.prepare(
            *[values(k, s, seed + i, b) for i, (k, s, b) in enumerate(zip(kinds, shapes, bounds))]
        )
    )
    known = {**KEYWORDS, **odd.values}
    further = {
        k: v(*operands) if inspect.isfunction(v) else v
        for k, v in ((k, known[k][i]) for k, i in chosen.items())
    }
    args, kwargs = option(row.options[0])
    first = len(operands) if row.call is Row.call else 1
    parameters = list(inspect.signature(function).parameters)[first:]
    args = tuple(further.pop(k, x) for k, x in zip(parameters, args))
    kwargs = {**kwargs, **odd.given, **further}
    shown = ", ".join([*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())])
    what = " ".join(f"{x.dtype}{list(x.shape)}" for x in operands)
    return Call(
        f"{name}({what}{', ' * bool(shown)}{shown}) #{seed:08x}", row, Draw(operands, args, kwargs)
    )


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"{value.dtype}{list(value.shape)}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value).replace("\n", "")


def find(module: Any, name: str) -> Any:
    """A function by its name, with its module where that is not the given one."""
    for part in name.split("."):
        module = getattr(module, part)
    return module
