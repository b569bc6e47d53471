"""Initializers of parameters: ``initializer(key, shape, dtype)``, by the names of JAX.

Source: LeCun et al. 1998 (lecun), Glorot, Bengio 2010 (glorot), He et al. 2015, arXiv:1502.01852
(he): the variance is a scale over the number of inputs, of outputs, or their mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from tfn import numpy as jnp
from tfn import random
from tfn._support.validate import one_of
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.operands import a_shape, listed, one_axis
from tfn.errors import ArgumentError, ShapeError
from tfn.random import KeyLike

Axes = int | Sequence[int]


class Initializer(Protocol):
    """A function that makes the first value of a parameter from a key."""

    def __call__(self, key: KeyLike, shape: Sequence[int], dtype: DTypeLike = float) -> Array:
        """Returns the array.

        Args:
            key: a key; used up if the values are random.
            shape: sizes of the array.
            dtype: dtype of the array; float32 by default.
        """


def zeros(key: KeyLike, shape: Sequence[int], dtype: Any = float) -> Array:
    """Returns an array of zeros: an initializer itself.

    Args:
        key: not used.
        shape: sizes of the array.
        dtype: dtype of the array; float32 by default.

    Example:
        >>> zeros(random.key(0), (2,)).tolist()
        [0.0, 0.0]
    """
    return jnp.zeros(shape, dtype)


def ones(key: KeyLike, shape: Sequence[int], dtype: DTypeLike = float) -> Array:
    """Returns an array of ones: an initializer itself.

    Args:
        key: not used.
        shape: sizes of the array.
        dtype: dtype of the array; float32 by default.

    Example:
        >>> ones(random.key(0), (2,)).tolist()
        [1.0, 1.0]
    """
    return jnp.ones(shape, dtype)


def constant(value: ArrayLike, dtype: DTypeLike = float) -> Initializer:
    """Returns an initializer that fills with one value.

    Example:
        >>> constant(3.0)(random.key(0), (2,)).tolist()
        [3.0, 3.0]
    """

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return jnp.full(shape, value, dtype)

    return init


def uniform(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    """Returns an initializer with uniform numbers in [0, scale).

    Example:
        >>> uniform(0.1)(random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.uniform(key, shape, dtype) * scale

    return init


def normal(stddev: float = 1e-2, dtype: DTypeLike = float) -> Initializer:
    """Returns an initializer with normal numbers of mean 0.

    Example:
        >>> normal(0.1)(random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.normal(key, shape, dtype) * stddev

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: DTypeLike = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Returns an initializer with normal numbers of mean 0, cut off on both sides.

    Args:
        stddev: standard deviation before they are cut off.
        dtype: dtype of the result when `init` is called without one; float32 by default.
        lower: lower bound, in units of `stddev`.
        upper: upper bound, in units of `stddev`.

    Example:
        >>> truncated_normal(0.1)(random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.truncated_normal(key, lower, upper, shape, dtype) * stddev

    return init


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike = float) -> Initializer:
    """Returns an initializer of matrices with orthonormal columns, or rows if those are fewer.

    Args:
        scale: factor of the matrix.
        column_axis: the axis of columns, which may be negative; all others together are that of
            rows.
        dtype: dtype of the result when `init` is called without one; float32 by default.

    Raises:
        ShapeError: by the initializer, for a shape of fewer than two axes.

    Source: Saxe, McClelland, Ganguli 2013, arXiv:1312.6120.

    Example:
        >>> w = orthogonal()(random.key(0), (4, 2))
        >>> bool((abs(w.T @ w - jnp.eye(2)) < 1e-5).all())
        True
    """

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        if len(shape) < 2:
            raise ShapeError(
                "orthogonal needs at least two axes",
                got=f"shape={tuple(shape)}",
                hint="initializers.zeros takes vectors",
            )
        at = one_axis("orthogonal", column_axis, len(shape))
        columns = shape[at]
        if prod(shape) == 0:
            return jnp.zeros(shape, dtype)
        q = random.orthogonal(key, prod(shape) // columns, (), dtype, columns)
        rows = [n for i, n in enumerate(shape) if i != at]
        matrix = jnp.moveaxis(q.reshape((*rows, columns)), -1, at)
        return matrix * scale

    return init


def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer of convolution windows that are `orthogonal` in the middle and zero
    elsewhere.

    Args:
        scale: factor of the window.
        column_axis: the axis of columns of the matrix in the middle, as of `orthogonal`.
        dtype: dtype of the result when `init` is called without one; float32 by default.

    Raises:
        ArgumentError: by the initializer, unless the shape is (*window, inputs, outputs) with one
            to three axes of window, and no more inputs than outputs.

    Source: Xiao et al. 2018, arXiv:1806.05393.

    Example:
        >>> delta_orthogonal()(random.key(0), (3, 3, 2, 4)).shape
        (3, 3, 2, 4)
    """
    matrix = orthogonal(scale, column_axis, dtype)

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ArgumentError(
                "delta_orthogonal needs a shape (*window, inputs, outputs) with inputs <= outputs",
                got=f"shape={tuple(shape)}",
                hint="orthogonal takes other shapes",
            )
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype).at[middle].set(matrix(key, shape[-2:], dtype))

    return init


# The standard deviation of a standard normal number, given that it lies in (-2, 2).
_CUT = 0.87962566103423978
_CUT_COMPLEX = 0.95311164380491208  # by which JAX divides complex ones

_FANS: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike = float,
) -> Initializer:
    """Returns an initializer of mean 0 and variance ``scale / fan``, which keeps the size of
    signals.

    Args:
        scale: factor of the variance.
        mode: which fan: 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg', their geometric mean.
        distribution: 'truncated_normal' (cut off at two standard deviations), 'normal' or
            'uniform'.
        in_axis, out_axis: axes of inputs and outputs; those of neither are a receptive field.
        in_axis: axis of the inputs, or several; axes of neither inputs nor outputs are a receptive
            field.
        out_axis: axis of the outputs, or several.
        batch_axis: axes along which there are independent layers; () for none.
        dtype: dtype of the result when `init` is called without one; float32 by default.

    Raises:
        ArgumentError: for another mode or distribution, or a negative scale.
        ShapeError: by the initializer, for a shape of fewer than two axes.
        AxisError: by the initializer, for an axis that the shape has not.

    Example:
        >>> init = variance_scaling(2.0, "fan_in", "truncated_normal")
        >>> init(random.key(0), (784, 128)).shape
        (784, 128)
    """
    one_of("variance_scaling", "mode", mode, tuple(_FANS))
    distributions = ("truncated_normal", "normal", "uniform")
    one_of("variance_scaling", "distribution", distribution, distributions)
    if scale < 0:
        raise ArgumentError(
            "a variance is not negative",
            got=f"scale={scale}",
            hint="scale is a factor of the variance",
        )

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        fan = _FANS[mode](*fans(shape, in_axis, out_axis, batch_axis))
        variance = scale / (fan or 1)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        if jnp.issubdtype(jnp.dtype(dtype), jnp.complexfloating):
            return _in_disc(key, shape, dtype, distribution) * math.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, minval=-1.0) * math.sqrt(3 * variance)
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (math.sqrt(variance) / _CUT)

    return init


def _in_disc(key: KeyLike, shape: Sequence[int], dtype: Any, distribution: str) -> Array:
    """Complex numbers of mean square 1, whose angles are uniform.

    "uniform" is within a disc; "truncated_normal" has real and imaginary parts of one variance,
    and no number is more than two standard deviations away from 0.
    """
    of_radius, of_angle = random.split(key)
    real = jnp.finfo(dtype).dtype
    u = random.uniform(of_radius, shape, real)
    angle = (2 * math.pi * random.uniform(of_angle, shape, real)).astype(dtype)
    if distribution == "uniform":
        radius, size = jnp.sqrt(2 * u), 1.0
    else:
        radius, size = jnp.sqrt(-jnp.log1p(-(1 - math.exp(-4)) * u)), _CUT_COMPLEX
    return radius / size * jnp.exp(1j * angle)


def fans(
    shape: Sequence[int], in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()
) -> tuple[float, float]:
    """Returns how many inputs reach an output of a layer, and how many outputs an input.

    Args:
        shape: of the weights, at least two axes unless `in_axis` is given.
        in_axis: axis of the inputs, or several.
        out_axis: axis of the outputs, or several.
        batch_axis: axes along which there are independent layers; () for none.

    Returns:
        (fan_in, fan_out), as floats.

    Raises:
        ShapeError: for a shape of fewer than two axes.
        AxisError: for an axis that the shape has not.

    Example:
        >>> fans((3, 3, 16, 32))
        (144.0, 288.0)
    """
    if len(shape) < 2 and in_axis == -2:
        raise ShapeError(
            "a layer's weights have at least two axes",
            got=f"shape={tuple(shape)}",
            hint="initializers.zeros and normal take vectors",
        )
    shape = a_shape("a layer", tuple(shape))
    inputs, outputs, layers = (_size(shape, axis) for axis in (in_axis, out_axis, batch_axis))
    field = prod(shape) / max(inputs * outputs * layers, 1)
    return inputs * field, outputs * field


def _size(shape: Sequence[int], axis: Axes) -> int:
    return prod(shape[one_axis("a layer", a, len(shape))] for a in listed(axis))


def lecun_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with truncated normal numbers of variance 1 / fan_in.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: LeCun, Bottou, Orr, Müller 1998, "Efficient backprop".

    Example:
        >>> lecun_normal()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with uniform numbers of variance 1 / fan_in.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: LeCun, Bottou, Orr, Müller 1998, "Efficient backprop".

    Example:
        >>> lecun_uniform()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with truncated normal numbers of variance 1 / fan_avg.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks".

    Example:
        >>> glorot_normal()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


def glorot_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with uniform numbers of variance 1 / fan_avg.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks".

    Example:
        >>> glorot_uniform()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with truncated normal numbers of variance 2 / fan_in.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: He, Zhang, Ren, Sun 2015, arXiv:1502.01852.

    Example:
        >>> he_normal()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(
    in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = float
) -> Initializer:
    """Returns an initializer with uniform numbers of variance 2 / fan_in.

    Args:
        in_axis, out_axis, batch_axis, dtype: as of `variance_scaling`.

    Source: He, Zhang, Ren, Sun 2015, arXiv:1502.01852.

    Example:
        >>> he_uniform()(random.key(0), (4, 3)).shape
        (4, 3)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


xavier_normal, xavier_uniform = glorot_normal, glorot_uniform
kaiming_normal, kaiming_uniform = he_normal, he_uniform
