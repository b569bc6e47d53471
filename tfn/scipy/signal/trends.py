"""Removal of trends: means and straight lines subtracted from a signal."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import integers
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import one_of, operands, shown

if TYPE_CHECKING:
    from jaxtyping import Inexact, Num


def detrend(
    data: Num[ArrayLike, "*sizes"],
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: None = None,
) -> Inexact[Array, "*sizes"]:
    """The data along an axis less their mean or their linear trend.

    Args:
        data: array of samples.
        axis: axis of the samples, counted from the end if negative; the last by default.
        type: "linear" subtracts the straight line with the least sum of squares to the data,
            "constant" the mean.
        bp: index, or sequence of indices, where one line ends and another one begins.
        overwrite_data: must be None: the result is a new array.

    Returns:
        A floating array of the shape of `data`.

    Raises:
        ArgumentError: for another type, a break outside the data, or with `overwrite_data`, since
            arrays here do not change.
        AxisError: if the data has no such axis.
        ShapeError: if there are no data along the axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> detrend(tnp.array([1.0, 4.0, 8.0, 8.0, 9.0])).tolist()
        [-1.0, 0.0, 2.0, 0.0, -1.0]
        >>> detrend(tnp.array([1.0, 2.0, 6.0]), type="constant").tolist()
        [-2.0, -1.0, 3.0]
    """
    if overwrite_data is not None:
        raise ArgumentError(
            "detrend cannot change its data",
            got=f"overwrite_data={overwrite_data}",
            hint="x = detrend(x)",
        )
    one_of("detrend", "type", type, ("linear", "constant"))
    x = operands.array_of("detrend", data)
    x = x.astype(operands.inexact((x.dtype, False))[0])
    at = operands.one_axis("detrend", axis, x.ndim)
    size = x.shape[at]
    if not size:
        raise ShapeError(
            "detrend needs data along its axis",
            got=f"{shown(x)}, axis={axis}",
            hint="name another axis",
        )
    if type == "constant":
        return x - x.mean(at, keepdims=True)
    breaks = integers("detrend", "bp", [bp] if isinstance(bp, int) else bp, 0)
    if max(breaks, default=0) > size:
        raise ArgumentError(
            "detrend needs breaks within the data",
            got=f"bp={bp} of {size} elements",
            hint=f"breaks go from 0 to {size}",
        )
    ends = sorted({0, size, *breaks})
    pieces = [
        _without_line(lax.slice_in_dim(x, low, high, 1, at), at) for low, high in pairwise(ends)
    ]
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces, at)


def _without_line(x: Array, axis: int) -> Array:
    """An array less its mean and its slope, orthogonal since positions count from the middle."""
    n = x.shape[axis]
    shape = [n if i == axis else 1 for i in range(x.ndim)]
    place = (jnp.arange(n, dtype=x.real.dtype) - (n - 1) / 2).reshape(shape)
    slope = (x * place).sum(axis, keepdims=True) / (n * (n * n - 1) / 12 or 1)
    return x - x.mean(axis, keepdims=True) - slope * place
