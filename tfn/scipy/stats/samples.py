"""Statistics of samples: the most frequent value, ranks, and the error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOATS
from tfn.extend import one_of, operands
from tfn.numpy.manipulation import flat_or_axis


class ModeResult(NamedTuple):
    """The most frequent values, and how many there are of each."""

    mode: Array
    count: Array  # type: ignore[assignment]  # SciPy's name, which tuples have for a method


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent values along an axis, of several the smallest, and their numbers.

    Args:
        a: real numbers.
        axis: axis that is reduced; None takes the flat array.
        nan_policy: "propagate": NaN is a value like others, the largest one.
        keepdims: whether the axis stays, with size 1.

    Returns:
        A pair of arrays; NaN and 0 of no elements.

    Raises:
        ArgumentError: for another policy.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy import stats
        >>> [x.item() for x in stats.mode(tnp.array([3, 1, 3, 2]))]
        [3, 2]
    """
    one_of("mode", "nan_policy", nan_policy, ("propagate",))
    whole = operands.array_of("mode", a)
    x, place = flat_or_axis("mode", whole, axis)
    line = jnp.sort(jnp.moveaxis(x, place, -1), -1)
    size = line.shape[-1]
    if not size:
        value, count = jnp.full(line.shape[:-1], jnp.nan), jnp.zeros(line.shape[:-1], int)
    else:
        # In order, equal values are neighbours: the length of a run is known where it ends.
        where = jnp.arange(size)
        starts = _begins(line)
        begin = _running_maximum(jnp.where(starts, where, 0))
        lengths = where - begin + 1
        best = jnp.argmax(lengths, -1, keepdims=True)
        value = jnp.take_along_axis(line, best, -1)[..., 0]
        count = jnp.take_along_axis(lengths, best, -1)[..., 0]
    if keepdims:
        shape = (
            [1] * whole.ndim
            if axis is None
            else [1 if i == place else n for i, n in enumerate(whole.shape)]
        )
        value, count = value.reshape(tuple(shape)), count.reshape(tuple(shape))
    return ModeResult(value, count)


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """The ranks of elements from 1 on, in ascending order.

    Args:
        a: real numbers.
        method: the rank of equal elements: "average", "min", "max", "dense" (the next rank follows
            at once) or "ordinal" (in the order of the array).
        axis: axis along which they are ranked; None takes the flat array.
        nan_policy: "propagate": a NaN makes all ranks NaN.

    Returns:
        Floats of the shape of `a`, or a vector.

    Raises:
        ArgumentError: for another method or policy.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy import stats
        >>> stats.rankdata(tnp.array([2, 5, 2])).tolist()
        [1.5, 3.0, 1.5]
    """
    one_of("rankdata", "method", method, ("average", "min", "max", "dense", "ordinal"))
    one_of("rankdata", "nan_policy", nan_policy, ("propagate",))
    x, place = flat_or_axis("rankdata", operands.array_of("rankdata", a), axis)
    x = jnp.moveaxis(x, place, -1)
    order = jnp.argsort(x, -1)
    position = jnp.argsort(order, -1)
    if method == "ordinal":
        ranks: Any = position + 1
    else:
        line = jnp.take_along_axis(x, order, -1)
        starts = _begins(line)
        where = jnp.arange(x.shape[-1])
        first = _running_maximum(jnp.where(starts, where, 0)) + 1
        ends = jnp.concatenate([starts[..., 1:], jnp.ones_like(starts[..., :1])], -1)
        beyond = jnp.where(ends, where, x.shape[-1])
        last = -jnp.flip(_running_maximum(-jnp.flip(beyond, -1)), -1) + 1
        by_line = {
            "min": first,
            "max": last,
            "average": (first + last) / 2,
            "dense": jnp.cumsum(starts.astype(int), -1),
        }[method]
        ranks = jnp.take_along_axis(by_line, position, -1)
    kind = jnp.result_type(x.dtype, float) if x.dtype in FLOATS else jnp.result_type(float)
    ranks = ranks.astype(kind)
    if x.dtype in FLOATS:
        ranks = jnp.where(jnp.isnan(x).any(-1, keepdims=True), jnp.nan, ranks)
    return jnp.moveaxis(ranks, -1, place)


def _begins(line: Array) -> Array:
    """Whether an element differs from the one before it; all NaN are equal."""
    after, before = line[..., 1:], line[..., :-1]
    differs = (after != before) & ((after == after) | (before == before))
    return jnp.concatenate([jnp.ones_like(line[..., :1], bool), differs], -1)


def _running_maximum(x: Array) -> Array:
    """The largest element so far, along the last axis."""
    step, size = 1, x.shape[-1]
    while step < size:
        shifted = jnp.concatenate([x[..., :step], x[..., :-step]], -1)
        x = jnp.maximum(x, shifted)
        step *= 2
    return x


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean: the deviation of samples by the root of their number.

    Args:
        a: real numbers.
        axis: axis that is reduced; None takes the flat array.
        ddof: number by which the divisor of the deviation is less than that of samples.
        nan_policy: "propagate", or "omit" to leave NaN out.
        keepdims: whether the axis stays, with size 1.

    Returns:
        A floating array without the axis.

    Raises:
        ArgumentError: for another policy.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy import stats
        >>> stats.sem(tnp.array([1.0, 3.0])).item()
        1.0
    """
    one_of("sem", "nan_policy", nan_policy, ("propagate", "omit"))
    x = operands.array_of("sem", a)
    x, axis = (x.reshape(-1), 0) if axis is None else (x, operands.one_axis("sem", axis, x.ndim))
    if nan_policy == "omit":
        spread = jnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
        count = (~jnp.isnan(x)).sum(axis, keepdims=keepdims).astype(spread.dtype)
        return spread / jnp.sqrt(count)
    spread = jnp.std(x, axis, ddof=ddof, keepdims=keepdims)  # an error if there is no such axis
    root: float = x.shape[axis] ** 0.5
    return spread / root
