"""Image resizing (resampling) along any axes, with the functions of `jax.image`.

Each axis has a matrix of weights, of each old element in each new one.  An image is
contracted with the matrices of the axes that change, so that its derivative is a contraction too.
Elements are cells: the centre of element i is at ``i + 0.5`` of an axis that begins at 0.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import TYPE_CHECKING

import numpy as np

from tfn import numpy as jnp
from tfn._support.validate import shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT32, FLOAT64
from tfn.eager.operands import a_shape, array_of, inexact, some_axes, together
from tfn.errors import ArgumentError, ShapeError
from tfn.trace.op import Shape
from tfn.transforms.jit import jit

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped


class ResizeMethod(enum.Enum):
    """The interpolation between the elements of an image.

    Example:
        >>> resize(jnp.array([0.0, 4.0]), (4,), ResizeMethod.NEAREST).tolist()
        [0.0, 0.0, 4.0, 4.0]
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """Returns the method of a name.

        Raises:
            ArgumentError: for a name that no method has.

        Example:
            >>> ResizeMethod.from_string("bicubic")
            <ResizeMethod.CUBIC: 4>
        """
        for method, names in _NAMES.items():
            if s in names:
                return method
        names_of_all = ", ".join(name for names in _NAMES.values() for name in names)
        raise ArgumentError(
            "no method of resizing has this name",
            got=f"method={s!r}",
            hint="names are " + names_of_all,
        )


_NAMES = {
    ResizeMethod.NEAREST: ("nearest",),
    ResizeMethod.LINEAR: ("linear", "bilinear", "trilinear", "triangle"),
    ResizeMethod.LANCZOS3: ("lanczos3",),
    ResizeMethod.LANCZOS5: ("lanczos5",),
    ResizeMethod.CUBIC: ("cubic", "bicubic", "tricubic"),
    ResizeMethod.CUBIC_PYTORCH: ("cubic-pytorch", "bicubic-pytorch"),
    ResizeMethod.AREA: ("area",),
}


def resize(
    image: Shaped[ArrayLike, "*sizes"],
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: object = None,
) -> Shaped[Array, "*sizes"]:
    """Returns an image of another shape, interpolated.

    No axis is special: sizes that stay the same, such as those of a batch and of channels, are part
    of `shape` too.

    Args:
        image: array of any shape.
        shape: of the result, with as many axes as the image.
        method: "nearest"; "linear", also "bilinear", "trilinear" and "triangle"; "cubic", also
            "bicubic" and "tricubic"; "lanczos3", "lanczos5", "area"; or "cubic-pytorch", which
            differs from "cubic" without `antialias`; or a ResizeMethod.  "nearest" keeps the dtype,
            others give floats.
        antialias: whether an image that becomes smaller is smoothed first.
        precision: accepted as in JAX and ignored.

    Returns:
        An array of `shape`, of the dtype of the image if that is floating or `method` "nearest".

    Raises:
        ShapeError: for another number of axes, or if an axis of no elements shall have some.
        ArgumentError: for another method.

    Source: R. G. Keys, "Cubic convolution interpolation for digital image processing", 1981;
    C. E. Duchon, "Lanczos filtering in one and two dimensions", 1979.

    Example:
        >>> x = jnp.array([[0.0, 4.0]])
        >>> resize(x, (1, 4), "linear").tolist()
        [[0.0, 1.0, 3.0, 4.0]]
        >>> resize(x, (2, 3), "nearest").tolist()
        [[0.0, 4.0, 4.0], [0.0, 4.0, 4.0]]
    """
    x, sizes = _image("resize", image, shape)
    axes = tuple(i for i, n in enumerate(sizes) if n != x.shape[i])
    if any(sizes[i] and not x.shape[i] for i in axes):
        raise ShapeError(
            "resize cannot fill an image that is empty",
            got=f"{x.shape} to {sizes}",
            hint="zeros(shape) makes an image of nothing",
        )
    out: Array = _resized(x, sizes, axes, _method(method), bool(antialias))
    return out


def scale_and_translate(
    image: Shaped[ArrayLike, "*sizes"],
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Float[ArrayLike, " dims"],
    translation: Float[ArrayLike, " dims"],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: object = None,
) -> Float[Array, "*sizes"]:
    """Returns an image scaled by `scale` and then moved by `translation`, cut to a shape.

    The element at coordinate x of an axis of `spatial_dims` comes to ``x * scale + translation``;
    zeros fill the rest.  The image has a derivative by scale and translation too. With ``scale = (n
    - 1) / (m - 1)`` and ``translation = (1 - scale) / 2`` the centres of the first and the last of
    m elements come upon those of n.

    Args:
        image: array of any shape.
        shape: of the result, with as many axes as the image.
        spatial_dims: the axes to scale and move; negative ones count from the end.
        scale, translation: vectors, one number for each of `spatial_dims`.
        scale: factors, one for each of `spatial_dims`.
        translation: distances in elements of the result, one for each of `spatial_dims`.
        method: as in `resize`, but not "nearest".
        antialias: whether an image that becomes smaller is smoothed first.
        precision: accepted as in JAX and ignored.

    Raises:
        ShapeError: for another number of axes, scales or translations.
        AxisError: for an axis that the image does not have.
        ArgumentError: for another method.

    Example:
        >>> x, one = jnp.array([1.0, 2.0, 3.0]), jnp.ones(1)
        >>> scale_and_translate(x, (4,), (0,), one, one, "linear").tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    x, sizes = _image("scale_and_translate", image, shape)
    axes = some_axes("scale_and_translate", tuple(spatial_dims), x.ndim)
    (by, to), dtype, _ = together("scale_and_translate", scale, translation, floating=True)
    if by.shape != (len(axes),) or to.shape != (len(axes),):
        raise ShapeError(
            "scale_and_translate needs a scale and a translation for each axis",
            got=f"scale={shown(by)}, translation={shown(to)} for {len(axes)} axes",
            hint="pass vectors with a number for each axis of spatial_dims",
        )
    kind = _method(method)
    if kind is ResizeMethod.NEAREST:
        raise ArgumentError(
            "scale_and_translate cannot do 'nearest'", got=f"method={method!r}", hint="use 'linear'"
        )
    by, to = by.astype(dtype), to.astype(dtype)
    out: Array = _moved(x, by, to, sizes, axes, kind, bool(antialias))
    return out


def _image(name: str, image: ArrayLike, shape: Sequence[int]) -> tuple[Array, Shape]:
    x, sizes = array_of(name, image), a_shape(name, shape)
    if len(sizes) != x.ndim:
        raise ShapeError(
            f"{name} needs a size for each axis of the image, which stay the same "
            "for a batch and for channels",
            got=f"{x.shape} to {sizes}",
            hint=f"write {x.ndim} sizes: those of x.shape, the ones of space changed",
        )
    return x, sizes


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    raise ArgumentError(
        "a method of resizing is a name or a ResizeMethod",
        got=f"method={shown(method)}",
        hint="write 'linear'",
    )


@partial(jit, static_argnums=(1, 2, 3, 4))
def _resized(x: Array, sizes: Shape, axes: Shape, method: ResizeMethod, antialias: bool) -> Array:
    if method is ResizeMethod.NEAREST:
        if not axes:
            return x
        within = slice(min(axes), max(axes) + 1)  # one gather, which leaves the axes where they are
        places = [
            np.floor((np.arange(n, dtype=np.float32) + 0.5) * m / n).astype(np.int32)
            for m, n in zip(x.shape[within], sizes[within])
        ]
        mesh = tuple(map(jnp.asarray, np.ix_(*places)))
        return x.at[(slice(None),) * within.start + mesh].get(mode="promise_in_bounds")
    dtype = FLOAT64 if x.dtype.itemsize == 8 and x.dtype.kind == "f" else FLOAT32
    scale = [jnp.asarray(sizes[i] / x.shape[i] if sizes[i] else 1.0, dtype) for i in axes]
    return _drawn(x, scale, [jnp.zeros((), dtype)] * len(axes), sizes, axes, method, antialias)


@partial(jit, static_argnums=(3, 4, 5, 6))
def _moved(
    x: Array,
    scale: Array,
    translation: Array,
    sizes: Shape,
    axes: Shape,
    method: ResizeMethod,
    antialias: bool,
) -> Array:
    return _drawn(x, list(scale), list(translation), sizes, axes, method, antialias)


def _drawn(
    x: Array,
    scale: list[Array],
    translation: list[Array],
    sizes: Shape,
    axes: Shape,
    method: ResizeMethod,
    antialias: bool,
) -> Array:
    """The image contracted with a matrix for each axis that changes."""
    x = x.astype(inexact((x.dtype, False))[0])
    names = ascii_letters[: x.ndim]
    fresh = dict(zip(axes, ascii_letters[x.ndim :]))
    weights = [
        _weights(x.shape[axis], sizes[axis], by, to, method, antialias).astype(x.dtype)
        for axis, by, to in zip(axes, scale, translation)
    ]
    terms = [names, *(names[axis] + fresh[axis] for axis in axes)]
    out = "".join(fresh.get(i, name) for i, name in enumerate(names))
    return jnp.einsum(f"{','.join(terms)}->{out}", x, *weights)


def _weights(
    m: int, n: int, scale: Array, translation: Array, method: ResizeMethod, antialias: bool
) -> Float[Array, "m n"]:
    """The weight of each of m old elements in each of n new ones."""
    step = 1 / scale
    centre = (jnp.arange(n, dtype=scale.dtype) + 0.5) * step - translation * step - 0.5
    edge = 0 if method is not ResizeMethod.CUBIC_PYTORCH or antialias else 2
    old = jnp.arange(-edge, m + edge, dtype=scale.dtype)
    distance = abs(centre - old[:, None])
    if method is ResizeMethod.AREA:
        weights = jnp.clip((1 + step) / 2 - distance, 0, jnp.minimum(step, 1))
    else:
        kernel = _cubic(-0.75) if edge else _KERNELS[method]
        weights = kernel(distance / jnp.maximum(step, 1) if antialias else distance)
    if edge:  # what would be beyond a border is the element at the border
        weights = _folded(weights, edge)
    total = weights.sum(0)
    enough = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    weights = jnp.where(enough, weights / jnp.where(enough, total, 1), 0)
    inside = (centre >= -0.5) & (centre <= m - 0.5)
    return weights if edge else jnp.where(inside, weights, 0)


def _folded(weights: Array, edge: int) -> Array:
    """Adds the rows beyond either border to the row at the border."""
    m = weights.shape[0] - 2 * edge
    rows = jnp.clip(jnp.arange(-edge, m + edge), 0, m - 1)
    return jnp.zeros((m, weights.shape[1]), weights.dtype).at[rows].add(weights)


# The weight of an element at a distance.

Kernel = Callable[[Array], Array]


def _triangle(x: Array) -> Array:
    return jnp.maximum(0, 1 - x)


def _cubic(a: float) -> Kernel:
    """Two cubics that meet smoothly at 1 and end smoothly at 2, with slope `a` at 1."""

    def kernel(x: Array) -> Array:
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x >= 2, 0, jnp.where(x >= 1, outer, inner))

    return kernel


def _lanczos(radius: int) -> Kernel:
    """``sinc(x)`` within a wider ``sinc(x / radius)``."""

    def kernel(x: Array) -> Array:
        angle = math.pi * x
        far = x > 1e-3
        product = radius * jnp.sin(angle) * jnp.sin(angle / radius)
        weight = jnp.where(far, product / jnp.where(far, angle * angle, 1), 1)
        return jnp.where(x > radius, 0, weight)

    return kernel


_KERNELS: dict[ResizeMethod, Kernel] = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.5),
}
