"""Convolution and correlation in any number of axes, direct or by Fourier transforms."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike, Axes
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import Shape, one_of, operands, rank, unfit

if TYPE_CHECKING:
    from jaxtyping import Inexact, Num

Parts = list[tuple[int, int]]


def convolve(
    in1: Num[ArrayLike, "*sizes"],
    in2: Num[ArrayLike, "*others"],
    mode: str = "full",
    method: str = "auto",
    precision: object = None,
) -> Inexact[Array, "*found"]:
    """The convolution of two arrays: sums of products of elements whose indices have one sum.

    Args:
        in1: array, of integers or numbers.
        in2: array of as many axes.
        mode: "full" for all sums, "same" for as many in the middle as `in1` has, "valid" for those
            with all elements of the smaller array.
        method: "direct", also called "auto", or "fft", which is `fftconvolve`.
        precision: accepted, and changes nothing.

    Returns:
        A floating array, complex if one of the two is.

    Raises:
        ShapeError: unless both have as many axes, and elements; and for "valid", unless one is at
            least as large as the other along each axis.
        ArgumentError: for another mode or method.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolve(tnp.array([1, 2, 3]), tnp.array([1, 1])).tolist()
        [1.0, 3.0, 5.0, 3.0]
        >>> convolve(tnp.ones((2, 3)), tnp.ones((2, 2)), "valid").tolist()
        [[4.0, 4.0]]
    """
    one_of("convolve", "method", method, ("auto", "direct", "fft"))
    return fftconvolve(in1, in2, mode) if method == "fft" else _direct("convolve", in1, in2, mode)


def correlate(
    in1: Num[ArrayLike, "*sizes"],
    in2: Num[ArrayLike, "*others"],
    mode: str = "full",
    method: str = "auto",
    precision: object = None,
) -> Inexact[Array, "*found"]:
    """The correlation of two arrays: sums of products of `in1` and the conjugate of `in2`, shifted.

    Args:
        in1: array, of integers or numbers.
        in2: array of as many axes.
        mode: "full", "same" or "valid", as for `convolve`.
        method: "direct", also called "auto", or "fft", which is `fftconvolve`.
        precision: accepted as in JAX, and changes nothing.

    Returns:
        A floating array, complex if one of the two is.

    Raises:
        ShapeError: as `convolve`.
        ArgumentError: for another mode or method.

    Example:
        >>> import tfn.numpy as tnp
        >>> correlate(tnp.array([1, 2, 3]), tnp.array([0, 1, 1])).tolist()
        [1.0, 3.0, 5.0, 3.0, 0.0]
    """
    return convolve(in1, jnp.flip(jnp.conj(operands.array_of("correlate", in2))), mode, method)


def convolve2d(
    in1: Num[ArrayLike, "m n"],
    in2: Num[ArrayLike, "k l"],
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: object = None,
) -> Inexact[Array, "p q"]:
    """The convolution of two matrices; see `convolve`.

    Args:
        in1: matrix.
        in2: matrix.
        mode: "full", "same" or "valid", as for `convolve`.
        boundary: values beyond the borders: "fill" with `fillvalue`, the only one that is
            supported.
        fillvalue: 0, the only one that is supported.
        precision: accepted as in JAX, and changes nothing.

    Returns:
        A floating matrix, complex if one of the two is.

    Raises:
        ArgumentError: for another boundary.
        ShapeError: unless both are matrices.

    Example:
        >>> import tfn.numpy as tnp
        >>> convolve2d(tnp.array([[1, 2], [3, 4]]), tnp.array([[1, 1]]), "same").tolist()
        [[1.0, 3.0], [3.0, 7.0]]
    """
    return _direct("convolve2d", *_matrices("convolve2d", in1, in2, boundary, fillvalue), mode)


def correlate2d(
    in1: Num[ArrayLike, "m n"],
    in2: Num[ArrayLike, "k l"],
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: object = None,
) -> Inexact[Array, "p q"]:
    """The correlation of two matrices: sums of products of `in1` and the conjugate of `in2`.

    As in SciPy, and unlike `correlate`, the odd sum that "same" leaves out is one at the end, and
    "valid" conjugates `in1` if `in2` is the larger.

    Args:
        in1: matrix.
        in2: matrix.
        mode: "full", "same" or "valid", as for `convolve`.
        boundary: values beyond the borders: "fill" with `fillvalue`, the only one that is
            supported.
        fillvalue: 0, the only one that is supported.
        precision: accepted as in JAX, and changes nothing.

    Returns:
        A floating matrix, complex if one of the two is.

    Raises:
        ArgumentError: for a boundary other than "fill" with 0.
        ShapeError: unless both are matrices.

    Example:
        >>> import tfn.numpy as tnp
        >>> correlate2d(tnp.array([[1, 2], [3, 4]]), tnp.array([[1, 1]]), "same").tolist()
        [[3.0, 2.0], [7.0, 4.0]]
    """
    x, y = _matrices("correlate2d", in1, in2, boundary, fillvalue)
    sums = jnp.flip(_direct("correlate2d", jnp.flip(x), jnp.conj(y), mode))
    exchanged = mode == "valid" and x.shape != y.shape and y.size > x.size
    return jnp.conj(sums) if exchanged else sums


def fftconvolve(
    in1: Num[ArrayLike, "*sizes"],
    in2: Num[ArrayLike, "*others"],
    mode: str = "full",
    axes: Axes = None,
) -> Inexact[Array, "*found"]:
    """The convolution of two arrays by a product of their transforms, fast where both are large.

    Each sum has an error in proportion to the largest ones.

    Args:
        in1: array, of integers or numbers.
        in2: array of as many axes.
        mode: "full", "same" or "valid", as for `convolve`.
        axes: axes of the convolution, all of them for None; along others sizes are equal, or one of
            them is 1.

    Returns:
        A floating array, complex if one of the two is.

    Raises:
        ShapeError: as `convolve`.
        ArgumentError: for another mode.
        AxisError: for an axis that the arrays do not have.

    Example:
        >>> import tfn.numpy as tnp
        >>> fftconvolve(tnp.array([1, 2, 3]), tnp.array([1, 1])).round(3).tolist()
        [1.0, 3.0, 5.0, 3.0]
    """
    x, y = _operands("fftconvolve", in1, in2)
    along = operands.some_axes("fftconvolve", axes, x.ndim)
    sizes, others = ([z.shape[i] for i in along] for z in (x, y))
    parts = _parts("fftconvolve", mode, tuple(sizes), tuple(others))
    rest = ([1 if i in along else n for i, n in enumerate(z.shape)] for z in (x, y))
    operands.broadcast_shape("fftconvolve", *map(tuple, rest))
    if not along:
        return x * y
    lengths = [_fast(n + k - 1) for n, k in zip(sizes, others)]
    dtype, real = x.dtype, x.dtype.kind != "c"
    forward, inverse = (jnp.fft.rfftn, jnp.fft.irfftn) if real else (jnp.fft.fftn, jnp.fft.ifftn)
    full = inverse(forward(x, lengths, along) * forward(y, lengths, along), lengths, along)
    for axis, (first, size) in zip(along, parts):
        full = lax.slice_in_dim(full, first, first + size, 1, axis)
    return full.astype(dtype)


def _operands(name: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, Array]:
    """Two arrays in one inexact dtype, checked to have as many axes."""
    (x, y), dtype, _ = operands.together(name, in1, in2, floating=True)
    if x.ndim != y.ndim or not x.size or not y.size:
        raise unfit(
            f"{name} needs arrays of as many axes, and with elements",
            (x, y),
            "x[None] adds an axis",
        )
    return x.astype(dtype), y.astype(dtype)


def _matrices(
    name: str, in1: ArrayLike, in2: ArrayLike, boundary: str, fillvalue: float
) -> tuple[Array, Array]:
    if boundary != "fill" or fillvalue != 0:
        raise ArgumentError(
            f"{name} fills with 0 beyond the borders",
            got=f"boundary {boundary!r}, fillvalue {fillvalue}",
            hint="tfn.numpy.pad first, then use mode 'valid'",
        )
    x, y = operands.array_of(name, in1), operands.array_of(name, in2)
    rank(name, x, 2, 2)
    rank(name, y, 2, 2)
    return x, y


def _parts(name: str, mode: str, sizes: Shape, others: Shape) -> Parts:
    """The index of the first sum of a mode among all sums along each axis, and their number."""
    one_of(name, "mode", mode, ("full", "same", "valid"))
    pairs = list(zip(sizes, others))
    if mode == "full":
        return [(0, n + k - 1) for n, k in pairs]
    if mode == "same":
        return [((k - 1) // 2, n) for n, k in pairs]
    if any(n < k for n, k in pairs) and any(n > k for n, k in pairs):
        raise ShapeError(
            f"{name} has valid sums only if one array is as large as the other along each axis",
            got=f"shapes {sizes} and {others}",
            hint="use mode 'full' or 'same'",
        )
    return [(min(n, k) - 1, abs(n - k) + 1) for n, k in pairs]


def _direct(name: str, in1: ArrayLike, in2: ArrayLike, mode: str) -> Array:
    x, y = _operands(name, in1, in2)
    parts = _parts(name, mode, x.shape, y.shape)
    image, window = (x, y) if x.size >= y.size else (y, x)
    padding = [  # by which the flipped window begins at the first sum of the mode
        (k - 1 - first, first + size - n)
        for n, k, (first, size) in zip(image.shape, window.shape, parts)
    ]
    sums = lax.conv_general_dilated(
        image[None, None], jnp.flip(window)[None, None], (1,) * x.ndim, padding
    )
    return sums[0, 0]


def _fast(length: int) -> int:
    """The next length without prime factors above 5, whose Fourier transform is fast."""
    return next(n for n in count(length) if 60 ** n.bit_length() % n == 0)
