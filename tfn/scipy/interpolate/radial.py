"""Interpolation of scattered points by functions of distances: `RBFInterpolator`."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import one_of, operands, shown

if TYPE_CHECKING:
    from jaxtyping import Inexact, Real


def _thin_plate(square: Array) -> Array:
    positive = square > 0
    return jnp.where(positive, square * jnp.log(jnp.where(positive, square, 1)) / 2, 0)


def _distance(square: Array) -> Array:
    positive = square > 0  # where the square root has a slope
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


KERNELS: dict[str, tuple[Callable[[Array], Array], int, bool]] = {
    "linear": (lambda s: -_distance(s), 0, False),
    "thin_plate_spline": (_thin_plate, 1, False),
    "cubic": (lambda s: _distance(s) ** 3, 1, False),
    "quintic": (lambda s: -(_distance(s) ** 5), 2, False),
    "multiquadric": (lambda s: -jnp.sqrt(s + 1), 0, True),
    "inverse_multiquadric": (lambda s: 1 / jnp.sqrt(s + 1), -1, True),
    "inverse_quadratic": (lambda s: 1 / (s + 1), -1, True),
    "gaussian": (lambda s: jnp.exp(-s), -1, True),
}
"""Functions of squares of distances, the least degree of the polynomial beside them, and whether
they need a scale."""


def RBFInterpolator(
    y: Real[ArrayLike, "points axes"],
    d: Inexact[ArrayLike, "points ..."],
    smoothing: ArrayLike = 0.0,
    kernel: str = "thin_plate_spline",
    epsilon: ArrayLike | None = None,
    degree: int | None = None,
) -> Callable[[Real[ArrayLike, "places axes"]], Array]:
    """A function through values at scattered points, or near them.

    Args:
        y: the points, a row for each.
        d: their values.
        smoothing: how far the function may pass values by, a number or one for each; 0 for not.
        kernel: "linear", "thin_plate_spline", "cubic", "quintic", "multiquadric",
            "inverse_multiquadric", "inverse_quadratic" or "gaussian".
        epsilon: the scale of distances; 1 for the first four, which need none.
        degree: of the polynomial that is added, -1 for none; None for the least that the kernel
            allows, and 0 at least.

    Returns:
        A function of a matrix of places, a row for each, that gives an array of their values.

    Raises:
        ArgumentError: for another kernel, or without a scale that it needs.
        ShapeError: unless points are a matrix, and values as many.

    Source: G. Fasshauer, Meshfree approximation methods with MATLAB (2007), chapters 6 to 8.

    Example:
        >>> import tfn.numpy as tnp
        >>> corners = tnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> f = RBFInterpolator(corners, corners.sum(1))
        >>> f(tnp.array([[0.5, 0.5]])).round(3).tolist()
        [1.0]
    """
    one_of("RBFInterpolator", "kernel", kernel, tuple(KERNELS))
    function, least, scaled = KERNELS[kernel]
    points, values = operands.array_of("RBFInterpolator", y), jnp.asarray(d)
    if points.ndim != 2 or values.shape[:1] != points.shape[:1]:
        raise ShapeError(
            "RBFInterpolator needs a matrix of points and a value for each",
            got=f"{shown(points)}, {shown(values)}",
        )
    if epsilon is None and scaled:
        raise ArgumentError(f"{kernel} needs a scale", got="epsilon=None")
    kind = jnp.promote_types(jnp.result_type(points, values), "float32")
    values = values.astype(kind)
    points = points.astype(values.real.dtype)
    scale = jnp.asarray(1.0 if epsilon is None else epsilon, points.dtype)
    power = max(least, 0) if degree is None else degree
    count, axes = points.shape
    low, high = points.min(0), points.max(0)
    middle, half = (low + high) / 2, (high - low) / 2
    half = jnp.where(half == 0, 1, half)
    size = comb(power + axes, axes) if power >= 0 else 0
    if size > count:
        raise ShapeError(f"a polynomial of degree {power} needs {size} points", got=shown(points))

    def radial(x: Array) -> Array:
        gaps = (x[:, None] - points[None]) * scale
        return function((gaps * gaps).sum(-1))

    def monomials(x: Array) -> Array:
        x = (x - middle) / half
        found = [
            jnp.prod(jnp.stack([x[:, i] for i in chosen], 1), axis=1) if chosen else x[:, 0] * 0 + 1
            for order in range(power + 1)
            for chosen in combinations_with_replacement(range(axes), order)
        ]
        return jnp.stack(found, 1) if found else jnp.zeros((x.shape[0], 0), x.dtype)

    smooth = jnp.broadcast_to(jnp.asarray(smoothing, points.dtype), (count,))
    rest = monomials(points)
    top = jnp.concatenate([radial(points) + jnp.diag(smooth), rest], 1)
    bottom = jnp.concatenate([rest.T, jnp.zeros((size, size), points.dtype)], 1)
    right = jnp.concatenate([values.reshape(count, -1), jnp.zeros((size, values[0].size), kind)])
    weights = jnp.linalg.solve(jnp.concatenate([top, bottom]).astype(kind), right)

    def interpolated(x: Real[ArrayLike, "places axes"]) -> Array:
        places = jnp.asarray(x, points.dtype)
        rows = jnp.concatenate([radial(places), monomials(places)], 1)
        return (rows.astype(kind) @ weights).reshape(-1, *values.shape[1:])

    return interpolated
