"""Filters of images of any rank: `gaussian_filter`, `sobel`, `median_filter` and their kin.

A linear filter is one convolution of the padded array, along one axis or all; those that are
products of filters along the axes are computed so.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import integer, one_of, operands, shown

if TYPE_CHECKING:
    from jaxtyping import Real

    Image = Real[ArrayLike, "*sizes"]
    Filtered = Real[Array, "*sizes"]

Modes = str | Sequence[str]
Numbers = float | Sequence[float]
_PADDING = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
    "constant": "constant",
    "grid-constant": "constant",
}
"""Modes of borders by their names in `numpy.pad`."""


def _image(name: str, input: Image, output: None) -> Array:
    one_of(name, "output", output, (None,))
    x = operands.array_of(name, input)
    operands.need_real(name, x)
    return x


def _for_axes(name: str, row: tuple[str, Any], axes: Sequence[int]) -> list[Any]:
    """A value for each axis, of one for all."""
    what, value = row
    if isinstance(value, (str, int, float)) or getattr(value, "ndim", None) == 0:
        return [value] * len(axes)
    if len(value) != len(axes):
        raise ArgumentError(
            f"{name} needs one {what}, or one for each axis",
            got=f"{len(value)} for {len(axes)} axes",
            hint=f"pass a list of {len(axes)}",
        )
    return list(value)


def _axes_of(name: str, x: Array, axes: int | Sequence[int] | None) -> list[int]:
    if axes is None:
        return list(range(x.ndim))
    return [operands.one_axis(name, a, x.ndim) for a in ([axes] if isinstance(axes, int) else axes)]


def _padded(
    name: str, x: Array, sizes: Sequence[int], mode: Modes, cval: float, origin: Any
) -> Array:
    """An array with the elements beyond its borders that a window of these sizes reaches."""
    axes = range(x.ndim)
    modes, origins = (_for_axes(name, row, axes) for row in (("mode", mode), ("origin", origin)))
    for axis, size in enumerate(sizes):
        one_of(name, "mode", modes[axis], tuple(_PADDING))
        low = size // 2 + integer(name, "origin", origins[axis])
        if not 0 <= low < size:
            raise ArgumentError(
                f"{name} needs an origin inside of the window",
                got=f"origin={origins[axis]}, a size of {size}",
                hint="0 centres the window",
            )
        kind = _PADDING[modes[axis]]
        width = [(low, size - 1 - low) if i == axis else (0, 0) for i in axes]
        if size > 1:
            fill: dict[str, Any] = {"constant_values": cval} if kind == "constant" else {}
            x = jnp.pad(x, width, kind, **fill)
    return x


def _correlated(
    name: str, x: Array, weights: Array, mode: Modes, cval: float, origin: Any
) -> Array:
    dtype = jnp.result_type(x.dtype, "float32")
    wide = _padded(name, x.astype(dtype), weights.shape, mode, cval, origin)
    out = lax.conv_general_dilated(
        wide[None, None],
        weights.astype(dtype)[None, None],
        (1,) * x.ndim,
        "VALID",
        precision="highest",
    )[0, 0]
    return out.astype(x.dtype)


def correlate(
    input: Image,
    weights: Real[ArrayLike, "*window"],
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The sum of the elements in a window around each, with weights.

    Args:
        input: array of any rank.
        weights: array of the same rank.
        output: None, for SciPy's calls of it: an array never changes.
        mode: what is beyond the borders: "reflect" the array backwards, "mirror" the same without
            the element at the border, "nearest" that element, "wrap" the array again, "constant"
            `cval`; one for all axes, or one for each.
        cval: number beyond the borders for "constant".
        origin: by how much the window is moved to the left, for all axes or for each.

    Returns:
        An array of the shape and dtype of `input`.

    Raises:
        ShapeError: for weights of another rank.
        ArgumentError: for an unknown mode, or an origin outside of the window.

    Example:
        >>> import tfn.numpy as tnp
        >>> correlate(tnp.array([1.0, 2.0, 4.0]), [1.0, 0.0, -1.0], mode="nearest").tolist()
        [-1.0, -3.0, -2.0]
    """
    x, w = _image("correlate", input, output), jnp.asarray(weights)
    if w.ndim != x.ndim:
        raise ShapeError(
            "correlate needs weights of the rank of the array",
            got=f"{shown(w)} for {shown(x)}",
            hint="correlate1d filters along one axis",
        )
    return _correlated("correlate", x, w, mode, cval, origin)


def convolve(
    input: Image,
    weights: Real[ArrayLike, "*window"],
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """As `correlate`, with the weights backwards.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolve(tnp.array([1.0, 2.0, 4.0]), [1.0, 0.0, -1.0], mode="nearest").tolist()
        [1.0, 3.0, 2.0]
    """
    w = jnp.asarray(weights)
    origins = _for_axes("convolve", ("origin", origin), range(w.ndim))
    moved = [-o - (n % 2 == 0) for o, n in zip(origins, w.shape, strict=True)]
    return correlate(input, jnp.flip(w), output, mode, cval, moved)


def _along(w: Array, axis: int, rank: int) -> Array:
    return w.reshape([-1 if i == axis else 1 for i in range(rank)])


def correlate1d(
    input: Image,
    weights: Real[ArrayLike, " window"],
    axis: int = -1,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Filtered:
    """As `correlate`, along one axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> correlate1d(tnp.array([[1.0, 2.0, 4.0]]), [1.0, 1.0, 1.0]).tolist()
        [[4.0, 7.0, 10.0]]
    """
    x = _image("correlate1d", input, output)
    axis = operands.one_axis("correlate1d", axis, x.ndim)
    origins = [origin if i == axis else 0 for i in range(x.ndim)]
    return correlate(x, _along(jnp.asarray(weights), axis, x.ndim), None, mode, cval, origins)


def convolve1d(
    input: Image,
    weights: Real[ArrayLike, " window"],
    axis: int = -1,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Filtered:
    """As `convolve`, along one axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolve1d(tnp.array([0.0, 1.0, 0.0, 0.0]), [1.0, 2.0, 3.0]).tolist()
        [1.0, 2.0, 3.0, 0.0]
    """
    w = jnp.asarray(weights)
    moved = -origin - (w.size % 2 == 0)
    return correlate1d(input, jnp.flip(w), axis, output, mode, cval, moved)


# Gaussian filters.


def _gaussian(sigma: float, order: int, radius: int) -> Array:
    """The Gaussian function or its derivative, backwards: Hermite's polynomials times it."""
    x = np.arange(-radius, radius + 1) / sigma
    bell = np.exp(-x * x / 2)
    slope = np.polynomial.hermite_e.hermeval(x, [0] * order + [1]) / sigma**order
    return jnp.asarray(slope * bell / bell.sum())


def gaussian_filter1d(
    input: Image,
    sigma: float,
    axis: int = -1,
    order: int = 0,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Filtered:
    """As `gaussian_filter`, along one axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> gaussian_filter1d(tnp.array([0.0, 0.0, 1.0, 0.0, 0.0]), 1.0)[2].item()
        0.398...
    """
    x = _image("gaussian_filter1d", input, output)
    reach = int(truncate * float(sigma) + 0.5) if radius is None else radius
    weights = _gaussian(float(sigma), integer("gaussian_filter1d", "order", order), reach)
    return correlate1d(x, weights, axis, None, mode, cval)


def gaussian_filter(
    input: Image,
    sigma: Numbers,
    order: int | Sequence[int] = 0,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Filtered:
    """An array smoothed by a Gaussian function, or its derivatives.

    Args:
        input: array of any rank.
        sigma: the standard deviation, for all axes or for each.
        order: 0 to smooth, 1 for the first derivative, ...; for all axes or for each.
        output: None, for SciPy's calls of it.
        mode, cval: what is beyond the borders, as for `correlate`.
        truncate: the reach of the filter in standard deviations.
        radius: the reach in elements, in place of `truncate`.
        axes: those that are filtered; None takes all.

    Returns:
        An array of the shape and dtype of `input`.

    Example:
        >>> import tfn.numpy as tnp
        >>> gaussian_filter(tnp.array([[0.0, 0.0], [0.0, 4.0]]), 9.0).round(2).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """
    name = "gaussian_filter"
    x = _image(name, input, output)
    chosen = _axes_of(name, x, axes)
    rows = [
        _for_axes(name, (what, value), chosen)
        for what, value in (("sigma", sigma), ("order", order), ("mode", mode))
    ]
    reaches = _for_axes(name, ("radius", -1 if radius is None else radius), chosen)
    for axis, deviation, degree, kind, reach in zip(chosen, *rows, reaches, strict=True):
        if deviation > 1e-15:
            limit = None if reach < 0 else reach
            x = gaussian_filter1d(
                x, deviation, axis, degree, None, kind, cval, truncate, radius=limit
            )
    return x


def _second(order: int, axis: int, rank: int) -> list[int]:
    return [order if i == axis else 0 for i in range(rank)]


def gaussian_laplace(
    input: Image,
    sigma: Numbers,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    **kwargs: Any,
) -> Filtered:
    """The sum of the second derivatives of a smoothed array; see `gaussian_filter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> gaussian_laplace(tnp.array([0.0, 0.0, 1.0, 0.0, 0.0]), 1.0).shape
        (5,)
    """
    x = _image("gaussian_laplace", input, output)
    orders = (_second(2, axis, x.ndim) for axis in range(x.ndim))
    parts = [gaussian_filter(x, sigma, order, None, mode, cval, **kwargs) for order in orders]
    return sum(parts[1:], start=parts[0])


def gaussian_gradient_magnitude(
    input: Image,
    sigma: Numbers,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    **kwargs: Any,
) -> Filtered:
    """The length of the gradient of a smoothed array; see `gaussian_filter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> gaussian_gradient_magnitude(tnp.array([1.0, 1.0, 1.0]), 1.0).round(3).tolist()
        [0.0, 0.0, 0.0]
    """
    x = _image("gaussian_gradient_magnitude", input, output)
    orders = (_second(1, axis, x.ndim) for axis in range(x.ndim))
    parts = [gaussian_filter(x, sigma, order, None, mode, cval, **kwargs) ** 2 for order in orders]
    return jnp.sqrt(sum(parts[1:], start=parts[0])).astype(x.dtype)


# Differences.


def _edges(
    name: str, x: Array, across: Sequence[float], axis: int, mode: Modes, cval: float
) -> Array:
    axis = operands.one_axis(name, axis, x.ndim)
    modes = _for_axes(name, ("mode", mode), range(x.ndim))
    x = correlate1d(x, np.array([-1, 0, 1]), axis, None, modes[axis], cval)
    for i, kind in enumerate(modes):
        x = x if i == axis else correlate1d(x, np.asarray(across), i, None, kind, cval)
    return x


def sobel(
    input: Image, axis: int = -1, output: None = None, mode: Modes = "reflect", cval: float = 0.0
) -> Filtered:
    """Differences along one axis, smoothed by 1, 2, 1 along the others.

    Example:
        >>> import tfn.numpy as tnp
        >>> sobel(tnp.array([[0.0, 1.0, 2.0]])).tolist()
        [[4.0, 8.0, 4.0]]
    """
    return _edges("sobel", _image("sobel", input, output), [1, 2, 1], axis, mode, cval)


def prewitt(
    input: Image, axis: int = -1, output: None = None, mode: Modes = "reflect", cval: float = 0.0
) -> Filtered:
    """Differences along one axis, summed over three elements along the others.

    Example:
        >>> import tfn.numpy as tnp
        >>> prewitt(tnp.array([[0.0, 1.0, 2.0]])).tolist()
        [[3.0, 6.0, 3.0]]
    """
    return _edges("prewitt", _image("prewitt", input, output), [1, 1, 1], axis, mode, cval)


def laplace(
    input: Image, output: None = None, mode: Modes = "reflect", cval: float = 0.0
) -> Filtered:
    """The sum of the second differences along all axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> laplace(tnp.array([0.0, 1.0, 4.0, 9.0])).tolist()
        [1.0, 2.0, 2.0, -5.0]
    """
    x = _image("laplace", input, output)
    modes = _for_axes("laplace", ("mode", mode), range(x.ndim))
    parts = [
        correlate1d(x, np.array([1, -2, 1]), i, None, kind, cval) for i, kind in enumerate(modes)
    ]
    return sum(parts[1:], start=parts[0])


def uniform_filter(
    input: Image,
    size: int | Sequence[int] = 3,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The mean of the elements in a window around each.

    Example:
        >>> import tfn.numpy as tnp
        >>> uniform_filter(tnp.array([0.0, 3.0, 6.0])).tolist()
        [1.0, 3.0, 5.0]
    """
    x = _image("uniform_filter", input, output)
    rows = (("size", size), ("mode", mode), ("origin", origin))
    sizes, modes, origins = (_for_axes("uniform_filter", row, range(x.ndim)) for row in rows)
    for i, n in enumerate(sizes):
        x = correlate1d(x, np.full(n, 1 / n), i, None, modes[i], cval, origins[i])
    return x


# Filters by rank.


def _windows(
    name: str, x: Array, size: Any, footprint: Any, mode: Modes, cval: float, origin: Any
) -> Array:
    """The elements of the window around each, along a new first axis."""
    if footprint is None:
        if size is None:
            raise ArgumentError(f"{name} needs a size or a footprint", hint="size=3 is a cube of 3")
        footprint = np.ones(_for_axes(name, ("size", size), range(x.ndim)), bool)
    mask = np.asarray(footprint, bool)
    if mask.ndim != x.ndim or not mask.any():
        raise ShapeError(
            f"{name} needs a footprint of the rank of the array, with an element",
            got=f"a shape of {mask.shape} for {shown(x)}",
            hint="size= takes all elements of a window",
        )
    wide = _padded(name, x, mask.shape, mode, cval, origin)
    starts = (at for at in product(*map(range, mask.shape)) if mask[at])
    return jnp.stack([lax.dynamic_slice(wide, at, x.shape) for at in starts])


def maximum_filter(
    input: Image,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The largest element of the window around each.

    Args:
        input: array of any rank.
        size: sizes of the window, one for all axes or one for each.
        footprint: booleans that say which elements of the window count, in place of `size`.
        output: None, for SciPy's calls of it.
        mode, cval, origin: as for `correlate`.

    Raises:
        ArgumentError: if neither size nor footprint is given.
        ShapeError: for a footprint of another rank, or of no element.

    Example:
        >>> import tfn.numpy as tnp
        >>> maximum_filter(tnp.array([1.0, 5.0, 2.0, 0.0]), 3).tolist()
        [5.0, 5.0, 5.0, 2.0]
    """
    x = _image("maximum_filter", input, output)
    return _windows("maximum_filter", x, size, footprint, mode, cval, origin).max(0)


def minimum_filter(
    input: Image,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The smallest element of the window around each; see `maximum_filter`.

    Example:
        >>> import tfn.numpy as tnp
        >>> minimum_filter(tnp.array([1.0, 5.0, 2.0, 0.0]), 3).tolist()
        [1.0, 1.0, 0.0, 0.0]
    """
    x = _image("minimum_filter", input, output)
    return _windows("minimum_filter", x, size, footprint, mode, cval, origin).min(0)


def rank_filter(
    input: Image,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The element of the window around each that has a rank, from 0 for the smallest.

    Example:
        >>> import tfn.numpy as tnp
        >>> rank_filter(tnp.array([1.0, 5.0, 2.0, 0.0]), -2, 3).tolist()
        [1.0, 2.0, 2.0, 0.0]
    """
    x = _image("rank_filter", input, output)
    windows = _windows("rank_filter", x, size, footprint, mode, cval, origin)
    if not -len(windows) <= rank < len(windows):
        raise ArgumentError(
            "rank_filter needs a rank among the elements of the window",
            got=f"rank={rank} of {len(windows)}",
            hint="0 is the smallest, -1 the largest",
        )
    return jnp.sort(windows, 0)[rank]


def median_filter(
    input: Image,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    output: None = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Filtered:
    """The median of the window around each, the upper one of an even number.

    Example:
        >>> import tfn.numpy as tnp
        >>> median_filter(tnp.array([1.0, 5.0, 2.0, 0.0]), 3).tolist()
        [1.0, 2.0, 2.0, 0.0]
    """
    x = _image("median_filter", input, output)
    windows = _windows("median_filter", x, size, footprint, mode, cval, origin)
    return jnp.sort(windows, 0)[len(windows) // 2]
