"""Softmax, layer norm and any function of int8 values, by integers only.

    exp(-d / 256)  =  exp(-(d >> 8)) * exp(-(d & 255) / 256)         two tables of 256 integers
    softmax        =  e / sum(e): one division for each row
    layer norm     =  (x - mean) * (1 / root): a square root and a division for each row
    f(x)           =  table[x + 128], for x of 8 bits

Every step is an integer operation with one result, so all devices give the same bits.

Source: Kim et al. 2021, "I-BERT: integer-only BERT quantization", arXiv:2101.01321, which has a
layer norm and a softmax without floats, too.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable
from math import floor, log2, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn import module, normalization
from tfn.nn.quantize.affine import Quantization
from tfn.nn.quantize.requantization import Requantization

if TYPE_CHECKING:
    from jaxtyping import Bool, Int8, Int32, Int64

SCORE_BITS = 8
"""Fractional bits of the scores of a softmax: half a step changes a probability by 0.2%."""
SCORES = 2.0**-SCORE_BITS
"""The scale of scores."""
EXP_BITS = 15
"""Fractional bits of exponentials: a product of two of them fits into 32 bits."""
RECIPROCAL_BITS = 30
"""Fractional bits of the reciprocal of a sum of exponentials."""
PROBABILITY_BITS = 8
"""Fractional bits of probabilities, which are from 0 to 255/256: the int8 value is 128 less."""

_STEPS = np.arange(256)
_EXP_WHOLE = np.rint(np.exp(-1.0 * _STEPS) * 2**EXP_BITS).astype(np.int32)
_EXP_PART = np.rint(np.exp(-_STEPS / 256) * 2**EXP_BITS).astype(np.int32)


def softmax(
    scores: Int32[Array, "*rows source"], mask: Bool[Array, "*#rows #source"] | None = None
) -> Int8[Array, "*rows source"]:
    """Returns the probabilities of scores along the last axis, as int8 values.

    Their scale is ``2**-PROBABILITY_BITS``, their zero point -128.

    Args:
        scores: from ``-2**15`` to ``2**15 - 1``, with the scale `SCORES`.
        mask: elements that take part; a row without any gets zeros.

    Example:
        >>> softmax(jnp.array([[0, 0], [0, 177]])).tolist()
        [[0, 0], [-43, 43]]
    """
    if mask is not None:
        scores = jnp.where(mask, scores, -(2**15))
    below = scores.max(-1, keepdims=True) - scores
    whole = jnp.asarray(_EXP_WHOLE)[jnp.right_shift(below, 8)]
    part = jnp.asarray(_EXP_PART)[jnp.bitwise_and(below, 255)]
    exps = jnp.right_shift(whole * part + 2 ** (EXP_BITS - 1), EXP_BITS)
    if mask is not None:
        exps = jnp.where(mask, exps, 0)
    total = jnp.maximum(exps.sum(-1, keepdims=True), 1)
    shift = RECIPROCAL_BITS - PROBABILITY_BITS
    quotients = exps * jnp.floor_divide(jnp.int32(2**RECIPROCAL_BITS), total)
    rounded = jnp.right_shift(quotients + 2 ** (shift - 1), shift)
    return (jnp.minimum(rounded, 255) - 128).astype("int8")


@module
class Table:
    """A function of int8 values, for each of them the int8 result.

    Example:
        >>> from tfn import nn
        >>> x = Quantization(jnp.float32(0.1), jnp.int32(0))
        >>> Table.of(nn.relu, x, x)(jnp.array([-5, 7], "int8")).tolist()
        [0, 7]
    """

    values: Int8[Array, " values"]

    @staticmethod
    def of(function: Callable[[Array], Array], x: Quantization, y: Quantization) -> Table:
        """Returns the table of a function of floats.

        Args:
            function: elementwise, as `nn.gelu`.
            x, y: the quantizations of its argument and of its result, each with one scale.

        Raises:
            ArgumentError: for quantizations along an axis.
        """
        if x.axis is not None or y.axis is not None:
            raise ArgumentError(
                "a table has one scale for arguments and one for results",
                got=f"axes {x.axis} and {y.axis}",
                hint="use per_tensor for activations",
            )
        arguments = jnp.arange(-128, 128, dtype="int32").astype("int8")
        return Table(y.quantize(function(x.dequantize(arguments))))

    def __call__(self, x: Int8[Array, "*shape"]) -> Int8[Array, "*shape"]:
        """Returns the results of int8 values."""
        return self.values[x.astype("int32") + 128]


SUM_BITS = 16
"""Bits of what a layer norm normalizes, in int32: the sum of two terms of this many bits fits."""
HEADROOM = 4
"""Terms may be so many times larger than the largest sum that was observed in calibration."""
MEAN_BITS = 3
"""Fractional bits of the mean of a row, over those of its elements."""
ROOT_BITS = 5
"""Fractional bits of a square root."""
NORMAL_BITS = 12
"""Fractional bits of normalized elements."""
FACTOR_BITS = 20
"""Fractional bits of the reciprocal of a root."""
MAX_FEATURES = 4096
"""Elements of a row whose squares still fit into 64 bits, with the bits of a root."""


def of_sums(largest: float) -> Quantization:
    """Returns the quantization of the terms and the sums that a layer norm takes.

    Args:
        largest: the largest magnitude of a sum.
    """
    scale = max(largest, 1e-30) * HEADROOM / 2 ** (SUM_BITS - 1)
    return Quantization(jnp.float32(scale), jnp.int32(0), None, SUM_BITS)


@module
class LayerNorm:
    """A layer norm of integers.

    Attributes:
        weight, bias: with as many fractional bits as products with normalized elements leave.
        epsilon: in units of a sum of squares.
        numerator: of the factor of a row: the square root of the number of features.

    Example:
        >>> from tfn import nn
        >>> y = Quantization(jnp.float32(1 / 50), jnp.int32(0))
        >>> norm = LayerNorm.of(nn.LayerNorm.init(2), of_sums(1000.0), y)
        >>> norm(jnp.array([[300, 100], [7, 7]])).tolist()
        [[50, -50], [0, 0]]
    """

    weight: Int32[Array, " features"]
    bias: Int32[Array, " features"]
    epsilon: Int64[Array, ""]
    numerator: Int64[Array, ""]
    requantization: Requantization

    @staticmethod
    def of(layer: normalization.LayerNorm, x: Quantization, y: Quantization) -> LayerNorm:
        """Returns a norm of floats as one of integers.

        Args:
            layer: with a weight or a bias, concrete.
            x: the quantization of sums, by `of_sums`.
            y: the quantization of the results.

        Raises:
            ArgumentError: if the norm has neither, or too many features; for quantizations along
                an axis.
        """
        one = layer.weight if layer.weight is not None else layer.bias
        if one is None or one.size > MAX_FEATURES:
            raise ArgumentError(
                f"a quantized layer norm has weights or biases, {MAX_FEATURES:,} at the most",
                got=f"{layer}",
                hint="pass a norm of nn.LayerNorm.init(features)",
            )
        n = one.size
        weight = _wide(layer.weight, np.ones(n))
        bias = _wide(layer.bias, np.zeros(n))
        # Normalized elements are sqrt(n) at the most.
        most = sqrt(n) * np.abs(weight).max() + np.abs(bias).max()
        bits = min(floor(30 - NORMAL_BITS - log2(max(most, 1e-9))), 30)
        unit = float(x.scale) / 2**MEAN_BITS
        epsilon = min(round(n * layer.epsilon / unit**2), 2**50)
        numerator = round(sqrt(n) * 2.0 ** (NORMAL_BITS + ROOT_BITS + FACTOR_BITS))
        return LayerNorm(
            jnp.asarray(np.rint(weight * 2.0**bits).astype(np.int32)),
            jnp.asarray(np.rint(bias * 2.0 ** (bits + NORMAL_BITS)).astype(np.int32)),
            jnp.asarray(np.int64(epsilon)),
            jnp.asarray(np.int64(numerator)),
            Requantization.of(2.0 ** -(bits + NORMAL_BITS), y),
        )

    def __call__(self, x: Int32[Array, "*rows features"]) -> Int8[Array, "*rows features"]:
        """Returns the last axis with mean 0 and variance 1, scaled and shifted, as int8 values."""
        n = x.shape[-1]
        total = x.astype("int64").sum(-1, keepdims=True)
        mean = jnp.floor_divide(total * 2**MEAN_BITS + n // 2, jnp.int64(n))
        centred = x.astype("int64") * 2**MEAN_BITS - mean
        squares = (centred * centred).sum(-1, keepdims=True) + self.epsilon
        root = _square_root(squares * 2 ** (2 * ROOT_BITS))
        factor = jnp.floor_divide(self.numerator, jnp.maximum(root, 1))
        normal = jnp.right_shift(centred * factor + 2 ** (FACTOR_BITS - 1), FACTOR_BITS)
        return self.requantization(normal.astype("int32") * self.weight + self.bias)


def _wide(x: Array | None, default: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return default if x is None else np.asarray(x, np.float64)


def _square_root(x: Int64[Array, "*shape"]) -> Int64[Array, "*shape"]:
    """Returns the largest integers whose squares are at most x, of numbers below 2**62."""
    root = jnp.zeros_like(x)
    for bit in range(30, -1, -1):
        larger = root + 2**bit
        root = jnp.where(larger * larger <= x, larger, root)
    return root
