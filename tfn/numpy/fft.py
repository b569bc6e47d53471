"""Discrete Fourier transforms, over one axis or several.

Every function is the one of `numpy.fft`: axes are cut or padded with zeros to the lengths asked
for, and `norm` names the place of the division by the number of elements n: ``"backward"`` in the
inverse, ``"forward"`` in the transform, ``"ortho"`` by its square root in both.  Results have the
precision of the operand, 32 bits at least.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfn._support.validate import (
    integer,
    integers,
    one_of,
    rank,
    real_number,
    result_type,
    shown,
    size_limit,
)
from tfn.array import Array, ArrayLike
from tfn.dtypes import DEFAULTS, FLOAT64, FLOATS, DType, DTypeLike, canonical, complex_of, part
from tfn.eager.operands import apply, array_of, inexact, listed, one_axis, some_axes
from tfn.errors import ArgumentError, AxisError, DTypeError
from tfn.numpy.complex import conj, iscomplexobj
from tfn.numpy.concatenation import roll
from tfn.numpy.creation import make, on_device
from tfn.trace.argument import Fft, FftType
from tfn.trace.build import cast, iota, pad_or_crop, permute, where
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp
from tfn.trace.windows import half

Lengths = Sequence[int] | None
Axes = Sequence[int] | None

_NORMS = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}
"""The power of the number of elements that divides the transform, and multiplies the inverse."""
_OTHER = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform along an axis.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        n: length to which the axis is cut or padded with zeros; None takes its size.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with n elements along the axis.

    Raises:
        ArgumentError: for a length below 1, or another norm.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> fft(tnp.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return _along_one("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse Fourier transform along an axis; see `fft`.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        n: length to which the axis is cut or padded with zeros; None takes its size.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with n elements along the axis.

    Raises:
        ArgumentError: for a length below 1, or a norm that there is not.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> ifft(tnp.array([4.0, 0.0])).real.tolist()
        [2.0, 2.0]
    """
    return _along_one("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first ``n // 2 + 1`` values of the transform of n real ones: the others mirror them.

    Args:
        a: real array to transform.
        n: length to which the axis is cut or padded with zeros; None takes its size.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with ``n // 2 + 1`` elements along the axis.

    Raises:
        DTypeError: for complex values.
        ArgumentError: for a length below 1, or a norm that there is not.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> rfft(tnp.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [(10+0j), (-2+2j), (-2+0j)]
    """
    return _along_one("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real values whose transform `rfft` gives: its inverse along an axis.

    Args:
        a: the first ``n // 2 + 1`` values of a transform; missing ones are zero.
        n: length of the result along the axis; None takes ``2 * (size - 1)``, which is even.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A real array with n elements along the axis.

    Raises:
        ArgumentError: for a length below 1, or a norm that there is not.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> irfft(tnp.array([3.0, 0.0]), 3).tolist()
        [1.0, 1.0, 1.0]
    """
    return _along_one("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real transform of values whose second half mirrors the first, conjugated.

    Args:
        a: the first ``n // 2 + 1`` values; the others mirror them.
        n: length of the result along the axis; None takes ``2 * (size - 1)``, which is even.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A real array with n elements along the axis.

    Raises:
        ArgumentError: for a length below 1, or a norm that there is not.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> hfft(tnp.array([1.0, 2.0, 1.0])).tolist()
        [6.0, 0.0, -2.0, 0.0]
    """
    return _along_one("hfft", FftType.IRFFT, conj(a), n, axis, _other("hfft", norm))


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The first half of the values whose transform is real: the inverse of `hfft`.

    Args:
        a: real array to transform.
        n: length to which the axis is cut or padded with zeros; None takes its size.
        axis: axis to transform, counted from the end if negative; the last by default.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with ``n // 2 + 1`` elements along the axis.

    Raises:
        DTypeError: for complex values.
        ArgumentError: for a length below 1, or a norm that there is not.
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> ihfft(tnp.array([4.0, 0.0])).real.tolist()
        [2.0, 2.0]
    """
    return conj(_along_one("ihfft", FftType.RFFT, a, n, axis, _other("ihfft", norm)))


def fftn(a: ArrayLike, s: Lengths = None, axes: Axes = None, norm: str | None = None) -> Array:
    """The Fourier transform over several axes, all of them by default.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes.

    Raises:
        ArgumentError: unless there are as many lengths as axes, from 1 on, and such a norm.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> fftn(tnp.ones((2, 2))).real.tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(a: ArrayLike, s: Lengths = None, axes: Axes = None, norm: str | None = None) -> Array:
    """The inverse Fourier transform over several axes; see `fftn`.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes.

    Raises:
        ArgumentError: as for `fftn`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> ifftn(tnp.ones((2, 2))).real.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(a: ArrayLike, s: Lengths = None, axes: Axes = None, norm: str | None = None) -> Array:
    """The Fourier transform of real values over several axes, the last one halved as by `rfft`.

    Args:
        a: real array to transform.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes, but ``n // 2 + 1`` along the last of
        them.

    Raises:
        DTypeError: for complex values.
        ArgumentError: as for `fftn`.
        AxisError: if there is no such axis, one is named twice, or none is transformed.

    Example:
        >>> import tfn.numpy as tnp
        >>> rfftn(tnp.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(a: ArrayLike, s: Lengths = None, axes: Axes = None, norm: str | None = None) -> Array:
    """The real values whose transform `rfftn` gives: its inverse over several axes.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis in the result; None takes the sizes, but ``2 * (size - 1)`` of the
            last one.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A real array with the lengths `s` along the axes.

    Raises:
        ArgumentError: as for `fftn`.
        AxisError: if there is no such axis, one is named twice, or none is transformed.

    Example:
        >>> import tfn.numpy as tnp
        >>> irfftn(tnp.ones((2, 2))).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


def fft2(a: ArrayLike, s: Lengths = None, axes: Axes = (-2, -1), norm: str | None = None) -> Array:
    """The Fourier transform over two axes, the last by default; see `fftn`.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes.

    Raises:
        ArgumentError: as for `fftn`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> fft2(tnp.ones((2, 2))).real.tolist()
        [[4.0, 0.0], [0.0, 0.0]]
    """
    return _transform("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a: ArrayLike, s: Lengths = None, axes: Axes = (-2, -1), norm: str | None = None) -> Array:
    """The inverse Fourier transform over two axes, the last by default; see `ifftn`.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes.

    Raises:
        ArgumentError: as for `fftn`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> ifft2(tnp.ones((2, 2))).real.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return _transform("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a: ArrayLike, s: Lengths = None, axes: Axes = (-2, -1), norm: str | None = None) -> Array:
    """The Fourier transform of real values over two axes, the last by default; see `rfftn`.

    Args:
        a: real array to transform.
        s: length of each axis, cut or padded with zeros; -1 stands for its size, None for all
            sizes.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A complex array with the lengths `s` along the axes, but ``n // 2 + 1`` along the last of
        them.

    Raises:
        DTypeError: for complex values.
        ArgumentError: as for `fftn`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> rfft2(tnp.ones((2, 3))).shape
        (2, 2)
    """
    return _transform("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(
    a: ArrayLike, s: Lengths = None, axes: Axes = (-2, -1), norm: str | None = None
) -> Array:
    """The inverse of `rfft2` over two axes, the last by default; see `irfftn`.

    Args:
        a: array to transform; 16-bit floats and integers are computed in 32 bits.
        s: length of each axis in the result; None takes the sizes, but ``2 * (size - 1)`` of the
            last one.
        axes: axes to transform, negative ones counted from the end; None takes all, or the last
            ones if `s` is given.
        norm: division by the number of elements n: "backward" or None in the inverse, "forward" in
            the transform, "ortho" by its square root in both.

    Returns:
        A real array with the lengths `s` along the axes.

    Raises:
        ArgumentError: as for `fftn`.
        AxisError: if the array has no such axis, or one is named twice.

    Example:
        >>> import tfn.numpy as tnp
        >>> irfft2(tnp.ones((2, 2))).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    return _transform("irfft2", FftType.IRFFT, a, s, axes, norm)


def _other(name: str, norm: str | None) -> str:
    _check_norm(name, norm)
    return _OTHER[norm]


def _check_norm(name: str, norm: str | None) -> None:
    one_of(name, "norm", norm, tuple(_NORMS))


def _along_one(
    name: str, kind: FftType, a: ArrayLike, n: int | None, axis: int, norm: str | None
) -> Array:
    s = None if n is None else (integer(name, "n", n, 1),)
    return _transform(name, kind, a, s, (axis,), norm)


def _transform(
    name: str, kind: FftType, a: ArrayLike, s: Lengths, axes: Axes, norm: str | None
) -> Array:
    _check_norm(name, norm)
    if kind is FftType.RFFT and iscomplexobj(a):
        raise DTypeError(
            f"{name} transforms real values", got=shown(a), hint=f"use {name.replace('r', '')}"
        )
    x = array_of(name, a)
    if axes is None and s is not None:
        axes = tuple(range(x.ndim - len(s), x.ndim))
    along = some_axes(name, axes, x.ndim)
    if not along and kind in (FftType.RFFT, FftType.IRFFT):
        raise AxisError(
            f"{name} needs an axis to transform", got=f"{shown(x)}, axes={axes}", hint="x[None]"
        )
    lengths = [x.shape[axis] for axis in along]
    if kind is FftType.IRFFT:
        lengths[-1] = 2 * (lengths[-1] - 1)
    if s is not None:
        if len(s) != len(along):
            raise ArgumentError(
                f"{name} needs a length for each axis",
                got=f"s={shown(s)}, axes={axes}",
                hint="leave s out to transform whole axes, or write -1 for one",
            )
        requested = integers(name, "s", s)
        lengths = [n if length == -1 else length for n, length in zip(lengths, requested)]
    if min(lengths, default=1) < 1:
        raise ArgumentError(
            f"{name} needs lengths of 1 and more",
            got=f"lengths {tuple(lengths)} of {shown(x)}",
            hint="pass n, or s, to pad with zeros",
        )
    size_limit(name, lengths)
    dtype, _ = inexact((x.dtype, False))
    dtype = part(complex_of(dtype)) if kind is FftType.RFFT else complex_of(dtype)
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    scale = math.prod(lengths) ** (_NORMS[norm] if inverse else -_NORMS[norm])
    return apply(_transformed, (x,), Fft(kind, tuple(lengths)), along, dtype, scale)


def _transformed(x: UOp, arg: Fft, axes: Shape, dtype: DType, scale: float) -> UOp:
    sizes = dict(zip(axes, arg.lengths))
    if arg.kind is FftType.IRFFT:
        sizes[axes[-1]] = half(arg.lengths[-1])
    padding = tuple(sizes.get(i, n) - n for i, n in enumerate(x.shape))
    x = pad_or_crop(cast(x, dtype), (0,) * x.ndim, padding)
    order = [*(i for i in range(x.ndim) if i not in axes), *axes]
    y = UOp(Op.FFT, (permute(x, order),), arg) if axes else x
    y = permute(y, sorted(range(y.ndim), key=order.__getitem__))
    return y if scale == 1 else y * scale


# Frequencies, and their order.


def fftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Array:
    """The frequencies of the values of `fft`: 0, 1, ..., then the negative ones, by ``1 / (n d)``.

    Args:
        n: number of samples, 1 at least.
        d: distance of two samples, in any unit; 1 by default, and not 0.
        dtype: floating dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        A vector of n frequencies, in cycles for each unit of `d`.

    Raises:
        ArgumentError: for fewer than one sample, or a distance of 0.
        DTypeError: for another dtype.
        DeviceError: if there is no such device.

    Example:
        >>> fftfreq(4).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    if device is not None:
        return on_device(fftfreq(n, d, dtype=dtype), device)
    return _spectrum("fftfreq", n, d, dtype, lambda count: (count, (count + 1) // 2))


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: object = None
) -> Array:
    """The frequencies of the values of `rfft`: 0, 1, ..., by ``1 / (n d)``.

    Args:
        n: number of samples, 1 at least.
        d: distance of two samples, in any unit; 1 by default, and not 0.
        dtype: floating dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        A vector of ``n // 2 + 1`` frequencies, in cycles for each unit of `d`.

    Raises:
        ArgumentError: for fewer than one sample, or a distance of 0.
        DTypeError: for another dtype.
        DeviceError: if there is no such device.

    Example:
        >>> rfftfreq(4).tolist()
        [0.0, 0.25, 0.5]
    """
    if device is not None:
        return on_device(rfftfreq(n, d, dtype=dtype), device)
    return _spectrum("rfftfreq", n, d, dtype, lambda count: (half(count), half(count)))


def _frequencies(size: int, positive: int, span: float, dtype: DType) -> UOp:
    place = iota((size,), 0)
    signed = where(place < positive, place, place - size)
    return cast(cast(signed, FLOAT64) / span, dtype)


def _spectrum(
    name: str, n: int, d: float, dtype: DTypeLike | None, sizes: Callable[[int], tuple[int, int]]
) -> Array:
    count = integer(name, "n", n, 1)
    size, positive = sizes(count)
    size_limit(name, (size,))
    kind = DEFAULTS[float] if dtype is None else canonical(dtype)
    result_type(name, kind, FLOATS, "a floating dtype")
    if isinstance(d, Array):  # such as x[1] - x[0], whose value may not be known
        rank(name, d, 0, 0, "as d")
        return (make(_frequencies, size, positive, float(count), kind) / d).astype(kind)
    if not real_number(name, "d", d):
        raise ArgumentError(
            f"{name} needs a distance of samples that is not 0", got=f"d={d}", hint="d=1.0 counts"
        )
    return make(_frequencies, size, positive, count * d, kind)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The array with the zero frequency moved to the middle of its axes.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> fftshift(fftfreq(4)).tolist()
        [-0.5, -0.25, 0.0, 0.25]
    """
    x = array_of("fftshift", x)
    along = _each_axis("fftshift", axes, x.ndim)
    return roll(x, tuple(x.shape[i] // 2 for i in along), along)


def _each_axis(name: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes counted from the start; one that is named twice is shifted twice."""
    named = range(ndim) if axes is None else listed(axes)
    return tuple(one_axis(name, axis, ndim) for axis in named)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`, which differs where a size is odd.

    Raises:
        AxisError: if the array has no such axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> ifftshift(tnp.array([-2, -1, 0, 1]))
        Array([ 0,  1, -2, -1], dtype=int32)
    """
    x = array_of("ifftshift", x)
    along = _each_axis("ifftshift", axes, x.ndim)
    return roll(x, tuple(-(x.shape[i] // 2) for i in along), along)
