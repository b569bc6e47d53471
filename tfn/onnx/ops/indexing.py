"""Elements at indices, sorts, sets, and reductions along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.onnx.ops.known import Value, axes_of, integers, library, like, numbers


def wrapped(indices: Value, size: int) -> Value:
    """Indices from the front: negative ones count from the back."""
    return library(indices).where(indices < 0, indices + like(indices, size), indices)


def Gather(x: Value, indices: Value, axis: int = 0) -> Value:
    """Elements at indices along an axis."""
    return library(x, indices).take(x, wrapped(indices, x.shape[axis]), axis=axis)


def GatherElements(x: Value, indices: Value, axis: int = 0) -> Value:
    """For each index the element at it along an axis, elsewhere at its own place."""
    x = jnp.asarray(x)
    return x[_places(x, indices, axis)]


def _places(x: Value, indices: Value, axis: int) -> tuple[Value, ...]:
    """The index of each element of `indices`: its own place, but along one axis."""
    axis %= x.ndim
    grid: list[Value] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = jnp.asarray(wrapped(indices, x.shape[axis]))
    return tuple(grid)


def GatherND(x: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Elements or parts at points."""
    x, indices = jnp.asarray(x), jnp.asarray(indices)
    return x[_points(x, indices, batch_dims)]


def _points(x: Value, indices: Value, batch: int) -> tuple[Value, ...]:
    """An index for each of the leading axes, from points along the last axis of `indices`."""
    rank = indices.ndim - 1
    grid = [
        np.arange(n).reshape([-1 if i == a else 1 for i in range(rank)])
        for a, n in enumerate(indices.shape[:batch])
    ]
    return (
        *grid,
        *(wrapped(indices[..., i], x.shape[batch + i]) for i in range(indices.shape[-1])),
    )


def _scattered(x: Value, place: tuple[Value, ...], updates: Value, reduction: str) -> Value:
    method = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}[reduction]
    return getattr(x.at[place], method)(jnp.asarray(updates))


def ScatterElements(
    x: Value, indices: Value, updates: Value, axis: int = 0, reduction: str = "none"
) -> Value:
    """An array with updates at indices along an axis."""
    x = jnp.asarray(x)
    return _scattered(x, _places(x, indices, axis), updates, reduction)


def ScatterND(x: Value, indices: Value, updates: Value, reduction: str = "none") -> Value:
    """An array with updates at points."""
    x = jnp.asarray(x)
    return _scattered(x, _points(x, jnp.asarray(indices), 0), updates, reduction)


def TensorScatter(
    past: Value, update: Value, writes: Value = None, axis: int = -2, mode: str = "linear"
) -> Value:
    """A cache with new rows at the position of each batch."""
    past = jnp.asarray(past)
    axis %= past.ndim
    batch, length = past.shape[0], update.shape[axis]
    first = jnp.zeros(batch, "int64") if writes is None else jnp.asarray(writes)
    times = first[:, None] + jnp.arange(length)
    if mode == "circular":
        times = times % past.shape[axis]
    rows = (
        jnp.moveaxis(past, axis, 1)
        .at[jnp.arange(batch)[:, None], times]
        .set(jnp.moveaxis(jnp.asarray(update), axis, 1))
    )
    return jnp.moveaxis(rows, 1, axis)


def OneHot(indices: Value, depth: Value, values: Value, axis: int = -1) -> Value:
    """One of two values, the second at an index."""
    size = int(numbers(depth, "a depth").reshape(-1)[0])
    places = wrapped(jnp.asarray(indices).astype("int32"), size)
    on = nn.one_hot(places, size, axis=axis, dtype=bool)
    return jnp.where(on, values[1], values[0])


def NonZero(x: Value) -> Value:
    """The indices of elements that are not zero: (rank, count)."""
    return library(x).stack(library(x).nonzero(x)).astype("int64")


def Compress(x: Value, condition: Value, axis: int | None = None) -> Value:
    """Elements along an axis where a condition holds."""
    chosen = np.flatnonzero(numbers(condition, "which elements to keep"))
    return library(x).take(x if axis is not None else x.reshape(-1), chosen, axis=axis or 0)


def Unique(x: Value, axis: int | None = None, sorted: int = 1) -> Value:
    """Distinct elements, where each is first, which each was, and how often."""
    data = numbers(x, "its elements")
    values, first, inverse, counts = np.unique(data, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        values = np.take(values, order, axis or 0)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order, kind="stable")[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def TopK(
    x: Value,
    given: Value = None,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    k: int | None = None,
) -> Value:
    """The largest or smallest elements along an axis in order, and where they are."""
    count = integers(given, "how many")[0] if given is not None else int(k or 0)
    x = jnp.asarray(x)
    rows = jnp.moveaxis(x, axis, -1)
    if largest:
        values, places = lax.top_k(rows, count)
    else:
        order = jnp.argsort(rows, axis=-1, stable=True)[..., :count]
        values, places = jnp.take_along_axis(rows, order, -1), order
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(places, -1, axis).astype("int64")


def _extreme(name: str) -> Callable[..., Value]:
    def op(x: Value, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        xp = library(x)
        found = getattr(xp, name)(xp.flip(x, axis) if select_last_index else x, axis)
        if select_last_index:
            found = x.shape[axis] - 1 - found
        return (xp.expand_dims(found, axis) if keepdims else found).astype("int64")

    return op


def _running(name: str) -> Callable[..., Value]:
    def op(x: Value, axis: Value, exclusive: int = 0, reverse: int = 0) -> Value:
        x, along = jnp.asarray(x), integers(axis, "an axis")[0]
        x = jnp.flip(x, along) if reverse else x
        sums = getattr(jnp, name)(x, along, dtype=x.dtype)
        if exclusive:
            neutral = jnp.full_like(lax.slice_in_dim(sums, 0, 1, axis=along), name == "cumprod")
            sums = jnp.concatenate([neutral, lax.slice_in_dim(sums, 0, -1, axis=along)], along)
        return jnp.flip(sums, along) if reverse else sums

    return op


def _reduction(function: Callable[..., Value]) -> Callable[..., Value]:
    def op(
        x: Value,
        given: Value = None,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Value:
        over = axes_of(given, axes, x.ndim) or None
        if over is None and noop_with_empty_axes:
            over = ()
        y = function(library(x), x, over, bool(keepdims))
        return y.astype(x.dtype)

    return op


def _extremes(name: str) -> Callable[..., Value]:
    """The largest or smallest element; of none the lowest or highest number of the dtype."""

    def function(xp: Any, x: Value, axes: tuple[int, ...] | None, keep: bool) -> Value:
        if x.size or not x.ndim:
            return getattr(xp, name)(x, axis=axes, keepdims=keep)
        info = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        ends = (-np.inf, np.inf) if info is None else (info.min, info.max)
        over = range(x.ndim) if axes is None else axes
        sizes = [1 if a in over else n for a, n in enumerate(x.shape) if keep or a not in over]
        return np.full(sizes, ends[name == "min"], x.dtype)

    return function


def _method(name: str) -> Callable[..., Value]:
    return lambda xp, x, axes, keep: getattr(xp, name)(x, axis=axes, keepdims=keep)


def _log_sum_exp(xp: Any, x: Value, axes: tuple[int, ...] | None, keep: bool) -> Value:
    return nn.logsumexp(jnp.asarray(x), axis=axes, keepdims=keep)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "Gather": Gather, "GatherElements": GatherElements, "GatherND": GatherND,
    "Scatter": ScatterElements,
    "ScatterElements": ScatterElements, "ScatterND": ScatterND, "TensorScatter": TensorScatter,
    "OneHot": OneHot, "NonZero": NonZero, "Compress": Compress, "Unique": Unique, "TopK": TopK,
    "ArgMax": _extreme("argmax"), "ArgMin": _extreme("argmin"),
    "CumSum": _running("cumsum"), "CumProd": _running("cumprod"),
    **{op: _reduction(_method(name)) for op, name in {
        "ReduceSum": "sum", "ReduceMean": "mean", "ReduceProd": "prod",
    }.items()},
    "ReduceMax": _reduction(_extremes("max")), "ReduceMin": _reduction(_extremes("min")),
    "ReduceL1": _reduction(lambda xp, x, axes, keep: xp.sum(xp.abs(x), axis=axes, keepdims=keep)),
    "ReduceL2": _reduction(lambda xp, x, axes, keep: xp.sqrt(xp.sum(x * x, axis=axes,
    keepdims=keep))),
    "ReduceSumSquare": _reduction(lambda xp, x, axes, keep: xp.sum(x * x, axis=axes,
    keepdims=keep)),
    "ReduceLogSum": _reduction(lambda xp, x, axes, keep: xp.log(xp.sum(x, axis=axes,
    keepdims=keep))),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
}
# fmt: on
