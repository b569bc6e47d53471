"""Requantization: int32 sums of products become int8 values, by integers only::

    sum ~ real / (scale of x * scale of w)  ->  q = clip((sum * m + 2**(s - 1)) >> s) + zero_point)

The real factor ``scale of x * scale of w / scale of y`` is ``m * 2**-s`` with m of 31 bits.  The
product is exact in 64 bits and rounded once: to the nearest integer, halves upwards (towards
+infinity).

Source: Jacob et al. 2018, arXiv:1712.05877, section 2.2; the rounding is that of TensorFlow Lite
with single rounding (`MultiplyByQuantizedMultiplier`).
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.extend import shown
from tfn.nn import module, static
from tfn.nn.quantize.affine import MAX_BITS, Quantization

if TYPE_CHECKING:
    from jaxtyping import Int32

MULTIPLIER_BITS = 31
"""Bits of a multiplier: with a sum of 32 bits, the product and its rounding fit into 64 bits."""
MAX_SHIFT = 62
"""The largest shift: the rounding term ``2**(shift - 1)`` and the product fit into 64 bits."""
MIN_SHIFT = 33
"""The smallest shift at which the upper half of a product has all bits of the result."""
MAX_SHIFT_OF_SUMS = 12
"""The most that sums are shifted instead: with factors that would need more, from 2**9 on, every
sum but 0 is clipped."""
MAX_WIDE_FACTOR_BITS = 9
"""Bits of the largest factor to results of more than 8 bits, which would not be clipped."""


@module
class Requantization:
    """A fixed-point factor with rounding, the zero point and the range of the results.

    Attributes:
        multiplier: of 31 bits.
        shift: 1 to 62; the factor is ``multiplier * 2**-shift``.
        zero_point: added after rounding.
        lowest, highest: results are clipped to them.

    Example:
        >>> y = Quantization(jnp.float32(1.0), jnp.int32(0))
        >>> half = Requantization.of(0.5, y)
        >>> half(jnp.array([3, -3, 4, 1000])).tolist()
        [2, -1, 2, 127]
    """

    multiplier: Int32[Array, " *channels"]
    shift: Int32[Array, " *channels"]
    zero_point: Int32[Array, ""]
    lowest: int = static(default=-128)
    highest: int = static(default=127)

    @staticmethod
    def of(scale: object, output: Quantization, relu: bool = False) -> Requantization:
        """Returns the requantization of sums to the values of a quantization.

        Args:
            scale: that of a sum, the product of the scales of its factors: a number, or one for
                each channel of the last axis; concrete, because multipliers are made on the host.
            output: the quantization of the results, one for all channels.
            relu: whether negative numbers become 0; it costs nothing, since the range begins at the
                zero point then.

        Raises:
            ArgumentError: if the output has several scales, or a factor is not positive and below
                2**30; for results of more than 8 bits, below 2**9.
        """
        if output.axis is not None:
            raise ArgumentError(
                "the results of a requantization have one scale",
                got=f"a quantization along axis {output.axis}",
                hint="use per_tensor for activations, and scales per channel for weights",
            )
        factors: np.ndarray[Any, Any] = np.asarray(scale, np.float64) / float(output.scale)
        most = 1 << (MAX_WIDE_FACTOR_BITS if output.bits > MAX_BITS else 30)
        if not (np.isfinite(factors) & (factors > 0) & (factors < most)).all():
            raise ArgumentError(
                f"a requantization needs a factor above 0 and below 2**{most.bit_length() - 1}",
                got=f"scales {shown(scale)} and {float(output.scale)}",
                hint="scales are positive: look at the data that was used for calibration",
            )
        _, exponents = np.frexp(factors)
        shifts = np.minimum(MULTIPLIER_BITS - exponents, MAX_SHIFT)
        multipliers = np.rint(np.ldexp(factors, shifts)).astype(np.int64)
        # A mantissa just below 1 rounds up to 2**31, which has one bit too many.
        large = multipliers == 2**MULTIPLIER_BITS
        multipliers, shifts = np.where(large, multipliers // 2, multipliers), shifts - large
        zero_point = output.zero_point.item()
        lowest = max(output.lowest, zero_point) if relu else output.lowest
        return Requantization(
            jnp.asarray(multipliers.astype(np.int32)),
            jnp.asarray(shifts.astype(np.int32)),
            output.zero_point,
            lowest,
            output.highest,
        )

    def __call__(self, sums: Int32[Array, "*shape"]) -> Array:
        """Returns sums as quantized values, int8, or int32 if they have more bits.

        Channels are the last axis.
        """
        # Of a product only the upper 32 bits are needed, if it is shifted by 33 at least: the
        # rounding term is a multiple of 2**32 then.  With a smaller shift the sum is shifted
        # instead; factors are 1/8 and more there, so that all results of sums that are clipped
        # here, and of others that are shifted by less than they should, are clipped below.
        up = jnp.clip(MIN_SHIFT - self.shift, 0, MAX_SHIFT_OF_SUMS)
        most = jnp.right_shift(jnp.int32(2**31 - 1), up)
        upper = _upper_bits(jnp.left_shift(jnp.clip(sums, ~most, most), up), self.multiplier)
        down = jnp.maximum(self.shift, MIN_SHIFT) - MIN_SHIFT
        rounded = jnp.right_shift(upper + jnp.left_shift(jnp.ones_like(down), down), down + 1)
        # Clipped before the zero point is added: the sum fits into 32 bits then.
        low, high = self.lowest - self.zero_point, self.highest - self.zero_point
        results = jnp.clip(rounded, low, high) + self.zero_point
        return results.astype("int8") if self.highest < 2 ** (MAX_BITS - 1) else results


def _upper_bits(x: Int32[Array, "*shape"], y: Int32[Array, "*shape"]) -> Int32[Array, "*shape"]:
    """Returns the upper 32 of the 64 bits of a product; `y` is not negative.

    Four products of halves: no vector of 64-bit integers is needed, which many processors lack.

    Source: H. S. Warren 2013, "Hacker's Delight", section 8-2.
    """
    x_low, x_high = jnp.bitwise_and(x, 0xFFFF), jnp.right_shift(x, 16)
    y_low, y_high = jnp.bitwise_and(y, 0xFFFF), jnp.right_shift(y, 16)
    lowest = (x_low.astype("uint32") * y_low.astype("uint32")) >> 16
    middle = x_high * y_low + lowest.astype("int32")
    carried = x_low * y_high + jnp.bitwise_and(middle, 0xFFFF)
    return x_high * y_high + jnp.right_shift(middle, 16) + jnp.right_shift(carried, 16)
