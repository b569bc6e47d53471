"""The encoder layer of a transformer by integers: attention, a feed-forward network, two norms.

    x = norm(x + attention(x))        sums in 16 bits, one scale for both terms
    x = norm(x + feed(x))

Queries, keys and values are int8 with zero point 0; products of queries and keys become scores of a
fixed scale, so that only what flows between layers needs calibration.

Source: Kim et al. 2021, arXiv:2101.01321; Devlin et al. 2018, arXiv:1810.04805 (the layer).
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.nn import FeedForward, module, static
from tfn.nn import LayerNorm as FloatNorm
from tfn.nn import attention as float_attention
from tfn.nn import softmax as float_softmax
from tfn.nn.quantize import functions
from tfn.nn.quantize.affine import Quantization
from tfn.nn.quantize.calibration import Range
from tfn.nn.quantize.functions import LayerNorm, Table
from tfn.nn.quantize.layers import Linear
from tfn.nn.quantize.requantization import Requantization

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int8, Int32


@module
class Rescaling:
    """Int8 values as integers of more bits, with zero point 0.

    Attributes:
        zero_point: of the int8 values.
    """

    zero_point: Int32[Array, ""]
    requantization: Requantization

    @staticmethod
    def of(x: Quantization, y: Quantization) -> Rescaling:
        """Returns the change from one quantization to another.

        Raises:
            ArgumentError: for quantizations along an axis, or a factor that is out of range.
        """
        return Rescaling(x.zero_point, Requantization.of(float(x.scale), y))

    def __call__(self, x: Int8[Array, "*shape"]) -> Int32[Array, "*shape"]:
        """Returns the values in the new scale."""
        return self.requantization(x.astype("int32") - self.zero_point)


@module
class MultiheadAttention:
    """Attention of int8 values with several heads, over the positions of x.

    Attributes:
        scores: from products of queries and keys.
        mixed: from sums of values.
        heads: their number.
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    scores: Requantization
    mixed: Requantization
    heads: int = static()

    @staticmethod
    def of(
        layer: float_attention.MultiheadAttention,
        x: Quantization,
        ranges: dict[str, Range],
        y: Quantization,
    ) -> MultiheadAttention:
        """Returns attention of floats as integers.

        Args:
            layer: of floats, concrete, without positions, with as many heads of keys as of queries.
            x: the quantization of its input.
            ranges: of "query", "key", "value", "mixed", by `activations`.
            y: the quantization of its output, of 8 bits or more.

        Raises:
            ArgumentError: for rotary positions or fewer heads of keys.
        """
        if layer.rotary_base is not None or layer.kv_heads != layer.heads:
            raise ArgumentError(
                "quantized attention has a key for each query and no rotary positions",
                got=f"{layer.kv_heads} heads of keys, rotary_base={layer.rotary_base}",
                hint="keep this layer in floats",
            )
        query, key, value = (ranges[name].symmetric() for name in ("query", "key", "value"))
        mixed = ranges["mixed"].quantization()
        size = layer.query.weight.shape[-1] // layer.heads
        product = float(query.scale) * float(key.scale) / sqrt(size)
        scores = Quantization(jnp.float32(functions.SCORES), jnp.int32(0), None, 16)
        weighted = float(value.scale) * 2.0**-functions.PROBABILITY_BITS
        return MultiheadAttention(
            Linear.of(layer.query, x, query),
            Linear.of(layer.key, x, key),
            Linear.of(layer.value, x, value),
            Linear.of(layer.out, mixed, y),
            Requantization.of(product, scores),
            Requantization.of(weighted, mixed),
            layer.heads,
        )

    def __call__(
        self,
        x: Int8[Array, "*batch time features"],
        mask: Bool[Array, "*#m #time #source"] | None = None,
    ) -> Array:
        """Returns the attention of every position, as values of the quantization of the output.

        Args:
            x: the input.
            mask: broadcast against (..., heads, time, source); True where a source takes part.
        """
        query, key, value = (self._split(f(x)) for f in (self.query, self.key, self.value))
        scores = self.scores(_products(query, key, -1))
        weights = functions.softmax(scores, mask)
        # Probabilities are 128 more than their int8 values.
        rest = 128 * value.astype("int32").sum(-2, keepdims=True)
        mixed = self.mixed(_products(weights, value, -2) + rest)
        *batch, heads, time, size = mixed.shape
        return self.out(jnp.swapaxes(mixed, -3, -2).reshape(*batch, time, heads * size))

    def _split(self, x: Array) -> Array:
        """Heads before positions."""
        *batch, time, features = x.shape
        heads = x.reshape(*batch, time, self.heads, features // self.heads)
        return jnp.swapaxes(heads, -3, -2)


def _products(x: Int8[Array, "*batch n k"], y: Array, axis: int) -> Int32[Array, "*batch n m"]:
    """Products of matrices, summed over the last axis of x and one of y, in 32 bits."""
    batch = tuple(range(x.ndim - 2))
    dimensions = (((x.ndim - 1,), (y.ndim + axis,)), (batch, batch))
    return lax.dot_general(x, y, dimensions, preferred_element_type="int32")


def activations(
    attention: float_attention.MultiheadAttention,
    attention_norm: FloatNorm,
    feed: FeedForward,
    feed_norm: FloatNorm,
    x: Float[Array, "*batch time features"],
    mask: Bool[Array, "*#m #time #source"] | None = None,
) -> dict[str, Array]:
    """Returns what flows in an encoder layer of floats, for `calibrate`; "y" is its output.

    Args:
        attention, attention_norm, feed, feed_norm: the parts of the layer.
        x: the input.
        mask: as of `nn.dot_product_attention`.
    """

    def split(y: Array) -> Array:
        *batch, time, features = y.shape
        return y.reshape(*batch, time, attention.heads, features // attention.heads)

    query, key, value = attention.query(x), attention.key(x), attention.value(x)
    scores = jnp.einsum("...thk,...shk->...hts", split(query), split(key))
    size = query.shape[-1] // attention.heads
    weights = float_softmax(scores / sqrt(size), where=mask)
    mixed = jnp.einsum("...hts,...shk->...thk", weights, split(value)).reshape(query.shape)
    first = x + attention.out(mixed)
    middle = attention_norm(first)
    wide = feed.up(middle)
    active = feed.activation(wide)
    second = middle + feed.down(active)
    return {
        "x": x,
        "query": query,
        "key": key,
        "value": value,
        "mixed": mixed,
        "first": first,
        "middle": middle,
        "wide": wide,
        "active": active,
        "second": second,
        "y": feed_norm(second),
    }


@module
class EncoderLayer:
    """An encoder layer of int8 values: each part is added to its input, and a norm follows.

    Example:
        >>> from tfn import nn, random
        >>> from tfn.nn import quantize
        >>> keys = random.split(random.key(0), 3)
        >>> parts = (
        ...     nn.MultiheadAttention.init(keys[0], 16, 2), nn.LayerNorm.init(16),
        ...     nn.FeedForward.init(keys[1], 16, 32), nn.LayerNorm.init(16),
        ... )
        >>> x = random.normal(keys[2], (4, 7, 16))
        >>> ranges = quantize.calibrate(lambda x: quantize.activations(*parts, x), [x])
        >>> layer = EncoderLayer.of(*parts, ranges)
        >>> q, y = ranges["x"].quantization(), ranges["y"].quantization()
        >>> expected = quantize.activations(*parts, x)["y"]
        >>> bool(abs(y.dequantize(layer(q.quantize(x))) - expected).mean() < 0.05)
        True
    """

    attention: MultiheadAttention
    attention_skip: Rescaling
    attention_norm: LayerNorm
    up: Linear
    activation: Table
    down: Linear
    feed_skip: Rescaling
    feed_norm: LayerNorm

    @staticmethod
    def of(
        attention: float_attention.MultiheadAttention,
        attention_norm: FloatNorm,
        feed: FeedForward,
        feed_norm: FloatNorm,
        ranges: dict[str, Range],
        x: Quantization | None = None,
    ) -> EncoderLayer:
        """Returns an encoder layer of floats as integers.

        Args:
            attention, attention_norm, feed, feed_norm: its parts, concrete.
            ranges: of its activations, by `calibrate` with `activations`.
            x: the quantization of its input, if another layer has decided it; that of its range if
                None.

        Raises:
            ArgumentError: for a gate, rotary positions, fewer heads of keys, or norms without
                weights.
        """
        if feed.gate is not None:
            raise ArgumentError(
                "a quantized feed-forward network has no gate",
                got="a layer with three matrices",
                hint="keep this layer in floats",
            )
        x = ranges["x"].quantization() if x is None else x
        middle, wide, active, y = (
            ranges[name].quantization() for name in ("middle", "wide", "active", "y")
        )
        first, second = (functions.of_sums(ranges[name].largest()) for name in ("first", "second"))
        return EncoderLayer(
            MultiheadAttention.of(attention, x, ranges, first),
            Rescaling.of(x, first),
            LayerNorm.of(attention_norm, first, middle),
            Linear.of(feed.up, middle, wide),
            Table.of(feed.activation, wide, active),
            Linear.of(feed.down, active, second),
            Rescaling.of(middle, second),
            LayerNorm.of(feed_norm, second, y),
        )

    def __call__(
        self,
        x: Int8[Array, "*batch time features"],
        mask: Bool[Array, "*#m #time #source"] | None = None,
    ) -> Int8[Array, "*batch time features"]:
        """Returns int8 values."""
        x = self.attention_norm(self.attention_skip(x) + self.attention(x, mask))
        wide = self.activation(self.up(x))
        return self.feed_norm(self.feed_skip(x) + self.down(wide))
