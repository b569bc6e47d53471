"""First values of parameters: ``initializer(key, shape, dtype)``, by the names of JAX.

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
from tfn.eager.operands import a_shape
from tfn.errors import ArgumentError, ShapeError
from tfn.random import KeyLike

Axes = int | Sequence[int]


class Initializer(Protocol):
    """A function that makes an array from a key."""

    def __call__(self, key: KeyLike, shape: Sequence[int], dtype: Any = float) -> Array:
        """The array."""


def zeros(key: KeyLike, shape: Sequence[int], dtype: Any = float) -> Array:
    """All zeros; the key is not used."""
    return jnp.zeros(shape, dtype)


def ones(key: KeyLike, shape: Sequence[int], dtype: Any = float) -> Array:
    """All ones; the key is not used."""
    return jnp.ones(shape, dtype)


def constant(value: ArrayLike, dtype: Any = float) -> Initializer:
    """One value everywhere."""

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return jnp.full(shape, value, dtype)

    return init


def uniform(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    """Uniform in [0, scale)."""

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.uniform(key, shape, dtype) * scale

    return init


def normal(stddev: float = 1e-2, dtype: Any = float) -> Initializer:
    """Normal with mean 0."""

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.normal(key, shape, dtype) * stddev

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: Any = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Normal with mean 0, cut off at `lower` and `upper` times `stddev`."""

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        return random.truncated_normal(key, lower, upper, shape, dtype) * stddev

    return init


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """A matrix with orthonormal columns, or rows where there are fewer of them, times a scale.

    Args:
        column_axis: the axis of columns; all others together are that of rows.

    Raises:
        ArgumentError: for a shape of fewer than two axes.
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
        columns = shape[column_axis]
        if prod(shape) == 0:
            return jnp.zeros(shape, dtype)
        q = random.orthogonal(key, prod(shape) // columns, (), dtype, columns)
        rows = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        placed = jnp.moveaxis(q.reshape((*rows, columns)), -1, column_axis)
        return placed * scale

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """A window of a convolution that is `orthogonal` in its middle and zero elsewhere.

    Raises:
        ArgumentError: unless the shape is (*window, inputs, outputs) with one to three axes of
            window, and no more inputs than outputs.
    Source: Xiao et al. 2018, arXiv:1806.05393.
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
    dtype: Any = float,
) -> Initializer:
    """Mean 0 and variance ``scale / fan``, so that signals keep their size through a layer.

    Args:
        mode: which fan: 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg'.
        distribution: 'truncated_normal', 'normal' or 'uniform'.
        in_axis, out_axis: axes of inputs and outputs; those of neither are a receptive field.
        batch_axis: axes along which there are independent layers.

    Raises:
        ArgumentError: for another mode or distribution, or a shape of fewer than two axes.

    Example:
        >>> init = variance_scaling(2.0, "fan_in", "truncated_normal")
        >>> init(random.key(0), (784, 128)).shape
        (784, 128)
    """
    one_of("variance_scaling", "mode", mode, tuple(_FANS))
    distributions = ("truncated_normal", "normal", "uniform")
    one_of("variance_scaling", "distribution", distribution, distributions)

    def init(key: KeyLike, shape: Sequence[int], dtype: Any = dtype) -> Array:
        fan = _FANS[mode](*fans(shape, in_axis, out_axis, batch_axis))
        variance = scale / max(fan, 1)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, dtype, minval=-1.0) * math.sqrt(3 * variance)
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (math.sqrt(variance) / _CUT)

    return init


def fans(
    shape: Sequence[int], in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()
) -> tuple[float, float]:
    """How many inputs reach an output of a layer, and how many outputs an input.

    Raises:
        ArgumentError: for a shape of fewer than two axes.

    Example:
        >>> fans((3, 3, 16, 32))
        (144.0, 288.0)
    """
    if len(shape) < 2:
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
    return shape[axis] if isinstance(axis, int) else prod(shape[a] for a in axis)


def _named(scale: float, mode: str, distribution: str, text: str) -> Any:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = float
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__doc__ = text
    return make


# fmt: off
lecun_normal = _named(1.0, "fan_in", "truncated_normal", "Variance 1 / fan_in, truncated.")
lecun_uniform = _named(1.0, "fan_in", "uniform", "Variance 1 / fan_in, uniform.")
glorot_normal = _named(1.0, "fan_avg", "truncated_normal", "Variance 1 / fan_avg, truncated.")
glorot_uniform = _named(1.0, "fan_avg", "uniform", "Variance 1 / fan_avg, uniform.")
he_normal = _named(2.0, "fan_in", "truncated_normal", "Variance 2 / fan_in, truncated.")
he_uniform = _named(2.0, "fan_in", "uniform", "Variance 2 / fan_in, uniform.")
# fmt: on
xavier_normal, xavier_uniform = glorot_normal, glorot_uniform
kaiming_normal, kaiming_uniform = he_normal, he_uniform
