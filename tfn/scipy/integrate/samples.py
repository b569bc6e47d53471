"""Integrals of samples, in the manner of `scipy.integrate`."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral of samples along an axis by trapezoids; see `tfn.numpy.trapezoid`.

    Args:
        y: samples.
        x: their places; None for multiples of `dx`.
        dx: distance of places, without `x`.
        axis: the axis; the last by default.

    Returns:
        An array without the axis.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> trapezoid(tnp.array([1.0, 2.0, 3.0])).item()
        4.0
    """
    return jnp.trapezoid(y, x, dx, axis)
