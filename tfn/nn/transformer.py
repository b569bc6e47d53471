"""Transformer blocks (pre-norm), and stacks of equal modules as one loop."""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tfn import lax, random, tree
from tfn import numpy as jnp
from tfn._support.validate import integer
from tfn.array import Array
from tfn.dtypes import DTypeLike
from tfn.nn.attention import KVCache, MultiheadAttention
from tfn.nn.functions import gelu, silu
from tfn.nn.layers import Dropout, Linear
from tfn.nn.module import module, static
from tfn.nn.normalization import LayerNorm, RMSNorm
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Integer

Norm = LayerNorm | RMSNorm


class MakeNorm(Protocol):
    """A constructor of norms: `LayerNorm.init` or `RMSNorm.init`."""

    def __call__(self, features: int, *, dtype: DTypeLike = float) -> Norm:
        """Returns the norm of a last axis of `features`."""


@module
class FeedForward:
    """Two linear layers with an activation between them; with a gate, three.

    Attributes:
        gate: None, or the layer whose activation is multiplied with the outputs of `up`.

    Source: Shazeer 2020, arXiv:2002.05202 (the gate; with `silu` it is called SwiGLU).

    Example:
        >>> FeedForward.init(random.key(0), 8, 32, gated=True)(jnp.ones((2, 8))).shape
        (2, 8)
    """

    up: Linear
    gate: Linear | None
    down: Linear
    activation: Callable[[Array], Array] = static(default=gelu)

    @staticmethod
    def init(
        key: KeyLike,
        features: int,
        wide: int,
        *,
        gated: bool = False,
        use_bias: bool = False,
        activation: Callable[[Array], Array] | None = None,
        dtype: Any = float,
    ) -> FeedForward:
        """Returns layers with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            features: number of features of the input and of the output.
            wide: number of features between the layers.
            gated: whether the wide features are multiplied with the activation of a third layer's
                outputs.
            use_bias: whether the layers have biases.
            activation: function of the wide features; `silu` with a gate and `gelu` without if
                None.
            dtype: floating dtype of the parameters; float32 by default.
        """
        keys = random.split(key, 3)
        up, gate = (
            Linear.init(k, features, wide, use_bias=use_bias, dtype=dtype) for k in keys[:2]
        )
        down = Linear.init(keys[2], wide, features, use_bias=use_bias, dtype=dtype)
        return FeedForward(
            up, gate if gated else None, down, activation or (silu if gated else gelu)
        )

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        """Returns the outputs of the second layer."""
        wide = self.up(x)
        if self.gate is None:
            return self.down(self.activation(wide))
        return self.down(self.activation(self.gate(x)) * wide)


@module
class TransformerBlock:
    """Attention and a feed-forward network, each after a norm and added to its input.

    Attributes:
        dropout: applied to both terms that are added.

    Source: Vaswani et al. 2017, arXiv:1706.03762; Xiong et al. 2020, arXiv:2002.04745 (norms
    first).

    Example:
        >>> block = TransformerBlock.init(random.key(0), 16, 4, gated=True, norm=RMSNorm.init)
        >>> block(jnp.ones((2, 5, 16)), is_causal=True).shape
        (2, 5, 16)
    """

    attention_norm: Norm
    attention: MultiheadAttention
    feed_norm: Norm
    feed: FeedForward
    dropout: Dropout

    @staticmethod
    def init(
        key: KeyLike,
        features: int,
        heads: int,
        *,
        wide: int | None = None,
        kv_heads: int | None = None,
        gated: bool = False,
        use_bias: bool = False,
        norm: MakeNorm = LayerNorm.init,
        rotary_base: float | None = None,
        interleaved: bool = False,
        dropout: float = 0.0,
        activation: Callable[[Array], Array] | None = None,
        dtype: Any = float,
    ) -> TransformerBlock:
        """Returns a block with random weights.

        Args:
            key: a key, from which the random weights are drawn.
            features: number of features of the input and of the output.
            heads: number of heads of queries, which divides `features`.
            wide: number of features inside of the feed-forward network; ``4 * features`` if None.
            kv_heads: number of heads of keys and values, which divides `heads`; `heads` if None.
            gated: whether the feed-forward network has a gate, see `FeedForward`.
            use_bias: whether the linear layers have biases.
            norm: `LayerNorm.init` or `RMSNorm.init`.
            rotary_base: `base` of `rotary`; None for no positions.
            interleaved: as of `rotary`.
            dropout: probability of an element to be dropped.
            activation: of the feed-forward network; `silu` with a gate and `gelu` without if None.
            dtype: floating dtype of the parameters; float32 by default.

        Raises:
            ArgumentError: as `MultiheadAttention.init`.
        """
        keys = random.split(key)
        attention = MultiheadAttention.init(
            keys[0],
            features,
            heads,
            kv_heads=kv_heads,
            use_bias=use_bias,
            rotary_base=rotary_base,
            interleaved=interleaved,
            dtype=dtype,
        )
        feed = FeedForward.init(
            keys[1],
            features,
            wide or 4 * features,
            gated=gated,
            use_bias=use_bias,
            activation=activation,
            dtype=dtype,
        )
        norms = norm(features, dtype=dtype), norm(features, dtype=dtype)
        return TransformerBlock(norms[0], attention, norms[1], feed, Dropout(dropout))

    def __call__(
        self,
        x: Float[Array, "*batch time features"],
        *,
        mask: Bool[Array, "*#m #time #time"] | None = None,
        is_causal: bool = False,
        positions: Integer[Array, "*times"] | None = None,
        key: KeyLike | None = None,
        inference: bool = False,
    ) -> Float[Array, "*batch time features"]:
        """Returns the block's outputs.

        Args:
            x: the input.
            mask: as of `dot_product_attention`.
            is_causal: as of `dot_product_attention`.
            positions: as of `rotary`.
            key: a key for dropout; needed only while training with it.
            inference: whether to leave dropout out.
        """
        first, second = (None, None) if key is None else random.split(key)
        y = self.attention(
            self.attention_norm(x), mask=mask, is_causal=is_causal, positions=positions
        )
        x = x + self.dropout(y, key=first, inference=inference)
        y = self.feed(self.feed_norm(x))
        return x + self.dropout(y, key=second, inference=inference)

    def cache(
        self, room: int, *, batch: tuple[int, ...] = (), dtype: DTypeLike | None = None
    ) -> KVCache:
        """Returns an empty cache for `step`.

        Args:
            room: number of positions that fit.
            batch: sizes of the leading axes of the inputs; () for none.
            dtype: floating dtype of the cache; that of the parameters if None.
        """
        return self.attention.cache(room, batch=batch, dtype=dtype)

    def step(
        self, x: Float[Array, "*batch time features"], cache: KVCache
    ) -> tuple[Float[Array, "*batch time features"], KVCache]:
        """Returns the outputs for positions after those in the cache, without dropout, and the
        cache.
        """
        y, cache = self.attention.step(self.attention_norm(x), cache)
        x = x + y
        return x + self.feed(self.feed_norm(x)), cache


def _stacked(trees: Sequence[object]) -> Any:
    return tree.map(lambda *xs: jnp.stack(xs), *trees)


@module
class Stack:
    """Equal modules, one after the other: a loop that is traced and compiled once.

    Attributes:
        layers: one module, whose arrays have a first axis for the layers.
        count: number of modules, where they have no arrays that say it.

    Example:
        >>> layers = Stack.init(lambda k: Linear.init(k, 4, 4), random.key(0), 3)
        >>> layers(jnp.ones((2, 4))).shape
        (2, 4)
        >>> layers.layers
        Linear(weight=f32[3,4,4], bias=f32[3,4])
    """

    layers: Any
    count: int = static(default=0)

    @staticmethod
    def init(make: Callable[[Any], Any], key: KeyLike, count: int) -> Stack:
        """Returns modules, each made from a key of its own, stacked.

        Args:
            make: a function from a key to a module.
            key: a key, which is split.
            count: number of modules, at least 1.

        Raises:
            ArgumentError: if there are none.
            TreeError: if they are not equal but for the elements of their arrays.
        """
        integer("Stack.init", "count", count, 1)
        layers = _stacked([make(k) for k in random.split(key, count)])
        return Stack(layers, 0 if tree.leaves(layers) else count)

    def __len__(self) -> int:
        leaves = tree.leaves(self.layers)
        return leaves[0].shape[0] if leaves else self.count

    def __call__(self, x: Any, *, key: KeyLike | None = None, **options: Any) -> Any:
        """Applies the modules in order, all with the same options.

        Args:
            x: input of the first module.
            key: split into a key for each module; the modules get none if None.
            options: further keyword arguments of every module.
        """
        keys = None if key is None else random.split(key, len(self))

        def body(x: Any, layer: Any) -> tuple[Any, None]:
            module, key = layer
            return module(x, **options) if key is None else module(x, key=key, **options), None

        return lax.scan(body, x, (self.layers, keys), len(self))[0]

    def step(self, x: Any, caches: Any) -> tuple[Any, Any]:
        """Applies the modules in order, each with its cache, stacked like the modules' arrays."""
        both = self.layers, caches
        y, caches = lax.scan(lambda x, both: both[0].step(x, both[1]), x, both, len(self))
        return y, caches

    def cache(self, *args: object, **options: object) -> Any:
        """Returns the caches of all modules, stacked."""
        each = tree.map(lambda x: x[0], self.layers).cache(*args, **options)
        return _stacked([each] * len(self))
