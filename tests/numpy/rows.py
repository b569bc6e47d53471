"""Rows of the tables of functions: strategies for arguments, and references to compare with.

A row gives the dtypes, the shapes, one for each operand, and the further arguments from which
hypothesis draws.  What is drawn is small: values come from a seed, with the borders of the dtype,
NaN and infinities among them unless `within` says between which numbers they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.numpy.values import FLOATS, INTEGERS, kind, sample
from tfn import dtypes

REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
BITS = ["int32", "bool", "uint8", "int64", "int8", "uint32"]
NUMBERS = ["float32", *INTEGERS, *FLOATS, *COMPLEX]
ORDERED = ["float32", *INTEGERS, *FLOATS, "bool"]
ANY = [*ORDERED, *COMPLEX]

ONE = [((2, 3),), ((),), ((0,),), ((17,),), ((3, 1, 5),)]
TWO = [((2, 1), (1, 5)), ((), (3,)), ((0, 1), (3,)), ((17,), (17,)), ((3, 1, 2), (5, 1))]
LINES = [((13,),), ((1,),), ((7,),)]

Options = tuple[tuple[Any, ...], dict[str, Any]]
Range = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A function and its arguments.

    Attributes:
        kinds: dtypes to draw from, one for all operands; or a tuple, for each operand its own.
        shapes: the shapes of the operands, drawn together.  Laws are tested on the first.
        options: further positional arguments, or keywords, or both.  Laws take the first.
        within: between what numbers operands lie; one pair for each, or for all.
        smooth: the same for derivatives; None where there are none.
        ulps: how far the result may be from that in double precision.
        spread: whether errors are measured beside the largest number of all, as of sums.
        call: how a function is called with the operands and what follows them.
        prepare: what makes the operands fit: a sorted one, a symmetric one.
        exact: whether the reference is given the very dtypes, not doubles.
        jit: whether the function can be traced.
        want: the reference, where it is not NumPy's function of that name.
    """

    kinds: Sequence[str] | tuple[Sequence[str], ...]
    shapes: Sequence[tuple[tuple[int, ...], ...]]
    options: Sequence[Any] = ((),)
    within: Range | tuple[Range, ...] | None = None
    smooth: Range | tuple[Range, ...] | None = None
    ulps: int = 4
    spread: bool = False
    call: Callable[..., Any] = lambda f, xs, *args, **kwargs: f(*xs, *args, **kwargs)
    prepare: Callable[..., Sequence[np.ndarray]] = lambda *xs: xs
    exact: bool = False
    jit: bool = True
    want: Callable[..., Any] | None = None


def listed(f: Callable[..., Any], xs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """A call with all operands as one list."""
    return f(list(xs), *args, **kwargs)


@dataclass(frozen=True)
class Draw:
    """Arguments as drawn: the operands, and what follows them."""

    operands: tuple[np.ndarray, ...]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def call(self, row: Row, function: Callable[..., Any], *operands: Any) -> Any:
        return row.call(function, operands, *self.args, **self.kwargs)


def option(given: Any) -> Options:
    """The positional and keyword arguments that an entry of `options` stands for."""
    if isinstance(given, dict):
        return (), given
    if len(given) == 2 and isinstance(given[0], tuple) and isinstance(given[1], dict):
        return given
    return given, {}


def values(name: str, shape: tuple[int, ...], seed: int, within: Range | None) -> np.ndarray:
    """Values of a dtype, with special ones where no range is given."""
    if kind(name).kind == "c":
        parts = [values(f"float{kind(name).itemsize * 4}", shape, seed + i, within) for i in (0, 1)]
        return np.asarray(parts[0] + 1j * np.where(np.isfinite(parts[1]), parts[1], 0), kind(name))
    if within is None:
        return np.asarray(sample(name, shape, seed))
    low, high = within
    random = np.random.default_rng(seed)
    if kind(name).kind in "biu":
        low = max(low, 0 if kind(name).kind in "bu" else low)
        return random.integers(int(low), int(high) + 1, shape).astype(kind(name))
    return np.asarray(random.uniform(low, high, shape)).astype(kind(name))


def ranges(given: Any, count: int) -> tuple[Range | None, ...]:
    """A range for each operand."""
    return given if given and isinstance(given[0], tuple) else (given,) * count


def draws(row: Row) -> st.SearchStrategy[Draw]:
    """The arguments that hypothesis draws for a row."""

    @st.composite
    def drawn(draw: Any) -> Draw:
        shapes = draw(st.sampled_from(list(row.shapes)))
        if isinstance(row.kinds, tuple):
            kinds = [draw(st.sampled_from(list(k))) for k in row.kinds]
        else:
            kinds = [draw(st.sampled_from(list(row.kinds)))] * len(shapes)
        args, kwargs = option(draw(st.sampled_from(list(row.options))))
        seed = draw(st.integers(0, 5))
        bounds = ranges(row.within, len(shapes))
        made = [
            values(name, shape, seed + 7 * i, bound)
            for i, (name, shape, bound) in enumerate(zip(kinds, shapes, bounds))
        ]
        return Draw(tuple(row.prepare(*made)), args, kwargs)

    return drawn()


def point(row: Row, seed: int = 3) -> Draw:
    """Operands at which laws are tested: in double precision where the row is smooth."""
    shapes = row.shapes[0]
    args, kwargs = option(row.options[0])
    each = row.kinds if isinstance(row.kinds, tuple) else (row.kinds,) * len(shapes)
    bounds = ranges(row.smooth or row.within or (-2, 2), len(shapes))
    kinds = ["float64" if row.smooth and kind(k[0]).kind == "f" else k[0] for k in each]
    made = [values(k, s, seed + i, b) for i, (k, s, b) in enumerate(zip(kinds, shapes, bounds))]
    return Draw(tuple(row.prepare(*made)), args, kwargs)


def wide(x: np.ndarray) -> np.ndarray:
    """Floats in double precision, in which references are computed."""
    if x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def leaves(result: Any) -> list[np.ndarray]:
    """The arrays of a result, in order."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    return [np.asarray(result)]


def near(row: Row, got: Any, want: Any, operands: Sequence[np.ndarray] = ()) -> None:
    """Assert the same structure, shapes, and values within the row's units in the last place."""
    results, expected = leaves(got), leaves(want)
    assert len(results) == len(expected)
    for g, w in zip(results, expected):
        assert g.shape == w.shape, (g.shape, w.shape)
        w = w.astype(g.dtype)
        if g.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
            continue
        info = dtypes.finfo(g.dtype)
        sizes = [float(info.tiny)]
        if row.spread:
            sizes += [row.ulps * float(info.eps) * _largest(x) for x in (w, *operands)]
        g, w = wide(g), wide(w)
        np.testing.assert_allclose(g, w, rtol=row.ulps * float(info.eps), atol=max(sizes))


def _largest(x: np.ndarray) -> float:
    size = np.abs(wide(np.asarray(x)).astype(np.complex128))
    return float(np.max(size, initial=1, where=np.isfinite(size)))
