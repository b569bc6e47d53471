"""Interpolation on grids, in the manner of `scipy.interpolate`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import frozen, one_of, several, shown


@frozen
class RegularGridInterpolator:
    """A function that is known on a grid: linear between neighbours, or the nearest.

    Attributes:
        points: for each axis the places of the grid, ascending or descending.
        values: on the grid; further axes are values of one point.
        method: "linear" or "nearest".
        bounds_error: must be False: points outside are no error.
        fill_value: value outside of the grid; None goes on from the border.

    Example:
        >>> import tfn.numpy as tnp
        >>> line = tnp.array([0.0, 1.0])
        >>> f = RegularGridInterpolator((line, line), tnp.array([[0.0, 1.0], [2.0, 3.0]]))
        >>> f(tnp.array([0.5, 0.5])).tolist()
        [1.5]
    """

    points: Sequence[ArrayLike]
    values: ArrayLike
    method: str = "linear"
    bounds_error: bool = False
    fill_value: ArrayLike | None = np.nan

    def __post_init__(self) -> None:
        one_of("RegularGridInterpolator", "method", self.method, ("linear", "nearest"))
        if self.bounds_error:
            raise ArgumentError(
                "RegularGridInterpolator raises no error for values", got="bounds_error=True"
            )
        lines = several("RegularGridInterpolator", "points", self.points)
        shape = jnp.shape(self.values)
        sizes = [jnp.shape(line) for line in lines]
        fits = len(shape) >= len(sizes)
        fits = fits and all(size == (n,) and n > 1 for size, n in zip(sizes, shape))
        if not fits:
            raise ShapeError(
                "RegularGridInterpolator needs a vector of places for each of the first axes",
                got=f"places {sizes}, values {shape}",
                hint="two places at least for an axis",
            )

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """The values at points.

        Args:
            xi: points along the last axis, or a tuple of the coordinates of each axis.
            method: "linear" or "nearest"; None for that of the grid.

        Returns:
            An array of the axes of points, then of those of one value.

        Raises:
            ArgumentError: for another method.
            ShapeError: unless points have a coordinate for each axis.
        """
        kind = self.method if method is None else method
        one_of("RegularGridInterpolator", "method", kind, ("linear", "nearest"))
        lines = [jnp.asarray(line) for line in self.points]
        values = jnp.asarray(self.values)
        given = isinstance(xi, tuple)
        coordinates = (
            jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, xi)), -1) if given else jnp.asarray(xi)
        )
        if coordinates.ndim < 2 and not given:
            coordinates = coordinates.reshape(-1, coordinates.shape[-1] if coordinates.ndim else 1)
            coordinates = coordinates if coordinates.shape[-1] == len(lines) else coordinates.T
        if coordinates.shape[-1] != len(lines):
            raise ShapeError(
                f"RegularGridInterpolator needs points of {len(lines)} coordinates",
                got=shown(coordinates),
                hint="along the last axis",
            )
        cells, fractions, near = [], [], []
        outside = jnp.zeros(coordinates.shape[:-1], bool)
        for axis, line in enumerate(lines):
            down = line[-1] < line[0]
            line, x = (jnp.where(down, -v, v) for v in (line, coordinates[..., axis]))
            cell = jnp.clip(jnp.searchsorted(line, x, side="right") - 1, 0, line.size - 2)
            low, high = line[cell], line[cell + 1]
            fraction = (x - low) / (high - low)
            outside = outside | (x < line[0]) | (x > line[-1])
            cells.append(cell)
            fractions.append(fraction)
            near.append(cell + jnp.where(down, fraction >= 0.5, fraction > 0.5))
        rest = [1] * (values.ndim - len(lines))
        if kind == "nearest":
            result: Any = values[tuple(near)]
        else:
            result = 0.0
            for corner in product((0, 1), repeat=len(lines)):
                weight: Any = 1.0
                for bit, f in zip(corner, fractions, strict=True):
                    weight = weight * (f if bit else 1 - f)
                at = tuple(cell + bit for cell, bit in zip(cells, corner, strict=True))
                result = result + values[at] * weight.reshape(*weight.shape, *rest)
        if self.fill_value is None:
            whole: Array = result
            return whole
        inside = ~outside.reshape(*outside.shape, *rest)
        return jnp.where(inside, result, self.fill_value)
