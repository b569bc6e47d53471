"""Attention: dot-product and multi-head attention, rotary positions, key-value cache.

Axes are (..., time, heads, size), so that the heads of one position are contiguous, as a Linear
returns them.  There may be fewer heads of keys and values than of queries, each for several of
them.
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfn import lax, random
from tfn import numpy as jnp
from tfn._support.validate import element_type, integer, rank, shown
from tfn.array import Array
from tfn.dtypes import BOOL, FLOATS, DTypeLike
from tfn.eager.operands import array_of
from tfn.errors import ArgumentError, ShapeError
from tfn.nn.convolution import each_axis
from tfn.nn.functions import logsumexp, softmax
from tfn.nn.layers import Linear
from tfn.nn.module import module, static
from tfn.random import KeyLike

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Integer


def dot_product_attention(
    query: Float[Array, "*batch time heads size"],
    key: Float[Array, "*batch source kv_heads size"],
    value: Float[Array, "*batch source kv_heads width"],
    bias: Float[Array, "*#b #time #source"] | None = None,
    mask: Bool[Array, "*#m #time #source"] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Integer[Array, "*#q"] | None = None,
    key_value_seq_lengths: Integer[Array, "*#k"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    return_residual: bool = False,
) -> Any:
    """Returns values averaged with the weights softmax(query @ key.T * scale), for each query.

    Args:
        query: floats; `heads` is a multiple of `kv_heads`.
        key: floats, one for each source position.
        value: floats, one for each source position; `width` may differ from `size`.
        bias: added to the scaled products; broadcast against (..., heads, time, source).
        mask: which source positions each position attends to; broadcast like `bias`.  A position
            without any gets zeros, where JAX gives it the mean of the values.
        scale: factor of the products; 1 / sqrt(size) if None.
        is_causal: whether position i attends only to source positions 0 to i.
        query_seq_lengths: number of valid positions in each row of the batch; those after them get
            zeros.
        key_value_seq_lengths: number of valid source positions in each row of the batch.
        local_window_size: number of positions before and after its own to which a position attends;
            one number for both, None for all.
        return_residual: whether to return the logarithms of the sums of exponentials too.

    Returns:
        Floats of the dtype of `value`; the softmax is computed in 32 bits at least.  With
        `return_residual` a pair of them and of the logarithms, of the axes up to `heads`.

    Raises:
        ShapeError: if the sizes of query and key differ, or the heads of keys do not divide
            those of queries.
        DTypeError: unless the mask is of booleans.
        ArgumentError: for a window of other than one or two numbers.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1; Ainslie et al. 2023,
    arXiv:2305.13245 (fewer heads of keys).

    Example:
        >>> x = jnp.ones((2, 5, 4, 8))
        >>> dot_product_attention(x, x[:, :, :1], x[:, :, :1], is_causal=True).shape
        (2, 5, 4, 8)
    """
    for x, name in ((query, "as query"), (key, "as key"), (value, "as value")):
        rank("attention", x, 3, what=name)
    *batch, time, heads, size = query.shape
    source, kv_heads = key.shape[-3:-1]
    if key.shape[-1] != size or heads % kv_heads or value.shape[-3:-1] != (source, kv_heads):
        raise ShapeError(
            "attention needs keys as long as queries, a value for each, and heads that they divide",
            got=f"query {query.shape}, key {key.shape}, value {value.shape}",
            hint="the last axes are (time, heads, size), as x.reshape(*batch, time, heads, size)",
        )
    group_size = heads // kv_heads
    grouped = query.reshape(*batch, time, kv_heads, group_size, size)
    scores = jnp.einsum("...tkgh,...skh->...kgts", grouped, key)
    scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    scores = scores * (1 / math.sqrt(size) if scale is None else scale)
    if bias is not None:
        scores = scores + _by_group(jnp.asarray(bias), kv_heads, group_size)
    if mask is not None:
        mask = jnp.asarray(mask)
        element_type(
            "attention", mask, frozenset({BOOL}), "a mask of booleans, and floats as bias="
        )
        mask = _by_group(mask, kv_heads, group_size)
    if is_causal:
        causal = jnp.tri(time, source, dtype=bool)
        mask = causal if mask is None else mask & causal
    if local_window_size is not None:
        before, after = each_axis("local_window_size", local_window_size, 2, 0)
        distance = jnp.arange(source) - jnp.arange(time)[:, None]
        near = (distance >= -before) & (distance <= after)
        mask = near if mask is None else mask & near
    for lengths, axis, places in (
        (query_seq_lengths, -2, time),
        (key_value_seq_lengths, -1, source),
    ):
        if lengths is not None:
            valid = jnp.arange(places) < jnp.asarray(lengths)[..., None]  # (*batch, places)
            valid = jnp.expand_dims(valid, (-4, -3, -3 - axis))
            mask = valid if mask is None else mask & valid
    if mask is not None:
        mask = jnp.broadcast_to(mask, scores.shape)
    weights = softmax(scores, where=mask).astype(value.dtype)
    mean = jnp.einsum("...kgts,...skh->...tkgh", weights, value)
    mean = mean.reshape(*batch, time, heads, value.shape[-1])
    if not return_residual:
        return mean
    logs = logsumexp(scores, -1, where=mask).reshape(*batch, heads, time)
    return mean, jnp.swapaxes(logs, -1, -2)


def _by_group(x: Array, kv_heads: int, group_size: int) -> Array:
    """Splits the axis of heads, if there is one, into (kv_heads, group_size)."""
    if x.ndim < 3:
        return x
    *batch, heads, time, source = x.shape
    split = (1, 1) if heads == 1 else (kv_heads, group_size)
    return x.reshape(*batch, *split, time, source)


def rotary(
    x: Float[Array, "*batch time heads size"],
    positions: Integer[Array, "*times"] | None = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
) -> Float[Array, "*batch time heads size"]:
    """Rotates pairs of features by angles proportional to the position (rotary position embedding).

    The product of two such vectors depends on the difference of their positions only.

    Args:
        x: floats with an even number of features per head.
        positions: of shape (time,) or (*batch, time); 0, 1, ... if None.
        base: pair i of n is rotated by ``base ** (-i / n)`` radians from a position to the next.
        interleaved: whether a pair is two neighbours, as in the paper and in Llama's own weights,
            instead of an element of the first half and one of the second, as elsewhere.

    Raises:
        ShapeError: for an odd number of features, or fewer than three axes.

    Source: Su et al. 2021, arXiv:2104.09864.

    Example:
        >>> rotary(jnp.ones((3, 1, 2)))[1, 0].tolist()
        [-0.301..., 1.381...]
    """
    rank("rotary", x, 3)
    if x.shape[-1] % 2:
        raise ShapeError(
            "rotary needs an even number of features, which are turned in pairs",
            got=shown(x),
            hint="take heads of an even size",
        )
    half = x.shape[-1] // 2
    if positions is None:
        positions = jnp.arange(x.shape[-3])
    positions = array_of("rotary", positions)
    speeds = base ** (jnp.arange(half) / -half)
    angles = positions[..., None, None].astype(float) * speeds
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    if interleaved:
        pairs = x.reshape(*x.shape[:-1], half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


@module
class KVCache:
    """Keys and values of the positions seen so far, in memory for a fixed number of positions.

    Attributes:
        used: number of positions that are filled; the others hold zeros.

    Example:
        >>> cache = KVCache.init(8, 2, 4)
        >>> cache = cache.extend(jnp.ones((3, 2, 4)), jnp.ones((3, 2, 4)))
        >>> cache.key.shape, int(cache.used)
        ((8, 2, 4), 3)
    """

    key: Float[Array, "*batch room kv_heads size"]
    value: Float[Array, "*batch room kv_heads size"]
    used: Integer[Array, ""]

    @staticmethod
    def init(
        room: int, kv_heads: int, size: int, *, batch: tuple[int, ...] = (), dtype: Any = float
    ) -> KVCache:
        """Returns an empty cache.

        Args:
            room: number of positions that fit.
            kv_heads: number of heads of keys and values.
            size: number of features of a head.
            batch: sizes of leading axes; () for none.
            dtype: floating dtype of keys and values; float32 by default.

        Raises:
            DTypeError: for another dtype.
        """
        empty = jnp.zeros((*batch, room, kv_heads, size), dtype)
        element_type("KVCache", empty, FLOATS, "a floating dtype")
        return KVCache(empty, empty, jnp.zeros((), int))

    def extend(
        self,
        key: Float[Array, "*batch time kv_heads size"],
        value: Float[Array, "*batch time kv_heads size"],
    ) -> KVCache:
        """Returns the cache with more positions; the caller makes sure that they fit behind those
        used.

        Raises:
            ShapeError: for more places than there is room for at all.
        """
        time, room = key.shape[-3], self.key.shape[-3]
        if time > room:
            raise ShapeError(
                "more places than the cache has room for",
                got=f"{time} places, room for {room}",
                hint="make the cache with more room",
            )
        axis = self.key.ndim - 3
        put = lax.dynamic_update_slice_in_dim
        return KVCache(
            put(self.key, key.astype(self.key.dtype), self.used, axis),
            put(self.value, value.astype(self.value.dtype), self.used, axis),
            self.used + time,
        )


@module
class MultiheadAttention:
    """Attention with several heads, over the positions of x (self-attention) or of a context.

    Attributes:
        heads, kv_heads: number of heads of queries, and of keys and values.
        rotary_base: `base` of `rotary`; None for attention without positions.
        interleaved: as of `rotary`.

    Source: Vaswani et al. 2017, arXiv:1706.03762.

    Example:
        >>> layer = MultiheadAttention.init(random.key(0), 16, 4, kv_heads=2, rotary_base=10000.0)
        >>> x = jnp.ones((2, 5, 16))
        >>> layer(x, is_causal=True).shape
        (2, 5, 16)
        >>> cache = layer.cache(8, batch=(2,))
        >>> y, cache = layer.step(x[:, :4], cache)
        >>> y, cache = layer.step(x[:, 4:], cache)
        >>> int(cache.used)
        5
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = static()
    kv_heads: int = static()
    rotary_base: float | None = static(default=None)
    interleaved: bool = static(default=False)

    @staticmethod
    def init(
        key: KeyLike,
        features: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        size: int | None = None,
        use_bias: bool = False,
        rotary_base: float | None = None,
        interleaved: bool = False,
        dtype: Any = float,
    ) -> MultiheadAttention:
        """Returns random projections.

        Args:
            key: a key, from which the random weights are drawn.
            features: number of features of the input and of the output.
            heads: number of heads of queries.
            kv_heads: number of heads of keys and values, which divides `heads`; `heads` if None.
            size: number of features of a head; ``features // heads`` if None.
            use_bias: whether the four projections have biases.
            rotary_base: `base` of `rotary`, applied to queries and keys; None for no positions.
            interleaved: as of `rotary`.
            dtype: floating dtype of the parameters; float32 by default.

        Raises:
            ArgumentError: if `heads` does not divide `features`, `kv_heads` does not divide
                `heads`, or rotated heads have an odd size.
        """
        kv_heads = heads if kv_heads is None else kv_heads
        integer("attention", "heads", heads, 1)
        integer("attention", "kv_heads", kv_heads, 1)
        if heads % kv_heads or (size is None and features % heads):
            raise ArgumentError(
                "heads must divide features, and kv_heads heads",
                got=f"{features} features, {heads} heads, {kv_heads} kv_heads",
                hint="pass size= for heads of another size",
            )
        size = features // heads if size is None else size
        if rotary_base is not None and size % 2:
            raise ArgumentError(
                "rotary positions need heads of an even size",
                got=f"size={size}",
                hint="pass an even size=",
            )
        wide, narrow = heads * size, kv_heads * size
        sizes = [(features, wide), (features, narrow), (features, narrow), (wide, features)]
        query, keys, value, out = (
            Linear.init(k, n, m, use_bias=use_bias, dtype=dtype)
            for k, (n, m) in zip(random.split(key, 4), sizes, strict=True)
        )
        return MultiheadAttention(
            query, keys, value, out, heads, kv_heads, rotary_base, interleaved
        )

    def __call__(
        self,
        x: Float[Array, "*batch time features"],
        context: Float[Array, "*batch source others"] | None = None,
        *,
        mask: Bool[Array, "*#m #time #source"] | None = None,
        is_causal: bool = False,
        positions: Integer[Array, "*times"] | None = None,
    ) -> Float[Array, "*batch time features"]:
        """Returns the attention of every position of x to the positions of the context.

        Args:
            x: the input, from which queries are made.
            context: the input from which keys and values are made; x if None.
            mask: as of `dot_product_attention`.
            is_causal: as of `dot_product_attention`.
            positions: as of `rotary`, for queries and keys.
        """
        source = x if context is None else context
        query = self._split(self.query(x), self.heads)
        key, value = (self._split(f(source), self.kv_heads) for f in (self.key, self.value))
        query, key = self._turned(query, positions), self._turned(key, positions)
        return self._join(dot_product_attention(query, key, value, mask=mask, is_causal=is_causal))

    def cache(
        self, room: int, *, batch: tuple[int, ...] = (), dtype: DTypeLike | None = None
    ) -> KVCache:
        """Returns an empty cache for `step`.

        Args:
            room: number of positions that fit.
            batch: sizes of the leading axes of the inputs; () for none.
            dtype: floating dtype of the cache; that of the parameters if None.
        """
        size = self.key.weight.shape[-1] // self.kv_heads
        return KVCache.init(
            room, self.kv_heads, size, batch=batch, dtype=dtype or self.key.weight.dtype
        )

    def step(
        self, x: Float[Array, "*batch time features"], cache: KVCache
    ) -> tuple[Float[Array, "*batch time features"], KVCache]:
        """Returns the outputs of causal self-attention for positions after those in the cache, and
        the cache.
        """
        time, room = x.shape[-2], cache.key.shape[-3]
        places = cache.used + jnp.arange(time)
        query = self._turned(self._split(self.query(x), self.heads), places)
        key = self._turned(self._split(self.key(x), self.kv_heads), places)
        cache = cache.extend(key, self._split(self.value(x), self.kv_heads))
        visible = jnp.arange(room) <= places[:, None]
        keys, values = cache.key.astype(x.dtype), cache.value.astype(x.dtype)
        return self._join(dot_product_attention(query, keys, values, mask=visible)), cache

    def _split(self, x: Array, heads: int) -> Array:
        return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)

    def _turned(self, x: Array, positions: Array | None) -> Array:
        if self.rotary_base is None:
            return x
        return rotary(x, positions, base=self.rotary_base, interleaved=self.interleaved)

    def _join(self, x: Array) -> Array:
        return self.out(x.reshape(*x.shape[:-2], -1))
