"""Interpolation between the elements of an array, and filters, as `scipy.ndimage` has them."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from tfn import jit, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ShapeError
from tfn.extend import one_of, operands, several, shown
from tfn.scipy.image_filters import convolve as convolve
from tfn.scipy.image_filters import convolve1d as convolve1d
from tfn.scipy.image_filters import correlate as correlate
from tfn.scipy.image_filters import correlate1d as correlate1d
from tfn.scipy.image_filters import gaussian_filter as gaussian_filter
from tfn.scipy.image_filters import gaussian_filter1d as gaussian_filter1d
from tfn.scipy.image_filters import gaussian_gradient_magnitude as gaussian_gradient_magnitude
from tfn.scipy.image_filters import gaussian_laplace as gaussian_laplace
from tfn.scipy.image_filters import laplace as laplace
from tfn.scipy.image_filters import maximum_filter as maximum_filter
from tfn.scipy.image_filters import median_filter as median_filter
from tfn.scipy.image_filters import minimum_filter as minimum_filter
from tfn.scipy.image_filters import prewitt as prewitt
from tfn.scipy.image_filters import rank_filter as rank_filter
from tfn.scipy.image_filters import sobel as sobel
from tfn.scipy.image_filters import uniform_filter as uniform_filter

if TYPE_CHECKING:
    from jaxtyping import Int32, Real, Shaped

Index = Array


def map_coordinates(
    input: Shaped[ArrayLike, "*sizes"],
    coordinates: Sequence[Real[ArrayLike, "*places"]] | Real[Array, " axes *places"],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Shaped[Array, "*places"]:
    """The values of an array at coordinates between its elements.

    Integer results are rounded to the nearest.  The derivative by the coordinates is the slope of
    the interpolation, 0 for order 0.  "constant" and "wrap" are "grid-constant" and "grid-wrap" in
    SciPy: values between the array and those beyond it are interpolated, too.

    Args:
        input: array of one element at least; element i of an axis is at coordinate i.
        coordinates: an array of coordinates for each axis of `input`, all of one shape.
        order: 0 for the nearest element, of two at the same distance the one further from 0; 1 for
            linear interpolation along each axis.
        mode: values beyond the borders: "constant", which is `cval`; "nearest", the element at the
            border; "wrap", the array again; "reflect", the array backwards, and "mirror", the same
            without the element at the border.
        cval: number beyond the borders for "constant", 0 by default.

    Returns:
        An array of the dtype of `input` and the shape of the coordinates.

    Raises:
        ShapeError: for another number of coordinates than `input` has axes, or if it is empty.
        ArgumentError: for another order or mode.
        DTypeError: for complex coordinates.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([[0.0, 1.0], [2.0, 3.0]])
        >>> map_coordinates(x, [tnp.array([0.5, 1.0]), tnp.array([0.5, 2.0])], 1).tolist()
        [1.5, 0.0]
        >>> map_coordinates(x[1], [tnp.array([-1.2, 2.4])], 0, "reflect").tolist()
        [2.0, 3.0]
    """
    x = operands.array_of("map_coordinates", input)
    listed = several("map_coordinates", "coordinates", coordinates, "arrays")
    places = [operands.array_of("map_coordinates", place) for place in listed]
    operands.need_real("map_coordinates", *places)
    if len(places) != x.ndim or not x.size or not places:
        raise ShapeError(
            "map_coordinates needs coordinates for each axis, and an element",
            got=f"{len(places)} of them for {shown(x)}",
            hint="pass a list of arrays of one shape, one for each axis",
        )
    one_of("map_coordinates", "order", order, tuple(_BETWEEN))
    one_of("map_coordinates", "mode", mode, tuple(_FOLDED))
    values: Array = _mapped(x, jnp.broadcast_arrays(*places), cval, order, mode)
    return values


@partial(jit, static_argnums=(3, 4))
def _mapped(x: Array, places: list[Array], cval: Array, order: int, mode: str) -> Array:
    ends = []  # for each axis, the elements around each point: index, existence, weight
    for place, size in zip(places, x.shape):
        ends.append(
            [
                (_FOLDED[mode](index, size), (index >= 0) & (index < size), weight)
                for index, weight in _BETWEEN[order](place)
            ]
        )
    total: Array | None = None
    for corner in product(*ends):
        indices, exist, weights = zip(*corner)
        value = x.at[indices].get(mode="promise_in_bounds")
        if mode == "constant":
            value = jnp.where(math.prod(exist), value, jnp.asarray(cval).astype(x.dtype))
        if order:
            value = math.prod(weights) * value
        total = value if total is None else total + value
    assert total is not None
    return (_rounded(total) if x.dtype.kind in "iu" else total).astype(x.dtype)


def _rounded(x: Array) -> Array:
    return lax.round(x) if x.dtype.kind == "f" else x


# The elements around a place, with their weights.


def _nearest(place: Array) -> list[tuple[Index, Array]]:
    return [(_rounded(place).astype("int32"), jnp.ones((), place.dtype))]


def _line(place: Array) -> list[tuple[Index, Array]]:
    if place.dtype.kind != "f":
        return _nearest(place)
    low = jnp.floor(place)
    index, weight = low.astype("int32"), place - low
    return [(index, 1 - weight), (index + 1, weight)]


_BETWEEN = {0: _nearest, 1: _line}


# The index of the element in place of one beyond the borders.


def _clipped(index: Index, size: int) -> Index:
    return jnp.clip(index, 0, size - 1)


def _wrapped(index: Index, size: int) -> Index:
    return index % size


def _mirrored(index: Index, size: int) -> Index:
    """Mirrored indices: a period of two lengths less two, since both ends occur once."""
    last = size - 1
    return abs((index + last) % max(2 * last, 1) - last)


def _reflected(index: Index, size: int) -> Index:
    """Reflected indices: a period of two lengths, since both ends occur twice."""
    position = index % (2 * size)
    return jnp.minimum(position, 2 * size - 1 - position)


_FOLDED: dict[str, Callable[[Int32[Array, "*places"], int], Int32[Array, "*places"]]] = {
    "constant": _clipped,
    "nearest": _clipped,
    "wrap": _wrapped,
    "mirror": _mirrored,
    "reflect": _reflected,
}
