"""Convolutions, pools and normalizations, and the derivatives that PyTorch has as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import lax, vjp
from tfn import numpy as jnp
from tfn.torch.ops.known import Value, cast, each, is_integral, widened

Pairs = list[tuple[int, int]]


def _layout(rank: int) -> tuple[str, str, str]:
    space = "DHW"[3 - rank :]
    return f"NC{space}", f"OI{space}", f"NC{space}"


def convolution(
    x: Value,
    weight: Value,
    bias: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """A convolution, or the transpose of one, channels first."""
    rank = weight.ndim - 2
    single = x.ndim == rank + 1
    x = x[None] if single else x
    stride, padding, dilation = (each(v, rank) for v in (stride, padding, dilation))
    y = (_transposed if transposed else _convolved)(
        x, weight, stride, padding, dilation, each(output_padding, rank), groups
    )
    y = y if bias is None else y + bias.reshape(-1, *[1] * rank)
    return y[0] if single else y


def _convolved(
    x: Value, w: Value, stride: Any, padding: Any, dilation: Any, extra: Any, groups: int
) -> Value:
    return lax.conv_general_dilated(
        x,
        w,
        stride,
        [(p, p) for p in padding],
        rhs_dilation=dilation,
        feature_group_count=groups,
        dimension_numbers=_layout(w.ndim - 2),
    )


def _transposed(
    x: Value, w: Value, stride: Any, padding: Any, dilation: Any, extra: Any, groups: int
) -> Value:
    rank = w.ndim - 2
    c, own = w.shape[:2]
    window = jnp.flip(w, tuple(range(2, 2 + rank)))
    window = window.reshape(groups, c // groups, own, *w.shape[2:]).swapaxes(1, 2)
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilation)]
    return lax.conv_general_dilated(
        x,
        window.reshape(groups * own, c // groups, *w.shape[2:]),
        (1,) * rank,
        [(r - p, r - p + e) for r, p, e in zip(reach, padding, extra)],
        lhs_dilation=stride,
        rhs_dilation=dilation,
        feature_group_count=groups,
        dimension_numbers=_layout(rank),
    )


def convolution_backward(
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Value:
    """The derivatives of `convolution` by its operand, its weight and its bias."""
    options = stride, padding, dilation, transposed, output_padding, groups
    dx = dw = db = None
    if output_mask[0]:
        dx = vjp(lambda x: convolution(x, weight, None, *options), x)[1](grad)[0]
    if output_mask[1]:
        dw = vjp(lambda w: convolution(x, w, None, *options), weight)[1](grad)[0]
    if output_mask[2]:
        channel = grad.ndim - weight.ndim + 1
        db = grad.sum(tuple(a for a in range(grad.ndim) if a != channel))
    return dx, dw, db


def _padding_of(
    sizes: Sequence[int], window: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Pairs:
    """The padding at both ends of each axis; behind it with what a size that is rounded up adds."""
    pairs = []
    for n, k, s, p, d in zip(sizes, window, stride, padding, dilation):
        reach = (k - 1) * d + 1
        steps = (-(-(n + 2 * p - reach) // s) if ceil else (n + 2 * p - reach) // s) + 1
        if ceil and (steps - 1) * s >= n + p:  # no window begins behind the array
            steps -= 1
        pairs.append((p, (steps - 1) * s + reach - n - p))
    return pairs


def _pool(x: Value, start: Any, function: Any, window: Any, stride: Any, pairs: Pairs) -> Value:
    return lax.reduce_window(
        x, start, function, (1, 1, *window), (1, 1, *stride), [(0, 0), (0, 0), *pairs]
    )


def _batched(rank: int, op: Callable[..., Value]) -> Callable[..., Value]:
    """An operation of a batch, also for one element of it."""

    def either(x: Value, *args: Any, **options: Any) -> Value:
        if x.ndim == rank + 2:
            return op(x, *args, **options)
        y = op(x[None], *args, **options)
        return tuple(v[0] for v in y) if isinstance(y, tuple) else y[0]

    return either


def _avg_pool(rank: int) -> Callable[..., Value]:
    def op(
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        window = each(kernel_size, rank)
        stride = each(stride, rank) if isinstance(stride, int) or len(stride) else window
        padding = each(padding, rank)
        pairs = _padding_of(x.shape[2:], window, stride, padding, (1,) * rank, ceil_mode)
        wide = widened(x)
        cut = [(low, max(high, 0)) for low, high in pairs]
        sums = _pool(wide, np.zeros((), wide.dtype), lax.add, window, stride, cut)
        if divisor_override is not None:
            return sums / cast(divisor_override, sums.dtype)
        ones = jnp.ones((1, 1, *x.shape[2:]), wide.dtype)
        if count_include_pad:  # but what a rounded-up size adds is never counted
            whole = [(0, 0), (0, 0), *((p, p) for p in padding)]
            ones = jnp.pad(ones, whole, constant_values=1)
            cut = [(0, max(high - p, 0)) for (_, high), p in zip(pairs, padding)]
        counts = _pool(ones, np.zeros((), wide.dtype), lax.add, window, stride, cut)
        return sums / counts

    return _batched(rank, op)


def _backward(forward: Callable[..., Value]) -> Callable[..., Value]:
    """The derivative of an operation by its first operand."""
    return lambda grad, x, *options: vjp(lambda x: forward(x, *options), x)[1](grad)[0]


def _max_pool(rank: int) -> Callable[..., Value]:
    def op(
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Value, Value]:
        window = each(kernel_size, rank)
        stride = each(stride, rank) if isinstance(stride, int) or len(stride) else window
        padding, dilation = each(padding, rank), each(dilation, rank)
        space = x.shape[2:]
        pairs = _padding_of(space, window, stride, padding, dilation, ceil_mode)
        around = [(0, 0), (0, 0), *((low, max(high, 0)) for low, high in pairs)]
        low = jnp.iinfo(x.dtype).min if is_integral(x) else -np.inf
        wide = jnp.pad(x, around, constant_values=low)
        flat = np.arange(prod(space), dtype=np.int32).reshape(space)
        places = np.pad(flat, around[2:], constant_values=-1)
        steps = [
            (n + a + b - (k - 1) * d - 1) // s + 1
            for n, (a, b), k, d, s in zip(space, pairs, window, dilation, stride)
        ]
        best = where = None
        for at in np.ndindex(*window):
            tap = tuple(
                slice(i * d, i * d + (m - 1) * s + 1, s)
                for i, d, m, s in zip(at, dilation, steps, stride)
            )
            value, place = wide[(slice(None), slice(None), *tap)], jnp.asarray(places[tap])
            if best is None or where is None:
                best, where = value, jnp.broadcast_to(place, value.shape)
                continue
            # Nothing but padding was seen so far, the value is larger, or it is not a number.
            better = ((value > best) | (value != value) | (where < 0)) & (place >= 0)
            best, where = jnp.where(better, value, best), jnp.where(better, place, where)
        assert best is not None and where is not None
        return best, where.astype("int64")

    return _batched(rank, op)


def _max_pool_backward(rank: int) -> Callable[..., Value]:
    """The derivative of a pool: each place of the array gets that of the windows that chose it."""

    def op(
        grad: Value,
        x: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Value,
    ) -> Value:
        lead, size = x.shape[:-rank], prod(x.shape[-rank:])
        rows = prod(lead)
        first = (np.arange(rows) * size).astype(np.int64)[:, None]
        places = (indices.reshape(rows, -1) + first).reshape(-1)
        return jnp.zeros(x.size, grad.dtype).at[places].add(grad.reshape(-1)).reshape(x.shape)

    return op


def _regions(size: int, result: int) -> list[tuple[int, int]]:
    """The beginning and end of each region that an adaptive pool has along an axis."""
    return [(i * size // result, -(-(i + 1) * size // result)) for i in range(result)]


def _adaptive_avg_pool(rank: int) -> Callable[..., Value]:
    def op(x: Value, output_size: Sequence[int]) -> Value:
        y = widened(x)
        for i, result in enumerate(each(output_size, rank)):
            axis = x.ndim - rank + i
            size = x.shape[axis]
            if result == 1:
                y = y.mean(axis, keepdims=True)
                continue
            if result and size % result == 0:
                y = y.reshape(*y.shape[:axis], result, size // result, *y.shape[axis + 1 :])
                y = y.mean(axis + 1)
                continue
            parts = [
                y[(*[slice(None)] * axis, slice(*region))].mean(axis, keepdims=True)
                for region in _regions(size, result)
            ]
            y = jnp.concatenate(parts, axis) if parts else y[(*[slice(None)] * axis, slice(0))]
        return y

    return op


def _adaptive_backward(rank: int) -> Callable[..., Value]:
    pool = _backward(_adaptive_avg_pool(rank))
    return lambda grad, x: pool(grad, x, grad.shape[-rank:])


def adaptive_max_pool(x: Value, output_size: Sequence[int]) -> tuple[Value, Value]:
    """The largest element of each region, and its place."""
    rank = len(output_size)
    space = x.shape[-rank:]
    flat = np.arange(prod(space)).reshape(space)
    regions = [_regions(n, m) for n, m in zip(space, output_size)]
    values, places = [], []
    lead = x.shape[:-rank]
    for at in np.ndindex(*output_size):
        part = tuple(slice(*regions[axis][i]) for axis, i in enumerate(at))
        rows = x[(..., *part)].reshape(*lead, -1)
        first = rows.argmax(-1)
        values.append(jnp.take_along_axis(rows, first[..., None], -1)[..., 0])
        places.append(jnp.asarray(flat[part].reshape(-1))[first])
    if not values:
        return jnp.zeros((*lead, *output_size), x.dtype), jnp.zeros((*lead, *output_size), "int64")
    shape = (*lead, *output_size)
    return jnp.stack(values, -1).reshape(shape), jnp.stack(places, -1).reshape(shape)


def _column(values: Value, rank: int) -> Value:
    """Values of each channel, in a shape that fits an array of these many axes."""
    return values.reshape(1, -1, *[1] * (rank - 2))


def _scaled(y: Value, weight: Value, bias: Value) -> Value:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _moments(x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Means, and variances about them."""
    centre = x.mean(axes, keepdims=True)
    apart = x - centre
    return centre, (apart * apart).mean(axes, keepdims=True)


def _batch_norm_of(
    x: Value, weight: Value, bias: Value, centre: Value, spread: Value, eps: float
) -> Value:
    scale = lax.rsqrt(spread + cast(eps, spread.dtype))
    scale = scale if weight is None else scale * widened(weight)
    shift = -centre * scale if bias is None else widened(bias) - centre * scale
    return (widened(x) * _column(scale, x.ndim) + _column(shift, x.ndim)).astype(x.dtype)


def batch_norm_inference(
    x: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> Value:
    """Batch normalization by running statistics."""
    centre, spread = widened(running_mean), widened(running_var)
    nothing = jnp.zeros(0, centre.dtype)
    return _batch_norm_of(x, weight, bias, centre, spread, eps), nothing, nothing


def batch_norm(
    x: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> Value:
    """Batch normalization, the statistics of the batch, and the new running statistics."""
    if not training:
        y, nothing, _ = batch_norm_inference(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        return y, nothing, nothing, running_mean, running_var
    axes = (0, *range(2, x.ndim))
    centre, spread = (v.reshape(-1) for v in _moments(widened(x), axes))
    count = x.size // max(x.shape[1], 1)
    # Of the batch about its mean: with one pass over x its digits would be lost.
    scale = lax.rsqrt(spread + cast(eps, spread.dtype))
    y = (widened(x) - _column(centre, x.ndim)) * _column(scale, x.ndim)
    y = _scaled(y, *(None if v is None else _column(widened(v), x.ndim) for v in (weight, bias)))
    new = []
    for old, now in ((running_mean, centre), (running_var, spread * (count / max(count - 1, 1)))):
        kept = None if old is None else old * (1 - momentum)
        new.append(None if kept is None else (kept + now * momentum).astype(old.dtype))
    return y.astype(x.dtype), centre, scale, *new


def batch_norm_no_stats(
    x: Value, weight: Value, bias: Value, training: bool, momentum: float, eps: float
) -> Value:
    """Batch normalization by the statistics of the batch alone."""
    return batch_norm(x, weight, bias, None, None, True, momentum, eps)[:3]


def batch_norm_with_update(
    x: Value, weight: Value, bias: Value, mean: Value, var: Value, momentum: float, eps: float
) -> Value:
    """Batch normalization in training, with a reserve that is of no use here."""
    y, centre, scale, new_mean, new_var = batch_norm(
        x, weight, bias, mean, var, True, momentum, eps
    )
    return y, centre, scale, jnp.zeros(0, "uint8"), new_mean, new_var


def layer_norm(
    x: Value, normalized_shape: Sequence[int], weight: Value, bias: Value, eps: float
) -> Value:
    """Normalization over the last axes, with the means and inverse deviations."""
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    wide = widened(x)
    centre, spread = _moments(wide, axes)
    scale = lax.rsqrt(spread + cast(eps, spread.dtype))
    y = _scaled((wide - centre) * scale, weight, bias)
    return y.astype(x.dtype), centre, scale


def layer_norm_backward(
    grad: Value,
    x: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value,
    bias: Value,
    output_mask: Sequence[bool],
) -> Value:
    """The derivatives of `layer_norm` by its operand, weight and bias."""
    split = x.ndim - len(normalized_shape)
    inner, outer = tuple(range(split, x.ndim)), tuple(range(split))
    dy = widened(grad)
    normal = (widened(x) - mean) * rstd
    g = dy if weight is None else dy * weight
    dx = _through_moments(g, normal, rstd, inner)
    dw = (dy * normal).sum(outer) if output_mask[1] and weight is not None else None
    db = dy.sum(outer) if output_mask[2] and bias is not None else None
    return dx if output_mask[0] else None, dw, db


def _through_moments(g: Value, normal: Value, rstd: Value, axes: tuple[int, ...]) -> Value:
    """The derivative by what was normalized to mean 0 and variance 1 over axes."""
    part = (g * normal).mean(axes, keepdims=True)
    return rstd * (g - g.mean(axes, keepdims=True) - normal * part)


def _grouped(x: Value, groups: int) -> Value:
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, -1)


def group_norm(
    x: Value, weight: Value, bias: Value, n: int, c: int, size: int, group: int, eps: float
) -> Value:
    """Normalization of groups of channels, with the means and inverse deviations."""
    wide = _grouped(widened(x), group)
    centre, spread = _moments(wide, (2, 3))
    scale = lax.rsqrt(spread + cast(eps, spread.dtype))
    y = ((wide - centre) * scale).reshape(x.shape)
    y = _scaled(y, *(None if v is None else _column(v, x.ndim) for v in (weight, bias)))
    return y.astype(x.dtype), centre.reshape(n, group), scale.reshape(n, group)


def group_norm_backward(
    grad: Value,
    x: Value,
    mean: Value,
    rstd: Value,
    weight: Value,
    n: int,
    c: int,
    size: int,
    group: int,
    output_mask: Sequence[bool],
) -> Value:
    """The derivatives of `group_norm` by its operand, weight and bias."""
    dy = widened(grad)
    centre, scale = (v.reshape(n, group, 1, 1) for v in (mean, rstd))
    normal = (_grouped(widened(x), group) - centre) * scale
    g = dy if weight is None else dy * _column(weight, x.ndim)
    dx = _through_moments(_grouped(g, group), normal, scale, (2, 3)).reshape(x.shape)
    over = (0, *range(2, x.ndim))
    dw = (dy * normal.reshape(x.shape)).sum(over) if output_mask[1] else None
    db = dy.sum(over) if output_mask[2] else None
    return dx if output_mask[0] else None, dw, db


def rms_norm(
    x: Value, normalized_shape: Sequence[int], weight: Value = None, eps: float | None = None
) -> Value:
    """Values divided by the root of the mean of their squares over the last axes."""
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    wide = widened(x)
    least = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    scale = lax.rsqrt((wide * wide).mean(axes, keepdims=True) + cast(least, wide.dtype))
    return _scaled(wide * scale, weight, None).astype(x.dtype)


# fmt: off
_POOLS = {"avg_pool1d": _avg_pool(1), "avg_pool2d": _avg_pool(2), "avg_pool3d": _avg_pool(3),
          "_adaptive_avg_pool2d": _adaptive_avg_pool(2),
          "_adaptive_avg_pool3d": _adaptive_avg_pool(3)}
OPS: dict[str, Callable[..., Any]] = {
    "convolution": convolution, "convolution_backward": convolution_backward, **_POOLS,
    **{f"avg_pool{n}d_backward": _backward(_POOLS[f"avg_pool{n}d"]) for n in (2, 3)},
    **{f"_adaptive_avg_pool{n}d_backward": _adaptive_backward(n) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool(n) for n in (2, 3)},
    **{f"max_pool{n}d_with_indices_backward": _max_pool_backward(n) for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": adaptive_max_pool for n in (2, 3)},
    **{f"adaptive_max_pool{n}d_backward": (
        lambda grad, x, indices, rank=n: _max_pool_backward(rank)(
            grad, x, 1, 1, 0, 1, False, indices)) for n in (2, 3)},
    "_native_batch_norm_legit_no_training": batch_norm_inference,
    "_native_batch_norm_legit_functional": batch_norm,
    "_native_batch_norm_legit": lambda *args: batch_norm(*args)[:3],
    "_native_batch_norm_legit.no_stats": batch_norm_no_stats,
    "_batch_norm_with_update_functional": batch_norm_with_update,
    "native_batch_norm": lambda *args: batch_norm(*args)[:3],
    "native_layer_norm": layer_norm, "native_layer_norm_backward": layer_norm_backward,
    "native_group_norm": group_norm, "native_group_norm_backward": group_norm_backward,
    "rms_norm": rms_norm,
}
# fmt: on
