"""Attention of onnxruntime's own domain, com.microsoft: with packed weights, caches and groups.

Source: the operators of onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import nn
from tfn import numpy as jnp
from tfn.onnx.ops.control import integers_or_none
from tfn.onnx.ops.known import Value, like, numbers
from tfn.onnx.ops.products import RotaryEmbedding as rotate
from tfn.onnx.ops.products import by_heads


def _attend(
    q: Value, k: Value, v: Value, scale: float | None, bias: Value, softcap: float = 0.0
) -> Value:
    """Attention of heads (batch, heads, time, features) with a bias that is added."""
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = jnp.repeat(k, group, 1), jnp.repeat(v, group, 1)
    products = (q @ k.swapaxes(-1, -2)) * like(q, scale or q.shape[-1] ** -0.5)
    if softcap:
        products = like(q, softcap) * jnp.tanh(products / like(q, softcap))
    y = nn.softmax(products if bias is None else products + bias, axis=-1) @ v
    return y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)


def _padding(mask: Value, rows: int, columns: int, filtered: float) -> Value:
    """A mask of keys as a bias: raw, or lengths, or ends and starts of the keys that count."""
    given = jnp.asarray(mask)
    keys = jnp.arange(columns)
    if given.ndim == 1:
        seen = keys < given[:rows, None]
        if given.size == 2 * rows:
            seen = seen & (keys >= given[rows:, None])
        seen = seen[:, None, None]
    else:
        seen = given.astype(bool).reshape(given.shape[0], *[1] * (4 - given.ndim), *given.shape[1:])
    return jnp.where(seen, np.float32(0), np.float32(filtered))


def _causal(rows: int, columns: int) -> Value:
    """A bias that hides later keys."""
    ahead = jnp.arange(columns) - jnp.arange(rows)[:, None] - (columns - rows)
    return jnp.where(ahead <= 0, np.float32(0), np.finfo(np.float32).min)


def _added(*biases: Value) -> Value:
    total = None
    for bias in biases:
        total = bias if total is None else total if bias is None else total + bias
    return total


def Attention(
    x: Value,
    w: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    extra: Value = None,
    past_length: Value = None,
    num_heads: int = 1,
    unidirectional: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    scale: float | None = None,
    mask_filter_value: float = -10000.0,
    outputs: int = 1,
) -> Value:
    """Attention of an array to itself, by one matrix for queries, keys and values."""
    rows = jnp.asarray(x) @ jnp.asarray(w)
    rows = rows if bias is None else rows + bias
    sizes = qkv_hidden_sizes or [rows.shape[-1] // 3] * 3
    q, k, v = (
        by_heads(part, num_heads) for part in jnp.split(rows, list(np.cumsum(sizes)[:2]), axis=-1)
    )
    if past is not None:
        k, v = (jnp.concatenate([p, n], 2) for p, n in zip(jnp.asarray(past), (k, v)))
    columns = k.shape[2]
    hidden = None if mask is None else _padding(mask, len(q), columns, mask_filter_value)
    later = _causal(q.shape[2], columns) if unidirectional else None
    y = _attend(q, k, v, scale, _added(hidden, extra, later))
    return (y, jnp.stack([k, v])) if outputs > 1 else y


def MultiHeadAttention(
    query: Value,
    keys: Value = None,
    values: Value = None,
    bias: Value = None,
    mask: Value = None,
    extra: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    num_heads: int = 1,
    scale: float | None = None,
    unidirectional: int = 0,
    mask_filter_value: float = -10000.0,
    outputs: int = 1,
) -> Value:
    """Attention of queries to keys, which may be packed with them, or split into heads."""
    query = jnp.asarray(query)
    if keys is None:  # (batch, time, heads, 3, features)
        q, k, v = (query[:, :, :, i].swapaxes(1, 2) for i in range(3))
    elif values is None:  # keys and values are packed
        pairs = jnp.asarray(keys)
        q, k, v = by_heads(query, num_heads), *(pairs[:, :, :, i].swapaxes(1, 2) for i in range(2))
    else:
        parts = [query, jnp.asarray(keys), jnp.asarray(values)]
        if bias is not None:
            ends = np.cumsum([parts[0].shape[-1], parts[0].shape[-1]])
            pieces = jnp.split(jnp.asarray(bias), list(ends))
            parts = [p + b if p.ndim == 3 else p for p, b in zip(parts, pieces)]
        q, k, v = (p if p.ndim == 4 else by_heads(p, num_heads) for p in parts)
    if past_key is not None:
        k = jnp.concatenate([jnp.asarray(past_key), k], 2)
        v = jnp.concatenate([jnp.asarray(past_value), v], 2)
    columns = k.shape[2]
    hidden = None if mask is None else _padding(mask, len(q), columns, mask_filter_value)
    later = _causal(q.shape[2], columns) if unidirectional else None
    y = _attend(q, k, v, scale, _added(hidden, extra, later))
    return (y, k, v)[:outputs] if outputs > 1 else y


def GroupQueryAttention(
    query: Value,
    keys: Value,
    values: Value,
    past_key: Value,
    past_value: Value,
    last: Value,
    total: Value,
    cos: Value = None,
    sin: Value = None,
    positions: Value = None,
    extra: Value = None,
    num_heads: int = 1,
    kv_num_heads: int = 1,
    scale: float | None = None,
    softcap: float = 0.0,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    outputs: int = 1,
) -> Value:
    """Attention with a cache, of which each row of the batch has filled a part; `last` says the
    place of the last key of each row."""
    query = jnp.asarray(query)
    if keys is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        ends = [num_heads * size, (num_heads + kv_num_heads) * size]
        query, keys, values = jnp.split(query, ends, axis=-1)
    counts = (num_heads, kv_num_heads, kv_num_heads)
    q, k, v = (by_heads(jnp.asarray(x), n) for x, n in zip((query, keys, values), counts))
    time, held = q.shape[2], 0 if past_key is None else past_key.shape[2]
    room = _room(total, held)
    filled = jnp.asarray(last).reshape(-1).astype("int32") + 1
    begins = jnp.maximum(filled - time, 0) if held else jnp.zeros_like(filled)
    places = begins[:, None] + jnp.arange(time)
    if do_rotary:
        angles = places if positions is None else jnp.asarray(positions)
        options = {"interleaved": rotary_interleaved, "rotary_embedding_dim": 2 * cos.shape[-1]}
        q, k = (rotate(x, cos, sin, angles, **options) for x in (q, k))
    k, v = (_filled(p, new, begins, room) for p, new in ((past_key, k), (past_value, v)))
    ahead = jnp.arange(room) - places[:, None, :, None]
    seen = ahead <= 0
    if local_window_size > 0:
        seen = seen & (ahead > -local_window_size)
    bias = jnp.where(seen, like(q, 0), like(q, -np.inf))
    y = _attend(q, k, v, scale or None, _added(bias, extra), softcap)
    return (y, k, v)[:outputs] if outputs > 1 else y


def _room(total: Value, held: int) -> int:
    """The keys of a cache after a call: it grows where it is full."""
    known = integers_or_none(total) if held else int(numbers(total, "keys").reshape(-1)[0])
    return held if known is None else max(held, known)


def _filled(past: Value, new: Value, begins: Value, room: int) -> Value:
    """A cache of `room` keys with new ones at the place where each row begins."""
    shape = (*new.shape[:2], room, new.shape[-1])
    old = jnp.zeros(shape, new.dtype)
    if past is not None and past.shape[2]:
        old = old.at[:, :, : past.shape[2]].set(jnp.asarray(past)[:, :, :room])
    place = jnp.arange(room) - begins[:, None]
    held = jnp.clip(place, 0, new.shape[2] - 1)
    moved = jnp.take_along_axis(new, held[:, None, :, None], 2)
    return jnp.where((place == held)[:, None, :, None], moved, old)


def RotaryEmbedding(
    x: Value,
    positions: Value,
    cos: Value,
    sin: Value,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    scale: float = 1.0,
) -> Value:
    """Pairs of features turned by angles of their positions, or of the first one."""
    x, places = jnp.asarray(x), jnp.asarray(positions)
    if places.ndim == 1:
        places = places.reshape(-1, 1) + jnp.arange(x.shape[-2])
        places = jnp.broadcast_to(places, (len(x), x.shape[-2]))
    size = rotary_embedding_dim or 2 * cos.shape[-1]
    heads = num_heads or (x.shape[-1] // size if x.ndim == 3 else 0)
    return rotate(x, cos, sin, places, interleaved, heads, size)


OPS: dict[str, Callable[..., Any]] = {
    "Attention": Attention,
    "MultiHeadAttention": MultiHeadAttention,
    "GroupQueryAttention": GroupQueryAttention,
    "RotaryEmbedding": RotaryEmbedding,
}
