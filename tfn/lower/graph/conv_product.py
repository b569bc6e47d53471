"""Convolutions as products: im2col, for dtypes of which a matrix unit multiplies pairs.

    conv x w   ->   dot (windows of x as [pixels, taps]) (w as [taps, features])

A copy of all windows is larger than the image, by as much as they overlap; the unit reads pairs of
neighbours along the sums, which the copy has.  Floats are faster without: see `conv_padding`.
"""

from __future__ import annotations

from tfn.lower.graph.conv_padding import pad_explicitly
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def as_product(u: UOp) -> UOp:
    """A convolution without groups or dilated input as a contraction over windows of its image."""
    dense = pad_explicitly(u)
    # Pairs of channels stay together: one of zeros makes their number even.
    fill = dense.src[1].shape[-2] % 2
    x = build.pad(dense.src[0], (0,) * u.ndim, (0,) * (u.ndim - 1) + (fill,))
    w = build.pad(dense.src[1], (0,) * u.ndim, (0,) * (u.ndim - 2) + (fill, 0))
    arg: Conv = dense.arg
    *window, channels, features = w.shape
    n, taps = len(window), build.count(tuple(window)) * channels
    if taps > channels or max(arg.strides) > 1:
        x = UOp(Op.GBARRIER, (x,))
        for axis in range(n):
            step, dilation = arg.strides[axis], arg.dilation_w[axis]
            x = _windows(x, 1 + 2 * axis, window[axis], u.shape[1 + axis], step, dilation)
        x = build.permute(x, (0, *range(2, 2 * n + 1, 2), *range(1, 2 * n, 2), 2 * n + 1))
    a = build.reshape(x, (build.count(u.shape[:-1]), taps))
    product = build.dot(a, build.reshape(w, (taps, features)), ((1,), (0,)), ((), ()), arg.dtype)
    return build.reshape(product, u.shape)


def _windows(x: UOp, axis: int, n: int, count: int, step: int, dilation: int) -> UOp:
    """Elements i * dilation + p * step of an axis as the axes [i, p], n by count of them::

    x[H]   ->   repeated x, as rows of H + dilation elements: row i begins at i * dilation
    """
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    pitch = size + dilation
    repeats = -(-n * pitch // size)
    x = build.expand(build.reshape(x, (*before, 1, size, *after)), (*before, repeats, size, *after))
    x = build.reshape(x, (*before, repeats * size, *after))
    x = build.shrink(x, (0,) * x.ndim, (*before, n * pitch, *after))
    x = build.reshape(x, (*before, n, pitch, *after))
    stop = (*before, n, (count - 1) * step + 1, *after)
    return build.shrink(x, (0,) * x.ndim, stop, (*(1,) * (axis + 1), step, *(1,) * len(after)))
