"""Operations of onnxruntime's own domain, com.microsoft: fused and quantized parts of networks.

What has the name and the meaning of an operation of the standard is not here: it is that one.

Source: the operators of onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import nn
from tfn import numpy as jnp
from tfn.onnx.ops import fused_attention
from tfn.onnx.ops.elementwise import OPS as ELEMENTWISE
from tfn.onnx.ops.elementwise import HardSigmoid, LeakyRelu, Softmax
from tfn.onnx.ops.known import Value, like
from tfn.onnx.ops.movement import Concat
from tfn.onnx.ops.products import (
    DequantizeLinear,
    DynamicQuantizeLinear,
    Gemm,
    MatMulInteger,
    QuantizeLinear,
    along,
    rounded,
)
from tfn.onnx.ops.windows import AveragePool, Conv, LayerNormalization, RMSNormalization

# Normalization and activations.


def SkipLayerNormalization(
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value = None,
    bias: Value = None,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Value:
    """`LayerNormalization` of a sum, which is the fourth result."""
    total = _sum(x, skip, bias)
    y, mean, scaled = LayerNormalization(total, gamma, beta, epsilon=epsilon, outputs=3)
    return (y, mean, scaled, total)[:outputs] if outputs > 1 else y


def _sum(x: Value, skip: Value, bias: Value) -> Value:
    total = jnp.asarray(x) + jnp.asarray(skip)
    return total if bias is None else total + bias


def SimplifiedLayerNormalization(
    x: Value, scale: Value, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """The last axes by the root of their mean square."""
    return RMSNormalization(x, scale, axis, epsilon, stash_type)


def SkipSimplifiedLayerNormalization(
    x: Value,
    skip: Value,
    gamma: Value,
    bias: Value = None,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Value:
    """`SimplifiedLayerNormalization` of a sum, which is the fourth result."""
    total = _sum(x, skip, bias)
    y = RMSNormalization(total, gamma, epsilon=epsilon)
    return (y, None, None, total)[:outputs] if outputs > 1 else y


def EmbedLayerNormalization(
    ids: Value,
    segments: Value,
    words: Value,
    places: Value,
    kinds: Value,
    gamma: Value,
    beta: Value,
    mask: Value = None,
    positions: Value = None,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    outputs: int = 1,
) -> Value:
    """Sums of embeddings of words, positions and segments, normalized; lengths by the mask."""
    ids = jnp.asarray(ids)
    where = jnp.arange(ids.shape[1]) if positions is None else jnp.asarray(positions)
    total = jnp.asarray(words)[ids] + jnp.asarray(places)[where]
    if kinds is not None and segments is not None:
        total = total + jnp.asarray(kinds)[jnp.asarray(segments)]
    y = LayerNormalization(total, gamma, beta, epsilon=epsilon)
    none = jnp.zeros(len(ids), "int32")
    lengths = none if mask is None else jnp.asarray(mask).sum(1).astype("int32")
    return (y, lengths, total)[:outputs] if outputs > 1 else y


def BiasGelu(x: Value, bias: Value) -> Value:
    """Gauss's error linear unit of a sum."""
    return nn.gelu(jnp.asarray(x) + bias, approximate=False)


def Gelu(x: Value) -> Value:
    """Gauss's error linear unit."""
    return nn.gelu(jnp.asarray(x), approximate=False)


def FastGelu(x: Value, bias: Value = None) -> Value:
    """Gauss's error linear unit by a hyperbolic tangent."""
    return nn.gelu(jnp.asarray(x) if bias is None else jnp.asarray(x) + bias, approximate=True)


def QuickGelu(x: Value, alpha: float = 1.702) -> Value:
    """Values times the logistic function of them."""
    x = jnp.asarray(x)
    return x * nn.sigmoid(like(x, alpha) * x)


def _activated(y: Value, activation: str, options: Sequence[float]) -> Value:
    """An activation by its name, with its numbers in order."""
    if not activation:
        return y
    named: dict[str, Callable[..., Value]] = {
        "LeakyRelu": LeakyRelu,
        "HardSigmoid": HardSigmoid,
        "Clip": jnp.clip,
    }
    return named.get(activation, ELEMENTWISE[activation])(y, *options)


# Products.


def FusedMatMul(
    a: Value,
    b: Value,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Value:
    """A product of matrices, transposed or not, times a number."""
    a, b = (
        _turned(jnp.asarray(x), last, batch)
        for x, last, batch in ((a, transA, transBatchA), (b, transB, transBatchB))
    )
    return (a @ b) * like(a, alpha)


def _turned(x: Value, last: int, batch: int) -> Value:
    if batch:  # the first axis goes before the last one
        x = jnp.moveaxis(x, 0, -2)
    return x.swapaxes(-1, -2) if last and x.ndim > 1 else x


def FusedGemm(
    a: Value,
    b: Value,
    c: Value = None,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **options: Any,
) -> Value:
    """`Gemm`, then an activation."""
    given = (activation_alpha, activation_beta, activation_gamma)
    return _activated(Gemm(a, b, c, **options), activation, [n for n in given if n is not None])


def FusedConv(
    x: Value,
    w: Value,
    b: Value = None,
    z: Value = None,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **options: Any,
) -> Value:
    """`Conv`, a sum, then an activation."""
    y = Conv(x, w, b, **options)
    return _activated(y if z is None else y + z, activation, activation_params)


def MatMulNBits(
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value = None,
    group: Value = None,
    bias: Value = None,
    K: int = 0,
    N: int = 0,
    bits: int = 4,
    block_size: int = 32,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Value:
    """A product with a matrix of few bits, which has a scale and a zero point for each block."""
    a = jnp.asarray(a)
    blocks = -(-K // block_size)
    codes = _unpacked(b, bits).reshape(N, -1)[:, : blocks * block_size]
    codes = codes.reshape(N, blocks, block_size).astype(a.dtype)
    scale = jnp.asarray(scales).reshape(N, blocks, 1).astype(a.dtype)
    if zeros is None:
        zero: Value = like(a, 1 << bits - 1)
    elif zeros.dtype == np.uint8:
        rows = jnp.asarray(zeros).reshape(N, -1)
        zero = _unpacked(rows, bits)[:, :blocks, None].astype(a.dtype)
    else:
        zero = jnp.asarray(zeros).reshape(N, blocks, 1).astype(a.dtype)
    if group is None:
        weights = ((codes - zero) * scale).reshape(N, -1)[:, :K]
    else:
        of = jnp.asarray(group)
        zero = jnp.broadcast_to(zero, scale.shape)[:, of, 0]
        weights = (codes.reshape(N, -1)[:, :K] - zero) * scale[:, of, 0]
    y = a @ weights.T
    return y if bias is None else y + bias


def _unpacked(x: Value, bits: int) -> Value:
    """Numbers of few bits, the first in the lowest ones of a byte."""
    x = jnp.asarray(x)
    if bits == 8:
        return x
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (x[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*x.shape[:-1], -1)


def MatMulIntegerToFloat(
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value = None,
    b_zero: Value = None,
    bias: Value = None,
) -> Value:
    """A product of matrices of 8-bit integers, as floats."""
    sums = MatMulInteger(a, b, a_zero, b_zero)
    scale = jnp.asarray(a_scale) * along(jnp.asarray(b_scale), sums.ndim, -1)
    y = sums.astype(scale.dtype) * scale
    return y if bias is None else y + bias


def DynamicQuantizeMatMul(
    a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None
) -> Value:
    """A product with a matrix of 8-bit integers, for which the other one is quantized."""
    codes, scale, zero = DynamicQuantizeLinear(a)
    return MatMulIntegerToFloat(codes, b, scale, b_scale, zero, b_zero, bias)


def QGemm(
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    bias: Value = None,
    y_scale: Value = None,
    y_zero: Value = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Value:
    """A product of quantized matrices plus integers, quantized, or as floats without a scale."""
    a, b = jnp.asarray(a), jnp.asarray(b)
    sums = MatMulInteger(a.T if transA else a, b.T if transB else b, a_zero, b_zero)
    sums = sums if bias is None else sums + jnp.asarray(bias)
    factor, sums = np.float32(alpha) * a_scale * b_scale, sums.astype("float32")
    if y_scale is None:
        return sums * factor
    dtype = np.dtype("uint8" if y_zero is None else y_zero.dtype)
    return rounded(sums * (factor / y_scale), y_zero, dtype)


# Functions of quantized arrays, quantized.


def _scaled(x: Value, scale: Value, zero: Value) -> Value:
    return DequantizeLinear(x, scale, zero)


def _codes(y: Value, scale: Value, zero: Value = None) -> Value:
    """Values by a scale plus a zero point, rounded last: an odd zero point turns ties around."""
    zero = np.uint8(0) if zero is None else zero
    return rounded(y / scale + zero.astype("float32"), None, np.dtype(zero.dtype))


def _quantized(
    function: Callable[..., Value], codes: Callable[..., Value] = QuantizeLinear
) -> Callable[..., Value]:
    """The function of one quantized array: it, its scale and zero, those of the result."""

    def run(
        x: Value, scale: Value, zero: Value, y_scale: Value, y_zero: Value = None, **options: Any
    ) -> Value:
        return codes(function(_scaled(x, scale, zero), **options), y_scale, y_zero)

    return run


def _quantized_pair(function: Callable[..., Value]) -> Callable[..., Value]:
    """The function of two quantized arrays, each with its scale and zero point."""

    def run(*given: Value) -> Value:
        a, b, (scale, *zero) = given[:3], given[3:6], given[6:]
        return _codes(function(_scaled(*a), _scaled(*b)), scale, *zero)

    return run


def QLinearConcat(scale: Value, zero: Value, *given: Value, axis: int) -> Value:
    """Quantized arrays one after the other, each of which has a scale and a zero point."""
    parts = [_scaled(*given[i : i + 3]) for i in range(0, len(given), 3)]
    return QuantizeLinear(Concat(*parts, axis=axis), scale, zero)


def _channels_first(pool: Callable[..., Value]) -> Callable[..., Value]:
    """A pool of arrays whose channels may come last."""

    def run(x: Value, channels_last: int = 0, **options: Any) -> Value:
        if not channels_last:
            return pool(x, **options)
        return jnp.moveaxis(pool(jnp.moveaxis(x, -1, 1), **options), 1, -1)

    return run


def _mean_of_space(x: Value) -> Value:
    return x.mean(tuple(range(2, x.ndim)), keepdims=True)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    **fused_attention.OPS,
    "SkipLayerNormalization": SkipLayerNormalization,
    "SimplifiedLayerNormalization": SimplifiedLayerNormalization,
    "SkipSimplifiedLayerNormalization": SkipSimplifiedLayerNormalization,
    "EmbedLayerNormalization": EmbedLayerNormalization,
    "BiasGelu": BiasGelu, "Gelu": Gelu, "FastGelu": FastGelu, "QuickGelu": QuickGelu,
    "FusedMatMul": FusedMatMul, "FusedGemm": FusedGemm, "FusedConv": FusedConv,
    "MatMulNBits": MatMulNBits, "MatMulIntegerToFloat": MatMulIntegerToFloat, "QGemm": QGemm,
    "DynamicQuantizeMatMul": DynamicQuantizeMatMul,
    "QLinearAdd": _quantized_pair(jnp.add), "QLinearMul": _quantized_pair(jnp.multiply),
    "QLinearSigmoid": _quantized(nn.sigmoid), "QLinearLeakyRelu": _quantized(LeakyRelu),
    "QLinearSoftmax": _quantized(Softmax), "QLinearConcat": QLinearConcat,
    "QLinearAveragePool": _quantized(_channels_first(AveragePool), _codes),
    "QLinearGlobalAveragePool": _quantized(_channels_first(_mean_of_space)),
}
# fmt: on

IN_STANDARD: tuple[str, ...] = ("SimplifiedLayerNormalization",)
"""Operations that onnxruntime writes into the domain of the standard, which lacks them."""
