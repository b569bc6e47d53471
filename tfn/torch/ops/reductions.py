"""Reductions, running sums, sorts, and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.torch.ops.known import Value, axes_of, cast, dtype_of, is_integral, rowed, widened

Dims = int | Sequence[int] | None


def total(x: Value, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Sums; of integers in 64 bits."""
    x = _in_dtype(x, dtype)
    return widened(x).sum(axes_of(dim, x.ndim), keepdims=keepdim)


def _in_dtype(x: Value, dtype: Any) -> Value:
    if dtype is not None:
        return cast(x, dtype_of(dtype))
    return x.astype(np.int64) if is_integral(x) else x


def mean(x: Value, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Means."""
    x = x if dtype is None else cast(x, dtype_of(dtype))
    return widened(x).mean(axes_of(dim, x.ndim), keepdims=keepdim)


def prod(x: Value, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Products; of integers in 64 bits."""
    x = _in_dtype(x, dtype)
    return widened(x).prod(axes_of(dim, x.ndim), keepdims=keepdim)


def _spread(x: Value, dim: Dims, correction: float, keepdim: bool) -> tuple[Value, Value]:
    """Variances and means."""
    axes = axes_of(dim, x.ndim)
    wide = widened(x)
    centre = wide.mean(axes, keepdims=True)
    count = float(np.prod([x.shape[a] for a in axes]))
    apart = wide - centre
    squares = (apart * apart.conj()).real if x.dtype.kind == "c" else apart * apart
    sums = squares.sum(axes, keepdims=keepdim)
    rest = max(count - correction, 0.0)
    factor = jnp.asarray(rest, sums.dtype)
    return sums / factor, centre if keepdim else centre.reshape(sums.shape)


def var(
    x: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    """Variances."""
    return _spread(x, dim, int(unbiased) if correction is None else correction, keepdim)[0]


def var_mean(
    x: Value, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> Value:
    """Variances and means."""
    return _spread(x, dim, 1 if correction is None else correction, keepdim)


def _root(squares: Value) -> Value:
    """A square root whose derivative at 0 is 0, as PyTorch defines that of a deviation."""
    zero = squares == 0
    return jnp.where(zero, squares, jnp.sqrt(jnp.where(zero, cast(1, squares.dtype), squares)))


def std(x: Value, *args: Any, **options: Any) -> Value:
    """Standard deviations."""
    return _root(var(x, *args, **options))


def std_mean(x: Value, *args: Any, **options: Any) -> tuple[Value, Value]:
    """Standard deviations and means."""
    squares, centre = var_mean(x, *args, **options)
    return _root(squares), centre


def _logical(name: str) -> Callable[..., Value]:
    def op(x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        return getattr(jnp, name)(x != 0, axes_of(dim, x.ndim), keepdims=keepdim)

    return op


def _extreme(name: str) -> Callable[..., Value]:
    def op(x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        return getattr(jnp, name)(x, axes_of(dim, x.ndim), keepdims=keepdim)

    return op


def _where_extreme(name: str) -> Callable[..., Value]:
    """The place of the largest or smallest element, of all or along an axis."""

    def op(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        x = x.astype("int32") if x.dtype == bool else x
        if dim is None or not x.ndim:
            place = getattr(jnp, name)(x.reshape(-1))
            return place.reshape((1,) * x.ndim) if keepdim else place
        return getattr(jnp, name)(x, dim, keepdims=keepdim)

    return op


def _with_place(name: str) -> Callable[..., Value]:
    """The largest or smallest elements along an axis and their places.

    PyTorch gives the derivative to the place alone, even where elements are equal.
    """
    find = _where_extreme(name)

    def op(x: Value, dim: int, keepdim: bool = False) -> Value:
        if not x.ndim:
            return x, jnp.zeros((), "int64")
        places = find(x, dim, True)
        values = jnp.take_along_axis(x, places, dim)
        if keepdim:
            return values, places
        return jnp.squeeze(values, dim), jnp.squeeze(places, dim)

    return op


def _running(function: Callable[..., Value]) -> Callable[..., Value]:
    def op(x: Value, dim: int, dtype: Any = None) -> Value:
        x = _in_dtype(x, dtype)
        return function(x, axis=dim % x.ndim if x.ndim else None)

    return rowed(op)


def _running_extreme(name: str) -> Callable[..., Value]:
    """Running maxima or minima and the last places of them."""
    cumulate = getattr(lax, f"cum{name}")

    def op(x: Value, dim: int) -> Value:
        axis = dim % x.ndim
        y = cumulate(x, axis=axis)
        own = (x == y) | (x != x)
        steps = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        places = lax.cummax(jnp.where(own, jnp.asarray(steps, "int32"), -1), axis=axis)
        return jnp.take_along_axis(x, places, axis), places

    return rowed(op)


def sort(
    x: Value, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> tuple[Value, Value]:
    """Sorted elements along an axis and the places that they had; equal ones keep their order."""
    places = jnp.argsort(x, dim, descending=descending, stable=True)
    return jnp.take_along_axis(x, places, dim), places


def _sort_stable(x: Value, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    return sort(x, dim, descending)


def topk(
    x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """The largest or smallest elements along an axis, and their places."""
    moved = jnp.moveaxis(x, dim, -1)
    if largest:
        places = lax.top_k(moved, k)[1]
    else:
        places = jnp.argsort(moved, -1, stable=True)[..., :k]
    places = jnp.moveaxis(places, -1, dim)
    return jnp.take_along_axis(x, places, dim), places


def _at_rank(x: Value, order: Value, rank: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The element of a rank along an axis, and its place, by the places of sorted elements."""
    places = jnp.take_along_axis(order, rank, dim)
    values = jnp.take_along_axis(x, places, dim)
    if keepdim:
        return values, places
    return jnp.squeeze(values, dim), jnp.squeeze(places, dim)


def kthvalue(x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The k-th smallest elements along an axis, counted from 1, and their places."""
    order = jnp.argsort(x, dim, stable=True)
    rank = jnp.full_like(jnp.take(order, jnp.arange(1), dim), k - 1)
    return _at_rank(x, order, rank, dim, keepdim)


def _middle(skips_nan: bool) -> Callable[..., tuple[Value, Value]]:
    """The lower of the middle elements along an axis; NaN if there is one, or without these."""

    def op(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        order, nan = jnp.argsort(x, dim, stable=True), (x != x).sum(dim, keepdims=True)
        size = x.shape[dim]
        if skips_nan:
            rank = jnp.maximum(size - nan - 1, 0) // 2
        else:
            rank = jnp.where(nan > 0, size - nan, (size - 1) // 2)
        return _at_rank(x, order, rank, dim, keepdim)

    return rowed(op)


def mode(x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The most frequent elements along an axis, the smallest of several, and the last place."""
    last = jnp.moveaxis(x, dim, -1)
    order = jnp.argsort(last, -1, stable=True)
    ranked = jnp.take_along_axis(last, order, -1)
    steps = jnp.broadcast_to(jnp.arange(last.shape[-1]), last.shape)
    fresh = jnp.concatenate(
        [jnp.ones((*last.shape[:-1], 1), bool), ranked[..., 1:] != ranked[..., :-1]], -1
    )
    begins = lax.cummax(jnp.where(fresh, steps, 0), axis=last.ndim - 1)
    longest = jnp.argmax(steps - begins, -1)[..., None]
    values, places = _at_rank(last, order, longest, -1, True)
    values, places = jnp.moveaxis(values, -1, dim), jnp.moveaxis(places, -1, dim)
    return (values, places) if keepdim else (jnp.squeeze(values, dim), jnp.squeeze(places, dim))


def histc(x: Value, bins: int = 100, min: Value = 0, max: Value = 0) -> Value:
    """The numbers of elements in ranges of equal width."""
    if min == max:
        low, high = x.min(), x.max()
        low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    else:
        low, high = jnp.asarray(min, x.dtype), jnp.asarray(max, x.dtype)
    flat = x.reshape(-1)
    place = jnp.floor((flat - low) * (bins / (high - low))).astype("int32")
    place = jnp.minimum(place, bins - 1)
    inside = (flat >= low) & (flat <= high)
    return jnp.zeros(bins, x.dtype).at[jnp.where(inside, place, bins)].add(1, mode="drop")


def softmax(x: Value, dim: int, half_to_float: bool = False) -> Value:
    """Exponentials divided by their sums."""
    return nn.softmax(widened(x), axis=dim)


def log_softmax(x: Value, dim: int, half_to_float: bool = False) -> Value:
    """Logarithms of `softmax`."""
    return nn.log_softmax(widened(x), axis=dim)


def logsumexp(x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """Logarithms of sums of exponentials."""
    return nn.logsumexp(widened(x), axes_of(dim, x.ndim), keepdims=keepdim)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "sum": total, "mean": lambda x, *args, **options: mean(x, *args, **options), "prod": prod,
    "var": var, "var_mean": var_mean, "std": std, "std_mean": std_mean,
    "any": _logical("any"), "all": _logical("all"),
    "amax": _extreme("max"), "amin": _extreme("min"), "max": _extreme("max"),
    "min": _extreme("min"), "argmax": _where_extreme("argmax"),
    "argmin": _where_extreme("argmin"), "max.dim": _with_place("argmax"),
    "min.dim": _with_place("argmin"), "cumsum": _running(jnp.cumsum),
    "cumprod": _running(jnp.cumprod), "cummax": _running_extreme("max"),
    "cummin": _running_extreme("min"), "logcumsumexp": _running(lax.cumlogsumexp),
    "sort": rowed(sort), "sort.stable": rowed(_sort_stable), "topk": rowed(topk),
    "kthvalue": rowed(kthvalue), "mode": rowed(mode), "histc": histc,
    "median.dim": _middle(False), "nanmedian.dim": _middle(True),
    "median": lambda x: _middle(False)(x.reshape(-1), 0)[0],
    "nanmedian": lambda x: _middle(True)(x.reshape(-1), 0)[0],
    "_softmax": rowed(softmax), "_log_softmax": rowed(log_softmax), "logsumexp": logsumexp,
}
# fmt: on
