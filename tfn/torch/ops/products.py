"""Products of matrices, attention, distances, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

import numpy as np

from tfn import lax, nn, random, vjp
from tfn import numpy as jnp
from tfn.torch.ops.known import Value, axes_of, cast, dtype_of, widened


def addmm(c: Value, a: Value, b: Value, beta: Value = 1, alpha: Value = 1) -> Value:
    """A product of matrices plus a matrix, both scaled."""
    y = a @ b
    y = y if alpha == 1 else y * cast(alpha, y.dtype)
    return y if beta == 0 else y + (c if beta == 1 else c * cast(beta, y.dtype))


def linear(x: Value, weight: Value, bias: Value = None) -> Value:
    """Features times a matrix of (outputs, inputs), plus a bias."""
    y = x @ weight.T
    return y if bias is None else y + bias


def einsum(equation: str, operands: Sequence[Value], path: Any = None) -> Value:
    """A product of arrays by Einstein's notation."""
    return jnp.einsum(equation.replace(" ", ""), *operands)


def attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    random_key: Any = None,
) -> Value:
    """Scaled dot-product attention; axes are (..., heads, time, size)."""
    if dropout_p:
        return _attention_with_dropout(
            query, key, value, attn_mask, dropout_p, is_causal, scale, random_key()
        )
    return _attention(query, key, value, attn_mask, is_causal, scale)[0]


def _attention(
    q: Value, k: Value, v: Value, mask: Value, is_causal: bool, scale: float | None
) -> tuple[Value, Value]:
    """The result, and logarithms of the sums of exponentials: (..., heads, time)."""
    flat = q.ndim == 2
    q, k, v = ((x[None] if flat else x).swapaxes(-3, -2) for x in (q, k, v))
    given = {} if mask is None else {"mask" if mask.dtype == bool else "bias": mask}
    y, logs = nn.dot_product_attention(
        q, k, v, scale=scale, is_causal=is_causal, return_residual=True, **given
    )
    y, logs = y.swapaxes(-3, -2), logs.swapaxes(-1, -2)
    return (y[0], logs[0]) if flat else (y, logs)


def _attention_with_dropout(
    q: Value, k: Value, v: Value, mask: Value, rate: float, causal: bool, scale: Any, key: Any
) -> Value:
    scores = q @ k.swapaxes(-1, -2) * cast(q.shape[-1] ** -0.5 if scale is None else scale, q.dtype)
    seen = jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool) if causal else None
    if mask is not None and mask.dtype == bool:
        seen = mask if seen is None else seen & mask
    elif mask is not None:
        scores = scores + mask
    seen = None if seen is None else jnp.broadcast_to(seen, scores.shape)
    weights = nn.softmax(scores, where=seen)
    kept = random.bernoulli(key, 1 - rate, weights.shape)
    return jnp.where(kept, weights / cast(1 - rate, q.dtype), cast(0, q.dtype)) @ v


def flash_attention(
    q: Value,
    k: Value,
    v: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Value = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """Attention as PyTorch's kernel for processors computes it, with its logarithms."""
    return _attention(q, k, v, attn_mask, is_causal, scale)


def flash_attention_backward(
    grad: Value,
    q: Value,
    k: Value,
    v: Value,
    y: Value,
    logs: Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Value = None,
    scale: float | None = None,
) -> tuple[Value, ...]:
    """The derivatives of `flash_attention` by queries, keys and values."""
    run = lambda q, k, v: _attention(q, k, v, attn_mask, is_causal, scale)[0]
    return tuple(vjp(run, q, k, v)[1](grad))


def cdist(a: Value, b: Value, p: float, mode: int | None = None) -> Value:
    """Distances of all rows of one array from all of another."""
    return vector_norm(a[..., :, None, :] - b[..., None, :, :], p, -1)


def vector_norm(
    x: Value, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """The p-norm over axes, whose derivative at 0 is 0."""
    size = jnp.abs(widened(x if dtype is None else cast(x, dtype_of(dtype))))
    axes = axes_of(dim, x.ndim)
    if ord == 0:
        return (size != 0).sum(axes, keepdims=keepdim).astype(size.dtype)
    if abs(ord) == inf:
        start = {} if size.size else {"initial": 0}
        return (size.max if ord > 0 else size.min)(axes, keepdims=keepdim, **start)
    if ord == 1:
        return size.sum(axes, keepdims=keepdim)
    zero, one = size == 0, cast(1, size.dtype)
    powers = jnp.where(zero, one, size) ** ord
    powers = jnp.where(zero, cast(0 if ord > 0 else inf, size.dtype), powers)
    sums = powers.sum(axes, keepdims=keepdim)
    safe = jnp.where(sums == 0, one, sums)
    root = jnp.sqrt(safe) if ord == 2 else safe ** (1 / ord)
    return jnp.where(sums == 0, cast(0, size.dtype), root)


def pdist(x: Value, p: float = 2.0) -> Value:
    """Distances of each row from all after it."""
    first, second = np.triu_indices(x.shape[0], 1)
    return vector_norm(x[first] - x[second], p, -1)


def _pdist_backward(grad: Value, x: Value, p: float, y: Value) -> Value:
    return vjp(lambda x: pdist(x, p), x)[1](grad)[0]


def _cdist_backward(grad: Value, a: Value, b: Value, p: float, y: Value) -> Value:
    return vjp(lambda a: cdist(a, b, p), a)[1](grad)[0]


def _fourier(x: Value, y: Value, dims: Sequence[int], normalization: int, unit: bool) -> Value:
    """A transform in PyTorch's scale: 0 is none, 1 the root of the size, 2 the size.

    Args:
        y: a transform of `x` over `dims`; `unit` if it was divided by the size already.
    """
    size = prod(x.shape[d] for d in dims)
    power = (0.0, -0.5, -1.0)[normalization] + (1.0 if unit else 0.0)
    return y if power == 0 else y * cast(size**power, y.real.dtype)


def fft_r2c(x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """The Fourier transform of real numbers."""
    y = (jnp.fft.rfftn if onesided else jnp.fft.fftn)(x, axes=tuple(dim))
    return _fourier(x, y, dim, normalization, False)


def fft_c2c(x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """The Fourier transform of complex numbers, or the inverse one."""
    y = (jnp.fft.fftn if forward else jnp.fft.ifftn)(x, axes=tuple(dim))
    return _fourier(x, y, dim, normalization, not forward)


def fft_c2r(x: Value, dim: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    """The inverse Fourier transform of half of a spectrum, whose other half mirrors it."""
    sizes = [x.shape[d] for d in dim[:-1]] + [last_dim_size]
    y = jnp.fft.irfftn(x, sizes, axes=tuple(dim))
    return _fourier(y, y, dim, normalization, True)


def _solve_triangular(
    a: Value, b: Value, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    return lax.linalg.triangular_solve(
        a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular
    )


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "mm": jnp.matmul, "bmm": jnp.matmul, "matmul": jnp.matmul, "addmm": addmm, "baddbmm": addmm,
    "addbmm": lambda c, a, b, **scales: addmm(
        c, jnp.moveaxis(a, 0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[-1]), **scales),
    "dist": lambda a, b, p=2: vector_norm(a - b, p),
    "dot": jnp.dot, "mv": jnp.matmul, "linear": linear, "einsum": einsum,
    "scaled_dot_product_attention": attention,
    "_scaled_dot_product_flash_attention_for_cpu": flash_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": flash_attention_backward,
    "_cdist_forward": cdist, "_cdist_backward": _cdist_backward, "_pdist_forward": pdist,
    "_pdist_backward": _pdist_backward, "linalg_vector_norm": vector_norm, "_fft_r2c": fft_r2c,
    "_fft_c2c": fft_c2c, "_fft_c2r": fft_c2r, "linalg_solve_triangular": _solve_triangular,
}
# fmt: on
