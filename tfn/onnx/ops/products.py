"""Products of matrices, attention, and values of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tfn import jit, lax, nn
from tfn import numpy as jnp
from tfn.onnx.ops.elementwise import _cast
from tfn.onnx.ops.known import Value, known, library, like
from tfn.onnx.ops.windows import Conv, around, layout
from tfn.onnx.schema import DTYPES

OF_CODES = "Conv of codes"
"""The operation into which convolutions of dequantized arrays are made when a file is loaded."""


def MatMul(a: Value, b: Value) -> Value:
    """A product of matrices."""
    return library(a, b).matmul(a, b)


def Gemm(
    a: Value,
    b: Value,
    c: Value = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    **old: Any,
) -> Value:
    """A product of matrices, scaled, plus a matrix."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    y = (a.T if transA else a) @ (b.T if transB else b)
    y = y if alpha == 1 else y * like(y, alpha)
    return y if c is None else y + (c if beta == 1 else c * like(y, beta))


def Einsum(*values: Value, equation: str) -> Value:
    """A product of arrays by Einstein's notation."""
    return jnp.einsum(equation.replace(" ", ""), *map(jnp.asarray, values))


def Det(x: Value) -> Value:
    """Determinants."""
    return jnp.linalg.det(jnp.asarray(x))


def along(value: Value, rank: int, axis: int) -> Value:
    """A scale or zero point so that it broadcasts along one axis."""
    shape = [-1 if i == axis % rank else 1 for i in range(rank)]
    return value.reshape(shape) if value.ndim == 1 else value


def _blocked(value: Value, x: Value, axis: int, block: int) -> Value:
    """A scale for each block of elements, repeated for each element."""
    return jnp.repeat(jnp.asarray(value), block, axis % x.ndim, total_repeat_length=x.shape[axis])


def _of_axis(value: Value, x: Value, axis: int, block: int) -> Value:
    return _blocked(value, x, axis, block) if block else along(value, x.ndim, axis)


def QuantizeLinear(
    x: Value,
    scale: Value,
    zero: Value = None,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Value:
    """Values by a scale, rounded, moved by a zero point."""
    dtype = np.dtype(zero.dtype) if zero is not None else DTYPES[output_dtype or 2]
    wide = "float32" if x.dtype.itemsize < 4 or x.dtype.kind == "i" else x.dtype
    x = jnp.asarray(x)
    y = x.astype(wide) / _of_axis(scale, x, axis, block_size).astype(wide)
    offset = None if zero is None else _of_axis(zero, x, axis, block_size)
    return rounded(y, offset, dtype, bool(saturate))


def rounded(y: Value, zero: Value, dtype: np.dtype[Any], saturate: bool = True) -> Value:
    """Numbers rounded to the nearest, moved by the zero point, within the range of a dtype."""
    if dtype.name.startswith("float"):
        return _cast(y if zero is None else y + zero.astype(y.dtype), dtype, saturate)
    info = jnp.iinfo(dtype)
    y = jnp.round(y)
    y = y if zero is None else y + zero.astype(y.dtype)
    return jnp.clip(y, float(info.min), float(info.max)).astype("int32").astype(dtype)


def DequantizeLinear(
    x: Value,
    scale: Value,
    zero: Value = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """Values of few bits less their zero point, times a scale."""
    x = jnp.asarray(x)
    dtype = DTYPES[output_dtype] if output_dtype else scale.dtype
    wide = x.astype("int32" if "int" in x.dtype.name else "float32")
    if zero is not None:
        wide = wide - _of_axis(zero, x, axis, block_size).astype(wide.dtype)
    factor = _of_axis(scale, x, axis, block_size).astype("float32")
    return (wide.astype("float32" if dtype.itemsize < 4 else dtype) * factor).astype(dtype)


def DynamicQuantizeLinear(x: Value) -> Value:
    """Values of 8 bits with the scale and zero point of their range."""
    x = lax.optimization_barrier(jnp.asarray(x))  # which three passes read
    low, high = jnp.minimum(x.min(), 0), jnp.maximum(x.max(), 0)
    scale = jnp.where(high == low, like(x, 1), (high - low) / like(x, 255))
    zero = jnp.clip(jnp.round(-low / scale), 0, 255).astype("uint8")
    y = jnp.clip(jnp.round(x / scale) + zero.astype(x.dtype), 0, 255).astype("uint8")
    return y, scale, zero


def _is_zero(zero: Value) -> bool:
    return zero is None or (known(zero) and not np.any(zero))


def _centred(x: Value, zero: Value, axis: int) -> Value:
    """Integers of 8 bits less their zero point, as 16-bit ones, of which units multiply pairs."""
    wide = jnp.asarray(x).astype("int16")
    if _is_zero(zero):
        return wide
    zero = jnp.asarray(zero).astype("int16")
    return wide - (along(zero, wide.ndim, axis) if zero.ndim == 1 else zero)


def MatMulInteger(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """A product of matrices of 8-bit integers, in 32 bits."""
    centred = _centred(a, a_zero, -2), _centred(b, b_zero, -1)
    return jnp.matmul(*centred, preferred_element_type="int32")


def QLinearMatMul(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Value:
    """A product of quantized matrices, quantized."""
    sums = MatMulInteger(a, b, a_zero, b_zero).astype("float32")
    scale = along(a_scale, a.ndim, -2) * along(b_scale, b.ndim, -1).astype("float32")
    return rounded(sums * (scale / y_scale.astype("float32")), y_zero, np.dtype(y_zero.dtype))


def ConvInteger(
    x: Value,
    w: Value,
    x_zero: Value = None,
    w_zero: Value = None,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Value:
    """A convolution of 8-bit integers, in 32 bits."""
    rank = x.ndim - 2
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    sides = around(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    zeros = (None if _is_zero(zero) else zero for zero in (x_zero, w_zero))
    form = strides, tuple(sides), None, dilations, layout(rank), group, 1, None, "int32"
    return _conv_of_bytes(x, w, *zeros, form)


@partial(jit, static_argnums=4)
def _conv_of_bytes(x: Value, w: Value, x_zero: Value, w_zero: Value, form: Any) -> Value:
    """The convolution of a program that widens captured weights, and knows what these may be."""
    return lax.conv_general_dilated(_centred(x, x_zero, 1), _centred(w, w_zero, 0), *form)


def QLinearConv(*values: Value, **options: Any) -> Value:
    """A convolution of quantized arrays, quantized."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = values
    sums = ConvInteger(x, w, x_zero, w_zero, **options)
    if bias and bias[0] is not None:
        sums = sums + along(jnp.asarray(bias[0]), sums.ndim, 1)
    scale = along(x_scale * w_scale, sums.ndim, 1)
    return rounded(sums.astype("float32") * (scale / y_scale), y_zero, np.dtype(y_zero.dtype))


def conv_of_codes(*values: Value, axis: int = 1, **options: Any) -> Value:
    """A convolution of dequantized arrays: of their codes, if these are 8-bit integers, scaled."""
    x, x_scale, x_zero, w, w_scale, w_zero, *bias = values
    types = {x.dtype.name, w.dtype.name}
    if x_scale.size > 1 or (w_scale.size > 1 and axis) or types - {"int8", "uint8"}:
        dequantized = DequantizeLinear(w, w_scale, w_zero, axis)
        return Conv(DequantizeLinear(x, x_scale, x_zero), dequantized, *bias, **options)
    sums = ConvInteger(x, w, x_zero, w_zero, **options)
    y = sums.astype(x_scale.dtype) * along(x_scale * w_scale, sums.ndim, 1)
    return y + along(bias[0], sums.ndim, 1) if bias and bias[0] is not None else y


def Attention(
    q: Value,
    k: Value,
    v: Value,
    mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    lengths: Value = None,
    is_causal: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> Value:
    """Scaled dot-product attention with masks, a cache and groups of heads."""
    q, k, v = map(jnp.asarray, (q, k, v))
    flat = q.ndim == 3
    if flat:
        q, k, v = (
            by_heads(x, n) for x, n in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))
        )
    if past_key is not None:
        k = jnp.concatenate([jnp.asarray(past_key), k], 2)
        v = jnp.concatenate([jnp.asarray(past_value), v], 2)
    present = k, v
    past = 0 if past_key is None else past_key.shape[2]
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = jnp.repeat(k, group, 1), jnp.repeat(v, group, 1)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    root = like(q, np.sqrt(factor))
    products = (q * root) @ (k * root).swapaxes(-1, -2)
    if softcap:  # before the mask, whose -inf it would make finite
        products = like(q, softcap) * jnp.tanh(products / like(q, softcap))
    rows, columns = products.shape[-2:]
    keys = jnp.arange(columns)
    first = jnp.asarray(past)
    if past_key is None and lengths is not None:
        first = (jnp.asarray(lengths) - rows).reshape(-1, 1, 1, 1)
    ahead = keys - jnp.arange(rows)[:, None] - first  # how far a key lies before its query
    seen = jnp.ones((rows, columns), bool)
    seen = seen & (ahead <= 0) if is_causal else seen
    seen = seen & (ahead >= -left_window_size) if left_window_size >= 0 else seen
    seen = seen & (ahead <= right_window_size) if right_window_size >= 0 else seen
    if lengths is not None:
        seen = seen & (keys < jnp.asarray(lengths).reshape(-1, 1, 1, 1))
    bias = jnp.where(seen, like(q, 0), like(q, -np.inf))
    if mask is not None:
        given = jnp.asarray(mask)
        if given.dtype == bool:
            given = jnp.where(given, like(q, 0), like(q, -np.inf))
        short = columns - given.shape[-1]
        around = [(0, 0)] * (given.ndim - 1) + [(0, max(short, 0))]
        bias = bias + jnp.pad(given.astype(q.dtype), around, constant_values=-np.inf)
    masked = products + bias
    wide = masked.astype(DTYPES[softmax_precision]) if softmax_precision else masked
    blind = jnp.isneginf(bias.max(-1, keepdims=True))  # no key may be seen: the result is 0
    chances = jnp.where(blind, like(wide, 0), nn.softmax(wide, axis=-1))
    y = chances.astype(q.dtype) @ v
    if flat:
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    shown = (products, products, masked, chances)[qk_matmul_output_mode].astype(q.dtype)
    return (y, *present, shown)[:outputs] if outputs > 1 else y


def LinearAttention(
    q: Value,
    k: Value,
    v: Value,
    past: Value = None,
    decay: Value = None,
    beta: Value = None,
    chunk_size: int = 0,
    kv_num_heads: int = 1,
    q_num_heads: int = 1,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Value:
    """Attention whose state is a matrix for each head, step by step."""
    dtype = q.dtype
    heads = [(q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads)]
    q, k, v = (by_heads(jnp.asarray(x).astype("float32"), n) for x, n in heads)
    state_dtype = dtype if past is None else past.dtype
    state = jnp.zeros((*k.shape[:2], k.shape[-1], v.shape[-1]), "float32")
    state = state if past is None else jnp.asarray(past).astype("float32")
    factor = scale or k.shape[-1] ** -0.5
    rows = [q, k, v]
    for gate in (decay, beta):
        wide = None if gate is None else jnp.asarray(gate).astype("float32")
        count = kv_num_heads if gate is None or gate.shape[-1] % kv_num_heads == 0 else 1
        rows.append(jnp.zeros((*k.shape[:3], 1)) if wide is None else by_heads(wide, count))

    def step(state: Value, row: Any) -> Any:
        q, k, v, decay, beta = row
        if "gated" in update_rule:
            state = state * jnp.exp(decay)[..., None]
        if "delta" in update_rule:
            v = beta * (v - jnp.einsum("bhdm,bhd->bhm", state, k))
        state = state + k[..., None] * v[..., None, :]
        read = jnp.repeat(state, q.shape[1] // k.shape[1], 1)
        return state, factor * jnp.einsum("bhd,bhdm->bhm", q, read)

    last, made = lax.scan(step, state, tuple(jnp.moveaxis(r, 2, 0) for r in rows))
    y = jnp.moveaxis(made, 0, 1).reshape(made.shape[1], made.shape[0], -1)
    return y.astype(dtype), last.astype(state_dtype)


def CausalConvWithState(
    x: Value, w: Value, bias: Value = None, past: Value = None, activation: str = "none"
) -> Value:
    """A depthwise convolution of the past, and the end of it for the next call."""
    x = jnp.asarray(x)
    before = w.shape[2] - 1
    start = jnp.zeros((*x.shape[:2], before), x.dtype) if past is None else jnp.asarray(past)
    wide = jnp.concatenate([start, x], 2)
    y = Conv(wide, w, bias, group=x.shape[1]).astype(x.dtype)
    if activation != "none":
        y = nn.silu(y.astype("float32")).astype(x.dtype)
    return y, wide[:, :, wide.shape[2] - before :]


def by_heads(x: Value, count: int | None) -> Value:
    """Features of each head along an axis of their own: (batch, heads, time, features)."""
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def RotaryEmbedding(
    x: Value,
    cos: Value,
    sin: Value,
    positions: Value = None,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """Pairs of features turned by angles of their positions."""
    x = jnp.asarray(x)
    flat = x.ndim == 3
    heads = x.reshape(*x.shape[:2], num_heads, -1) if flat else x.swapaxes(1, 2)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    if positions is not None:
        cos, sin = jnp.asarray(cos)[positions], jnp.asarray(sin)[positions]
    cos, sin = jnp.asarray(cos)[..., None, :], jnp.asarray(sin)[..., None, :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        parts = jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(turned.shape)
    else:
        a, b = jnp.split(turned, 2, -1)
        parts = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
    y = jnp.concatenate([parts, rest], -1)
    return y.reshape(x.shape) if flat else y.swapaxes(1, 2)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "MatMul": MatMul, "Gemm": Gemm, "Einsum": Einsum, "Det": Det, "QuantizeLinear": QuantizeLinear,
    "DequantizeLinear": DequantizeLinear, "DynamicQuantizeLinear": DynamicQuantizeLinear,
    "MatMulInteger": MatMulInteger, "QLinearMatMul": QLinearMatMul, "ConvInteger": ConvInteger,
    "QLinearConv": QLinearConv, "Attention": Attention, "RotaryEmbedding": RotaryEmbedding,
    "LinearAttention": LinearAttention, "CausalConvWithState": CausalConvWithState,
    OF_CODES: conv_of_codes,
}
# fmt: on
