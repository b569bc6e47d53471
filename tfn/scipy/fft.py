"""Discrete cosine transforms: `dct`, `idct`, and over several axes `dctn`, `idctn`.

The transform of type II of n numbers is a Fourier transform of the same n numbers in another order,
even ones first, then odd ones backwards, whose results are turned by a quarter wave.

Source: J. Makhoul, "A fast cosine transform in one and two dimensions" (1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError
from tfn.extend import operands, shown
from tfn.numpy import fft


def dct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
) -> Array:
    """The discrete cosine transform of type II along an axis.

    Args:
        x: real numbers.
        type: 2.
        n: the length that the axis is cut or padded to.
        axis: the axis.
        norm: None, or ``"ortho"`` for an orthogonal transform.

    Returns:
        An array of the shape of `x`.

    Raises:
        ArgumentError: for other types and norms, and for complex numbers.

    Example:
        >>> dct(tnp.ones(4), norm="ortho").round(5).tolist()
        [2.0, 0.0, 0.0, 0.0]
    """
    a = _checked("dct", x, type, norm)
    a = _of_length(tnp.moveaxis(a, axis, -1), n)
    size = a.shape[-1]
    order = tnp.concatenate([a[..., ::2], tnp.flip(a[..., 1::2], -1)], -1)
    turned = 2 * tnp.real(fft.fft(order) * _turn(size, a.dtype, -1))
    if norm == "ortho":
        turned = turned * _scales(size, a.dtype)
    return tnp.moveaxis(turned, -1, axis)


def idct(
    x: ArrayLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
) -> Array:
    """The inverse of `dct`.

    Args:
        x, type, n, axis, norm: as for `dct`.

    Example:
        >>> idct(dct(tnp.arange(3.0))).round(5).tolist()
        [0.0, 1.0, 2.0]
    """
    a = _checked("idct", x, type, norm)
    a = _of_length(tnp.moveaxis(a, axis, -1), n)
    size = a.shape[-1]
    if norm == "ortho":
        a = a / _scales(size, a.dtype)
    behind = tnp.concatenate([tnp.zeros_like(a[..., :1]), tnp.flip(a[..., 1:], -1)], -1)
    spectrum = (a - 1j * behind) * _turn(size, a.dtype, 1) / 2
    order = tnp.real(fft.ifft(spectrum))
    half = (size + 1) // 2
    even, odd = order[..., :half], tnp.flip(order[..., half:], -1)
    out = tnp.zeros_like(a).at[..., ::2].set(even).at[..., 1::2].set(odd)
    return tnp.moveaxis(out, -1, axis)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The discrete cosine transform along several axes.

    Args:
        x: real numbers.
        type: 2.
        s: the lengths that the axes are cut or padded to.
        axes: the axes; all of them by default, or as many of the last as there are lengths.
        norm: None, or ``"ortho"`` for an orthogonal transform.

    Example:
        >>> dctn(tnp.ones((2, 2)), norm="ortho").round(5).tolist()
        [[2.0, 0.0], [0.0, 0.0]]
    """
    return _over_axes(dct, x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `dctn`.

    Args:
        x, type, s, axes, norm: as for `dctn`.

    Example:
        >>> idctn(dctn(tnp.eye(2))).round(5).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    return _over_axes(idct, x, type, s, axes, norm)


def _over_axes(one: Any, x: ArrayLike, type: int, s: Any, axes: Any, norm: str | None) -> Array:
    a = operands.array_of("dctn", x)
    if axes is None:
        axes = range(a.ndim) if s is None else range(a.ndim - len(s), a.ndim)
    sizes = [None] * len(axes) if s is None else s
    if len(sizes) != len(axes):
        raise ArgumentError(
            "s has a length for each of the axes",
            got=f"s={shown(s)}, axes={shown(axes)}",
            hint="pass as many",
        )
    for axis, n in zip(axes, sizes, strict=True):
        a = one(a, type=type, n=n, axis=axis, norm=norm)
    return a


def _checked(name: str, x: ArrayLike, type: int, norm: str | None) -> Array:
    if type != 2:
        raise ArgumentError(
            f"{name} knows the transform of type 2",
            got=f"type={shown(type)}",
            hint="the others can be made of fft",
        )
    if norm not in (None, "ortho"):
        raise ArgumentError(
            f"{name} knows the norms None and 'ortho'",
            got=f"norm={shown(norm)}",
            hint="scale the result",
        )
    a = operands.array_of(name, x)
    if a.dtype.kind == "c":
        raise ArgumentError(
            f"{name} takes real numbers", got=a.dtype.name, hint="transform both parts"
        )
    return a if a.dtype.kind in "fV" else a.astype(float)


def _of_length(a: Array, n: int | None) -> Array:
    n = a.shape[-1] if n is None else n
    if n < 1:
        raise ArgumentError(
            "a cosine transform needs at least one number", got=f"n={n}", hint="pass a longer axis"
        )
    if n == a.shape[-1]:
        return a
    if n < a.shape[-1]:
        return a[..., :n]
    return tnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, n - a.shape[-1])])


def _turn(size: int, dtype: Any, sign: int) -> Array:
    """A quarter wave on the unit circle, in `size` steps."""
    angle = tnp.arange(size, dtype=dtype) * (sign * tnp.pi / (2 * size))
    return tnp.cos(angle) + 1j * tnp.sin(angle)


def _scales(size: int, dtype: Any) -> Array:
    """Factors that make the transform orthogonal."""
    flat = tnp.full((size,), (1 / (2 * size)) ** 0.5, dtype)
    return flat.at[:1].multiply(0.5**0.5)
