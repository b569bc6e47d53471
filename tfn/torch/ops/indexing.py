"""Elements at indices: gathers, scatters, tables of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.torch.ops.known import Value, cast, rowed


def _places(indices: Sequence[Value]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def index(x: Value, indices: Sequence[Value]) -> Value:
    """Elements at indices of some axes; None for all of an axis."""
    return x[_places(indices)]


def index_put(x: Value, indices: Sequence[Value], values: Value, accumulate: bool = False) -> Value:
    """An array with other elements at indices, or with more added to them."""
    at = x.at[_places(indices)]
    values = cast(values, x.dtype)
    return (at.add if accumulate and x.dtype != bool else at.set)(values)


def masked_index(x: Value, mask: Value, indices: Sequence[Value], fill: Value) -> Value:
    """Elements at indices where a mask is true, else a number."""
    return jnp.where(
        mask, x[_places([_inside(x, i, a) for a, i in enumerate(indices)])], cast(fill, x.dtype)
    )


def masked_index_put(x: Value, mask: Value, indices: Sequence[Value], values: Value) -> Value:
    """An array with more added to its elements at indices where a mask is true."""
    values = jnp.where(mask, values, cast(0, values.dtype))
    return x.at[_places([_inside(x, i, a) for a, i in enumerate(indices)])].add(values)


def _inside(x: Value, index: Value, axis: int) -> Value:
    return None if index is None else jnp.clip(index, -x.shape[axis], x.shape[axis] - 1)


def _grid(x: Value, index: Value, dim: int) -> tuple[Any, ...]:
    """The place of each index: itself along one axis, its own position along all others."""
    return tuple(
        index
        if axis == dim % x.ndim
        else np.arange(n).reshape([-1 if a == axis else 1 for a in range(index.ndim)])
        for axis, n in enumerate(index.shape)
    )


def _vectors(x: Value, index: Value, *sources: Value) -> list[Value]:
    """Arrays of at least one axis, as those which are scalars are used."""
    return [v.reshape(1) if hasattr(v, "ndim") and not v.ndim else v for v in (x, index, *sources)]


def gather(x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """Elements at indices along one axis."""
    shape = index.shape
    x, index = _vectors(x, index)
    return x[_grid(x, index, dim)].reshape(shape) if index.size else jnp.zeros(shape, x.dtype)


def _scattered(x: Value, dim: int, index: Value, source: Value, method: str) -> Value:
    shape = x.shape
    x, index, source = _vectors(x, index, source)
    if not index.size:
        return x.reshape(shape)
    if hasattr(source, "shape"):
        source = source[tuple(slice(n) for n in index.shape)]
    at = x.at[_grid(x, index, dim)]
    return getattr(at, method)(cast(source, x.dtype)).reshape(shape)


REDUCERS = {
    "add": "add",
    "sum": "add",
    "multiply": "multiply",
    "prod": "multiply",
    "amax": "max",
    "amin": "min",
    "mean": "add",
}


def scatter(x: Value, dim: int, index: Value, source: Value, reduce: str | None = None) -> Value:
    """An array with other elements at indices along one axis."""
    return _scattered(x, dim, index, source, "set" if reduce is None else REDUCERS[reduce])


def scatter_add(x: Value, dim: int, index: Value, source: Value) -> Value:
    """An array with more added to elements at indices along one axis."""
    return _scattered(x, dim, index, source, "add")


def scatter_reduce(
    x: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool = True
) -> Value:
    """Elements at indices along one axis combined, with those that are there or without."""
    counts = _scattered(jnp.zeros(x.shape, "int32"), dim, index, 1, "add")
    start = x
    if not include_self:
        kind = x.dtype.kind
        info = None if kind == "f" or x.dtype.name == "bfloat16" else jnp.iinfo(x.dtype)
        neutral = {
            "sum": 0,
            "mean": 0,
            "prod": 1,
            "amax": -np.inf if info is None else info.min,
            "amin": np.inf if info is None else info.max,
        }[reduce]
        start = jnp.where(counts > 0, cast(neutral, x.dtype), x)
    y = _scattered(start, dim, index, source, REDUCERS[reduce])
    if reduce != "mean":
        return y
    counts = jnp.maximum(counts + int(include_self), 1).astype(x.dtype)
    return y // counts if x.dtype.kind in "iu" else y / counts


def index_add(x: Value, dim: int, index: Value, source: Value, alpha: Value = 1) -> Value:
    """An array with more added to its parts at indices of one axis."""
    source = cast(source, x.dtype) * cast(alpha, x.dtype)
    if not x.ndim:
        return x + source.sum()
    return x.at[(*[slice(None)] * (dim % x.ndim), index.reshape(-1))].add(source)


def index_reduce(
    x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """`scatter_reduce` of whole parts at indices of one axis."""
    if not x.ndim:
        x, source = x.reshape(1), source.reshape(1)
        return index_reduce(x, 0, index, source, reduce, include_self=include_self).reshape(())
    axis = dim % x.ndim
    places = index.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    places = jnp.broadcast_to(places, source.shape)
    return scatter_reduce(x, axis, places, source, reduce, include_self)


def put(x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """An array with other elements at places counted over all axes."""
    at = x.reshape(-1).at[index.reshape(-1)]
    return (at.add if accumulate else at.set)(source.reshape(-1)).reshape(x.shape)


def masked_select(x: Value, mask: Value) -> Value:
    """The elements where a mask is true; only where the mask is known."""
    x, mask = jnp.broadcast_arrays(x, mask)
    return x[mask]


def nonzero_static(x: Value, *, size: int, fill_value: int = -1) -> Value:
    """The places of the first elements that are not zero."""
    found = jnp.nonzero(x, size=size, fill_value=fill_value)
    return jnp.stack(found, 1).astype("int64") if found else jnp.zeros((size, 0), "int64")


def bincount(x: Value, weights: Value = None, minlength: int = 0) -> Value:
    """The numbers, or sums of weights, of equal integers; only where these are known."""
    if weights is not None and weights.dtype != np.float32:
        weights = cast(weights, np.float64)
    return jnp.bincount(x, weights, minlength)


def _unique(x: Value, axis: int | None, equal_neighbours: bool) -> tuple[Value, Value, Value]:
    """Different elements or parts, where each was found, and how often; values must be known."""
    if not equal_neighbours:
        values, inverse, counts = jnp.unique(x, return_inverse=True, return_counts=True, axis=axis)
        return values, inverse.reshape(x.shape if axis is None else -1), counts
    parts = x.reshape(-1) if axis is None else jnp.moveaxis(x, axis, 0)
    rows = parts.reshape(parts.shape[0], -1)
    fresh = jnp.concatenate([jnp.ones(1, bool), (rows[1:] != rows[:-1]).any(1)])[: len(rows)]
    inverse = jnp.cumsum(fresh) - 1
    starts = jnp.nonzero(fresh)[0]
    counts = jnp.diff(jnp.append(starts, rows.shape[0]))
    values = parts[starts]
    if axis is None:
        return values, inverse.reshape(x.shape), counts
    return jnp.moveaxis(values, 0, axis), inverse, counts


def unique(
    x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Value, Value, Value]:
    """Different elements in order."""
    return _unique(x, None, False)


def unique_dim(x: Value, dim: int, *options: bool, **named: bool) -> tuple[Value, Value, Value]:
    """Different parts along an axis, in order."""
    return _unique(x, dim, False)


def unique_consecutive(
    x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Value, Value, Value]:
    """Elements or parts that differ from the one before."""
    return _unique(x, dim, True)


def index_select(x: Value, dim: int, index: Value) -> Value:
    """The parts at indices of one axis."""
    return jnp.take(x, index.reshape(-1), dim)


def masked_scatter(x: Value, mask: Value, source: Value) -> Value:
    """An array whose elements under a mask are those of another, in order."""
    mask = jnp.broadcast_to(mask, x.shape)
    if not source.size:
        return x
    order = jnp.cumsum(mask.reshape(-1).astype("int32")) - 1
    taken = source.reshape(-1)[jnp.clip(order, 0, source.size - 1)]
    return jnp.where(mask, cast(taken, x.dtype).reshape(x.shape), x)


def nonzero(x: Value) -> Value:
    """The places of elements that are not zero; only where values are known."""
    if not x.ndim:
        return jnp.zeros((int(bool(x)), 0), "int64")
    return jnp.stack(jnp.nonzero(x), 1).astype("int64")


def embedding(
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Rows of a table."""
    rows = jnp.take(weight, indices, 0)
    if padding_idx < 0:
        return rows
    padding = (indices == padding_idx)[..., None]  # its row is not trained
    return jnp.where(padding, lax.stop_gradient(rows), rows)


def embedding_dense_backward(
    grad: Value, indices: Value, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """The derivative of `embedding` by its table."""
    flat, values = indices.reshape(-1), grad.reshape(-1, grad.shape[-1])
    if scale_grad_by_freq:
        counts = jnp.zeros(rows, values.dtype).at[flat].add(1)
        values = values / counts[flat][:, None]
    if padding_idx >= 0:
        values = jnp.where((flat == padding_idx)[:, None], cast(0, values.dtype), values)
    return jnp.zeros((rows, grad.shape[-1]), grad.dtype).at[flat].add(values)


def embedding_bag(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Value:
    """Sums, means or maxima of the rows of each bag, with what PyTorch's derivative needs."""
    bags = offsets.shape[0] - int(include_last_offset)
    places = jnp.arange(indices.shape[0])
    bag = jnp.searchsorted(offsets[:bags], places, side="right") - 1
    used = jnp.ones(indices.shape, bool) if padding_idx < 0 else indices != padding_idx
    counts = jnp.zeros(bags, indices.dtype).at[bag].add(used.astype(indices.dtype))
    rows = jnp.take(weight, indices, 0)
    rows = rows if per_sample_weights is None else rows * per_sample_weights[:, None]
    shape, nowhere = (bags, weight.shape[1]), jnp.zeros_like(counts)
    bag_of = bag.astype(indices.dtype)
    bag_of = bag_of if mode or padding_idx >= 0 else bag_of[:0]  # PyTorch needs none for sums
    if mode == 2:
        same = (bag[None] == jnp.arange(bags)[:, None]) & used[None]
        if not indices.size:
            return jnp.zeros(shape, weight.dtype), bag_of, counts, jnp.zeros(shape, indices.dtype)
        low = jnp.where(same[:, :, None], rows[None], cast(-np.inf, rows.dtype))
        first = low.argmax(1)
        found = same.any(1)[:, None]
        best = jnp.where(found, jnp.take_along_axis(rows, first, 0), cast(0, rows.dtype))
        return best, bag_of, counts, jnp.where(found, indices[first], 0)
    rows = jnp.where(used[:, None], rows, cast(0, rows.dtype))
    sums = jnp.zeros(shape, weight.dtype).at[bag].add(rows)
    if mode == 1:
        sums = sums / jnp.maximum(counts, 1).astype(sums.dtype)[:, None]
    return sums, bag_of, counts, nowhere


def searchsorted(
    rows: Value,
    values: Value,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value = None,
) -> Value:
    """The places of values in sorted rows."""
    rows = rows if sorter is None else jnp.take_along_axis(rows, sorter, -1)
    way = "right" if right or side == "right" else "left"
    if rows.ndim == 1:
        return jnp.searchsorted(rows, values, side=way)
    compared = jnp.less_equal if way == "right" else jnp.less
    return compared(rows[..., None, :], values[..., :, None]).sum(-1)


def bucketize(
    values: Value, boundaries: Value, out_int32: bool = False, right: bool = False
) -> Value:
    """The places of values between boundaries."""
    return jnp.searchsorted(boundaries, values, side="right" if right else "left")


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "index": index, "_unsafe_index": index, "index_put": index_put,
    "_unsafe_index_put": index_put, "_unsafe_masked_index": masked_index,
    "_unsafe_masked_index_put_accumulate": masked_index_put, "gather": gather,
    "scatter": scatter, "scatter_add": scatter_add, "scatter_reduce": scatter_reduce,
    "index_add": index_add, "index_select": rowed(index_select),
    "masked_scatter": masked_scatter, "nonzero": nonzero, "embedding": embedding,
    "embedding_dense_backward": embedding_dense_backward, "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag, "searchsorted": searchsorted,
    "bucketize": bucketize, "index_reduce": index_reduce, "put": put,
    "masked_select": masked_select, "nonzero_static": nonzero_static, "bincount": bincount,
    "_unique2": unique, "unique_dim": unique_dim, "unique_consecutive": unique_consecutive,
}
# fmt: on
