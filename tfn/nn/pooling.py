"""Pooling: the largest element or the mean of each window, over any number of spatial axes.

Images are (batch, *space, channels).  An integer window has that size along each spatial axis.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from tfn import lax
from tfn import numpy as jnp
from tfn._support.validate import rank
from tfn.array import Array
from tfn.eager.operands import array_of
from tfn.nn.convolution import Padding, Sizes, each_axis, paddings

if TYPE_CHECKING:
    from jaxtyping import Float, Real


def max_pool(
    x: Real[Array, "batch *space channels"],
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
) -> Real[Array, "batch *places channels"]:
    """Returns the largest element of each window.

    Args:
        x: images.
        window: size of the window along each spatial axis; one integer for all of them.
        strides: steps of the window; those of the window, so that windows do not overlap, if None.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) for each spatial axis, of -inf, or of
            the smallest integer.

    Raises:
        ArgumentError: for another number of sizes, or one below 1.
        ShapeError: if x has fewer than three axes.

    Example:
        >>> max_pool(jnp.ones((2, 28, 28, 8)), 2).shape
        (2, 14, 14, 8)
        >>> max_pool(jnp.full((1, 2, 2, 1), -5, "int8"), 2, padding="SAME").item()
        -5
    """
    x = array_of("max_pool", x)
    integers = jnp.issubdtype(x.dtype, jnp.integer)
    start = int(jnp.iinfo(x.dtype).min) if integers else -jnp.inf
    return _pool(x, start, lax.max, window, strides, padding)


def avg_pool(
    x: Float[Array, "batch *space channels"],
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = False,
) -> Float[Array, "batch *places channels"]:
    """Returns the mean of each window.

    Args:
        x: images.
        window: size of the window along each spatial axis; one integer for all of them.
        strides: steps of the window; those of the window, so that windows do not overlap, if None.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) for each spatial axis.
        count_include_pad: whether padding counts as elements of value 0, instead of not at all.

    Raises:
        ArgumentError: for another number of sizes, or one below 1.
        ShapeError: if x has fewer than three axes.

    Example:
        >>> avg_pool(jnp.ones((2, 28, 28, 8)), 2).shape
        (2, 14, 14, 8)
    """
    total = _pool(x, 0.0, lax.add, window, strides, padding)
    if count_include_pad or padding == "VALID":
        return total / prod(each_axis("window", window, x.ndim - 2))
    ones = jnp.ones((1, *x.shape[1:-1], 1), x.dtype)
    return total / _pool(ones, 0.0, lax.add, window, strides, padding)


def adaptive_avg_pool(
    x: Float[Array, "batch *space channels"], sizes: Sizes
) -> Float[Array, "batch *places channels"]:
    """Returns the means of a given number of windows along each spatial axis, as equal as they can
    be.

    Window i of n over an axis of m elements begins at ``i * m // n`` and ends before
    ``-(-(i + 1) * m // n)``; those of an n that does not divide m overlap.

    Raises:
        ArgumentError: for a size of 0, or too many of them.

    Example:
        >>> adaptive_avg_pool(jnp.arange(4.0).reshape(1, 4, 1), 2).ravel().tolist()
        [0.5, 2.5]
    """
    rank("adaptive_avg_pool", x, 3)
    counts = each_axis("sizes", sizes, x.ndim - 2)
    for axis, n in enumerate(counts, 1):
        m = x.shape[axis]
        if m % n == 0:
            x = x.reshape(*x.shape[:axis], n, m // n, *x.shape[axis + 1 :]).mean(axis + 1)
        else:
            ends = [(i * m // n, -(-(i + 1) * m // n)) for i in range(n)]
            means = [
                lax.slice_in_dim(x, low, high, 1, axis).mean(axis, keepdims=True)
                for low, high in ends
            ]
            x = jnp.concatenate(means, axis)
    return x


def _pool(
    x: Array,
    start: float,
    computation: Callable[[Any, Any], Any],
    window: Sizes,
    strides: Sizes | None,
    padding: Padding,
) -> Array:
    rank("pooling", x, 3)
    space = x.ndim - 2
    sizes = (1, *each_axis("window", window, space), 1)
    steps = sizes if strides is None else (1, *each_axis("strides", strides, space), 1)
    pads = paddings(padding, space)
    pads = pads if isinstance(pads, str) else ((0, 0), *pads, (0, 0))
    pooled: Array = lax.reduce_window(x, start, computation, sizes, steps, pads)
    return pooled
