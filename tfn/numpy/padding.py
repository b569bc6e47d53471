"""Padding of axes at both ends: by constants, mirrored elements, ramps, or statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn._support.validate import integer, joined, one_of, shown, size_limit
from tfn.array import Array, ArrayLike
from tfn.eager.operands import apply, array_of, indices_of, number_as, scalar_kind
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy import quantiles, reductions
from tfn.numpy.concatenation import concatenate, gather_along
from tfn.numpy.creation import asarray
from tfn.numpy.functional import apply_along_axis
from tfn.numpy.indexing import getitem
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, moveaxis
from tfn.numpy.ranges import linspace
from tfn.numpy.rounding import rint
from tfn.trace import bind
from tfn.trace.build import cast
from tfn.trace.build import pad as padded
from tfn.trace.uop import UOp

Numbers = tuple[int, ...]
MIRRORS = ("edge", "reflect", "symmetric", "wrap")
STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": reductions.max,
    "minimum": reductions.min,
    "mean": reductions.mean,
    "median": quantiles.median,
}
MAX_RUNS_TO_CONCATENATE = 5
"""Up to so many slices of an axis are concatenated; of more, the elements are gathered."""

MODES = ("constant", "empty", "linear_ramp", *MIRRORS, *STATISTICS)


def pad(
    array: ArrayLike,
    pad_width: object,
    mode: str | Callable[..., Any] = "constant",
    *,
    constant_values: object = None,
    end_values: object = None,
    stat_length: object = None,
    reflect_type: str | None = None,
) -> Array:
    """The array with elements added at both ends of each axis.

    Of the modes, "constant" adds `constant_values`; "empty" zeros; "edge" the first and last
    element; "linear_ramp" even steps from there to `end_values`; "reflect" the array mirrored at
    its first and last element, "symmetric" mirrored at its border; "wrap" the other end; "maximum",
    "minimum", "mean" and "median" that of the axis.

    Args:
        array: array or number, of any shape.
        pad_width: number of elements to add, a pair (before, after), or a pair for each axis; not
            negative.
        mode: name of a mode, "constant" by default; or a function of a vector with zeros at its
            ends, the pair of their numbers, the axis and a dict, which returns the padded vector.
        constant_values: number, pair, or pair for each axis, of mode "constant"; None takes 0.
        end_values: number, pair, or pair for each axis, of mode "linear_ramp"; None takes 0.
        stat_length: number of elements at the end from which "maximum", "minimum", "mean" and
            "median" are taken, or a pair, or a pair for each axis; None takes the whole axis.
        reflect_type: of modes "reflect" and "symmetric": "even" or None for the mirrored elements,
            "odd" for twice the end less those.

    Returns:
        An array of the dtype of `array`.

    Raises:
        ArgumentError: for another mode, an argument of another mode, or widths that do not fit.
        ShapeError: if an empty axis is extended by a mode other than "constant" and "empty".

    Example:
        >>> import tfn.numpy as tnp
        >>> pad(tnp.array([1, 2]), (1, 2), "edge")
        Array([1, 1, 2, 2, 2], dtype=int32)
    """
    array = array_of("pad", array)
    widths = _pairs("pad_width", pad_width, array)
    if widths.size and widths.min() < 0:
        raise ArgumentError(
            "pad needs widths that are not negative",
            got=f"pad_width={shown(pad_width)}",
            hint="cut with a slice, such as array[1:-1]",
        )
    size_limit(
        "pad", [n + int(sum(w)) for n, w in zip(array.shape, widths.tolist())], array.itemsize
    )
    if not isinstance(mode, str):
        return _by_function(array, widths, mode)
    one_of("pad", "mode", mode, MODES)
    given = {
        "constant_values": (constant_values, ("constant",)),
        "end_values": (end_values, ("linear_ramp",)),
        "stat_length": (stat_length, tuple(STATISTICS)),
        "reflect_type": (reflect_type, ("reflect", "symmetric")),
    }
    for argument, (value, modes) in given.items():
        if value is not None and mode not in modes:
            raise ArgumentError(
                f"pad takes no {argument} in mode {mode!r}",
                got=f"{argument}={shown(value)}",
                hint=f"it is of {joined(modes)}",
            )
    one_of("pad", "reflect_type", reflect_type, (None, "even", "odd"))
    constant_values = 0 if constant_values is None else constant_values
    end_values = 0 if end_values is None else end_values
    if mode == "empty":
        mode, constant_values = "constant", 0
    if mode == "constant" and _is_scalar(constant_values):
        low, high = (tuple(column.tolist()) for column in widths.T) if array.ndim else ((), ())
        value = _value(array, constant_values)
        return apply(_padded, (array, value), low, high, weak=array.weak_type)
    for axis, (before, after) in enumerate(widths.tolist()):
        if not before and not after:
            continue
        if mode == "constant":
            ends = _ends(array, constant_values, axis)
            array = _with_ends(
                array,
                axis,
                *(_filled_slab(array, axis, end, n) for end, n in zip(ends, (before, after))),
            )
            continue
        if not array.shape[axis]:
            raise ShapeError(
                f"pad cannot extend an empty axis by mode {mode!r}",
                got=f"{shown(array)}, axis {axis}",
                hint="mode='constant' needs no elements",
            )
        if reflect_type == "odd":
            array = _odd_mirror(array, axis, before, after, mode)
        elif mode in MIRRORS:
            indices = np.pad(np.arange(array.shape[axis], dtype=np.int32), (before, after), mode)  # type: ignore[call-overload]
            runs = _runs(indices)
            if len(runs) <= MAX_RUNS_TO_CONCATENATE:
                array = concatenate([_run(array, axis, *run) for run in runs], axis)
            else:
                array = apply(
                    gather_along, (array, array_of("pad", indices)), axis, weak=array.weak_type
                )
        elif mode == "linear_ramp":
            ends = _ends(array, end_values, axis)
            array = _with_ends(
                array,
                axis,
                _ramp(array, axis, ends[0], before, False),
                _ramp(array, axis, ends[1], after, True),
            )
        else:
            lengths = None if stat_length is None else _lengths(array, stat_length)[axis]
            parts = (_end_slice(array, axis, lengths, last) for last in (False, True))
            stats = [_statistic(mode, part, axis).astype(array.dtype) for part in parts]
            array = _with_ends(
                array,
                axis,
                *(_filled_slab(array, axis, s, n) for s, n in zip(stats, (before, after))),
            )
    return array


def _by_function(x: Array, widths: np.ndarray[Any, Any], function: Callable[..., Any]) -> Array:
    """The vectors of each axis in turn, with zeros at their ends, as a function returns them."""
    low, high = (tuple(column.tolist()) for column in widths.T) if x.ndim else ((), ())
    x = apply(_padded, (x, asarray(0, x.dtype)), low, high)
    for axis, pair in enumerate(widths.tolist()):
        x = apply_along_axis(function, axis, x, tuple(pair), axis, {})
    return x


def _odd_mirror(x: Array, axis: int, before: int, after: int, mode: str) -> Array:
    """The mirrored elements of which each border is a centre of symmetry.

    Each element of the result is a sum of the first, the last and one other, times integers.
    """
    size = x.shape[axis]
    ends: Any = ((before, after), (0, 0))
    sums = np.pad(np.eye(size, dtype=np.int64), ends, mode, reflect_type="odd")  # type: ignore[call-overload]
    inner = sums[:, 1:-1]
    places = np.where(inner.any(1), 1 + abs(inner).argmax(1), 0) if size > 2 else 0 * sums[:, 0]
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    total: Any = 0
    for place, times in (
        (np.zeros_like(places), sums[:, 0]),
        (np.full_like(places, size - 1), sums[:, -1] * (size > 1)),
        (places, np.where(places > 0, sums[np.arange(len(sums)), places], 0)),
    ):
        part = apply(gather_along, (x, indices_of("pad", place, size)), axis)
        factor = asarray(times.reshape(shape), x.dtype)
        total = total + where(factor == 0, 0, factor * part)
    return total.astype(x.dtype)  # type: ignore[no-any-return]


def _runs(places: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Indices as runs, each by its first index, its step (-1, 0 or 1) and its length.

    ``2 1 0 1 2 3 2  ->  2 1 0, 1 2 3, 2``
    """
    runs: list[tuple[int, int, int]] = []
    steps = np.diff(places).tolist()
    i = 0
    while i < len(places):
        j, step = i + 1, 1
        if i < len(steps) and abs(steps[i]) <= 1:
            step = steps[i]
            while j < len(places) and steps[j - 1] == step:
                j += 1
        runs.append((int(places[i]), step, j - i))
        i = j
    return runs


def _run(x: Array, axis: int, first: int, step: int, length: int) -> Array:
    """The slice of an axis at a run of indices."""
    before = (slice(None),) * axis
    if step == 0:
        return _filled_slab(x, axis, getitem(x, (*before, slice(first, first + 1))), length)
    if step > 0:
        return getitem(x, (*before, slice(first, first + length)))
    last = first - length
    return getitem(x, (*before, slice(first, last if last >= 0 else None, -1)))


def _pairs(argument: str, value: object, x: Array) -> np.ndarray[Any, Any]:
    """A pair for each axis, from a number, a pair, or a pair for each axis."""
    try:
        pairs = np.asarray(value)
        if pairs.dtype.kind in "iu" or not pairs.size:
            return np.broadcast_to(pairs.astype(np.int64), (x.ndim, 2))
    except ValueError:
        pass
    raise ArgumentError(
        f"pad needs integers as {argument}: one, a pair, or a pair for each axis",
        got=f"{argument}={shown(value)} for {shown(x)}",
        hint=f"write {argument}=((1, 1),{' (0, 0),' * (x.ndim - 1)})",
    )


def _lengths(x: Array, stat_length: object) -> np.ndarray[Any, Any]:
    lengths = _pairs("stat_length", stat_length, x)
    if lengths.size:
        integer("pad", "stat_length", int(lengths.min()), 1)
    return lengths


def _is_scalar(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return False
    return scalar_kind(value) is not None or array_of("pad", value).ndim == 0


def _value(x: Array, value: object) -> Array:
    is_number = scalar_kind(value) is not None
    return number_as(value, x.dtype, bind.innermost([x])) if is_number else array_of("pad", value)


def _padded(x: UOp, value: UOp, low: Numbers, high: Numbers) -> UOp:
    return padded(x, low, high, value=cast(value, x.dtype))


def _ends(x: Array, values: object, axis: int) -> list[Array]:
    """The values before and after an axis."""
    pairs = broadcast_to(asarray(values, x.dtype), (x.ndim, 2))
    return [pairs[axis, 0], pairs[axis, 1]]


def _filled_slab(x: Array, axis: int, value: Array, count: int) -> Array:
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    return broadcast_to(value, shape)


def _with_ends(x: Array, axis: int, before: Array, after: Array) -> Array:
    return concatenate([before, x, after], axis)


def _edge(x: Array, axis: int, last: bool) -> Array:
    return getitem(x, (slice(None),) * axis + (-1 if last else 0,))


def _ramp(x: Array, axis: int, end: Array, count: int, last: bool) -> Array:
    """Even steps from an end value to the border of an axis; behind it if `last`."""
    border = _edge(x, axis, last)
    line: Array = linspace(end.astype(border.dtype), border, count + 1, dtype=x.dtype)
    line = line[:-1][::-1] if last else line[:-1]
    return moveaxis(line, 0, axis)


def _end_slice(x: Array, axis: int, lengths: Any, last: bool) -> Array:
    """The elements at one end of an axis, by a length, or all of them."""
    if lengths is None:
        return x
    count = min(int(lengths[int(last)]), x.shape[axis])
    window = slice(x.shape[axis] - count, None) if last else slice(count)
    return getitem(x, (slice(None),) * axis + (window,))


def _statistic(mode: str, x: Array, axis: int) -> Array:
    statistic = STATISTICS[mode](x, axis, keepdims=True)
    whole = x.dtype.kind in "iu" and mode in ("mean", "median")
    return rint(statistic) if whole else statistic
