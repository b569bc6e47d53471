"""Affine quantization: numbers as small integers with a scale and a zero point::

    x  ~  scale * (q - zero_point)        q = clip(round(x / scale) + zero_point, lowest, highest)

The number 0 is always exact: it is the zero point.  Halves are rounded to even.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.errors import ArgumentError, AxisError
from tfn.extend import integer, operands
from tfn.nn import module, static

if TYPE_CHECKING:
    from jaxtyping import Float, Int8, Int32

MIN_BITS = 2
MAX_BITS = 8
"""Quantized values are int8; fewer bits use fewer of its values."""


def check_bits(bits: int) -> int:
    """Returns a number of bits.

    Raises:
        ArgumentError: unless it is 2 to 8.
    """
    if not MIN_BITS <= integer("quantization", "bits", bits) <= MAX_BITS:
        raise ArgumentError(
            f"a quantization has {MIN_BITS} to {MAX_BITS} bits",
            got=f"bits={bits}",
            hint="quantized values are stored as int8",
        )
    return int(bits)


@module
class Quantization:
    """The scale and the zero point of quantized numbers, for all of them or for each channel.

    Attributes:
        scale: the distance of neighbouring values; positive.
        zero_point: the integer that stands for 0.
        axis: the axis of the channels, each of which has a scale; None for one scale in all.
        bits: integers are from ``-2**(bits - 1)`` to ``2**(bits - 1) - 1``.

    Example:
        >>> q = per_tensor(-1.0, 3.0)
        >>> q.quantize(jnp.array([-1.0, 0.0, 3.0, 9.0])).tolist()
        [-128, -64, 127, 127]
        >>> q.dequantize(q.quantize(jnp.array([0.0]))).tolist()
        [0.0]
    """

    scale: Float[Array, " *channels"]
    zero_point: Int32[Array, " *channels"]
    axis: int | None = static(default=None)
    bits: int = static(default=8)

    @property
    def lowest(self) -> int:
        """The smallest integer."""
        return -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        """The largest integer."""
        return (1 << (self.bits - 1)) - 1

    def quantize(self, x: Float[ArrayLike, "*shape"]) -> Int8[Array, "*shape"]:
        """Returns the nearest integers, halves to even; what is out of range becomes its end.

        NaN becomes the zero point.
        """
        x = operands.array_of("quantize", x)
        scale, zero_point = self._along(x, self.scale), self._along(x, self.zero_point)
        steps = jnp.round(x / scale.astype(x.dtype))
        low, high = self.lowest - zero_point, self.highest - zero_point
        steps = jnp.clip(steps, low.astype(x.dtype), high.astype(x.dtype))
        return (steps.astype("int32") + zero_point).astype("int8")

    def dequantize(self, q: Int8[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
        """Returns the numbers that integers stand for, as the dtype of the scale."""
        q = operands.array_of("dequantize", q)
        scale, zero_point = self._along(q, self.scale), self._along(q, self.zero_point)
        return (q.astype("int32") - zero_point).astype(scale.dtype) * scale

    def _along(self, x: Array, values: Array) -> Array:
        """Values of the channels, shaped to be broadcast against x."""
        if self.axis is None:
            return values
        axis = channel_axis(x, self.axis)
        return values.reshape(-1, *(1,) * (x.ndim - 1 - axis))


def channel_axis(x: Array, axis: int) -> int:
    """Returns an axis counted from 0.

    Raises:
        AxisError: if x does not have it.
    """
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(
            "a quantization per channel needs the axis of the channels",
            got=f"axis={axis}, an array of shape {x.shape}",
            hint=f"axes are from {-x.ndim} to {x.ndim - 1}",
        )
    return axis % x.ndim


def per_tensor(low: ArrayLike, high: ArrayLike, bits: int = 8) -> Quantization:
    """Returns the quantization whose integers cover a range, which is widened to hold 0.

    Args:
        low, high: the ends of the range, scalars; both 0 give a scale of 1.
        bits: of an integer, 2 to 8.

    Raises:
        ArgumentError: for another number of bits.

    Example:
        >>> per_tensor(0.0, 255.0).zero_point.item()
        -128
    """
    steps = 2 ** check_bits(bits) - 1
    low = jnp.minimum(jnp.asarray(low, "float32"), 0)
    high = jnp.maximum(jnp.asarray(high, "float32"), 0)
    scale = _positive((high - low) / steps)
    lowest = -(2 ** (bits - 1))
    zero_point = jnp.clip(jnp.round(lowest - low / scale), lowest, lowest + steps)
    return Quantization(scale, zero_point.astype("int32"), None, bits)


def per_channel(low: ArrayLike, high: ArrayLike, axis: int, bits: int = 8) -> Quantization:
    """Returns a quantization with a scale and a zero point for each channel.

    Args:
        low, high: the ends of the ranges, one for each channel.
        axis: the axis of the channels in the arrays that are quantized.
        bits: of an integer, 2 to 8.

    Raises:
        ArgumentError: for another number of bits.

    Example:
        >>> q = per_channel(jnp.array([0.0, -4.0]), jnp.array([1.0, 1.0]), axis=0)
        >>> q.quantize(jnp.ones((2, 1))).tolist()
        [[127], [127]]
    """
    whole = per_tensor(low, high, bits)
    return Quantization(whole.scale, whole.zero_point, axis, bits)


def symmetric(x: ArrayLike, axis: int | None = None, bits: int = 8) -> Quantization:
    """Returns the quantization with zero point 0 that covers the elements of an array.

    The smallest integer is not used, so that the range is symmetric: this is how weights are
    quantized, because products with a zero point of 0 need no correction.

    Args:
        x: weights.
        axis: the axis of the channels, each of which gets a scale; None for one scale in all.
        bits: of an integer, 2 to 8.

    Raises:
        ArgumentError: for another number of bits.
        AxisError: if x does not have the axis.

    Example:
        >>> weight = jnp.array([[1.0, -20.0], [-4.0, 5.0]])
        >>> symmetric(weight, axis=1).quantize(weight).tolist()
        [[32, -127], [-127, 32]]
    """
    x = operands.array_of("symmetric", x)
    highest = 2 ** (check_bits(bits) - 1) - 1
    others = None
    if axis is not None:
        kept = channel_axis(x, axis)
        others = tuple(i for i in range(x.ndim) if i != kept)
    largest = jnp.max(jnp.abs(x), axis=others, initial=0.0)
    scale = _positive(largest / highest)
    return Quantization(scale, jnp.zeros(scale.shape, "int32"), axis, bits)


def _positive(scale: Array) -> Array:
    """A scale, 1 where all numbers are 0."""
    return jnp.where(scale > 0, scale, jnp.ones_like(scale))
