"""Convolutions of integers by windows of 3 x 3 with fewer products (Winograd), to the last bit.

Along each axis, two neighbouring results of four elements x and three weights w::

    4 factors    2 G w = (2 w0, w0 + w1 + w2, w0 - w1 + w2, 2 w2)
                 B x   = (x0 - x2, x1 + x2, x2 - x1, x1 - x3)
    2 results    A m   = (m0 + m1 + m2, m1 - m2 - m3),  m = 2 G w * B x,  are twice the sums

So 2 x 2 results take 16 products, which are 16 products of matrices, where they took 36.  In
integers nothing is rounded: twice the sums along two axes are divided by four in the end.  64
features of 56 x 56 by 64 channels took 1.6 ms as products of windows, and take 0.9 so; 256 of
14 x 14 by 256 took 1.5, and take 0.7.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016), 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfn.dtypes import INT32, int16
from tfn.lower.graph.conv_padding import pad_explicitly
from tfn.lower.index.intervals import bounds, limits
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp

MIN_CHANNELS = 16
"""Channels and features from which on it pays: 16 of 56 x 56 took 0.14 ms, and take 0.09."""

MIN_PIXELS = 128
"""Results from which on it pays also where weights are no constants, and change in each call: 512
features of 7 x 7 took 1.8 ms, and would take 3.4."""

Formula = Callable[..., Sequence[UOp]]


def fits(u: UOp) -> bool:
    """Whether a convolution without groups has windows of 3 x 3, and factors that fit in int16."""
    arg: Conv = u.arg
    x, w = u.src
    few = min(w.shape[-2:]) < MIN_CHANNELS or build.count(u.shape[:-1]) < MIN_PIXELS
    if few or w.shape[:-2] != (3, 3) or max(*arg.strides, *arg.dilation_w) > 1:
        return False
    most_x, most_w = (max(-low, high) for low, high in map(bounds, (x, w)))
    sums = 4 * most_x * 9 * most_w * w.shape[-2]
    return max(4 * most_x, 9 * most_w) <= limits(int16.dtype)[1] and sums <= limits(INT32)[1]


def as_products(u: UOp, product: Callable[[UOp], UOp]) -> UOp:
    """A convolution that `fits` as 16 products of matrices, a batch that `product` prepares."""
    x, w = (build.cast(s, int16.dtype) for s in pad_explicitly(u).src)
    batch, *space, features = u.shape
    tiles = [-(-size // 2) for size in space]
    # Zeros at the end make the last tiles whole.
    ends = [2 * count - size for count, size in zip(tiles, space, strict=True)]
    x = UOp(Op.GBARRIER, (build.pad(x, (0,) * 4, (0, *ends, 0)),))
    # Each step for weights by vectors along the features: at once 512 by 512 took 15 ms, not 2.
    w = UOp(Op.GBARRIER, (w,))
    for axis, count in enumerate(tiles):
        x = _along(x, 1 + 2 * axis, _factors, 4, 2, count)
        w = UOp(Op.GBARRIER, (_along(w, 2 * axis, _weights, 3),))
    a = build.reshape(x, (16, batch * build.count(tuple(tiles)), x.shape[-1]))
    b = build.reshape(w, (16, *w.shape[-2:]))
    y = product(build.dot(a, b, ((2,), (1,)), ((0,), (0,)), INT32))
    y = build.reshape(y, (4, 4, batch, *tiles, features))
    y = _along(_along(y, 0, _results, 4), 2, _results, 4)
    y = build.permute(build.reshape(y, (2, 2, batch, *tiles, features)), (2, 3, 0, 4, 1, 5))
    y = build.reshape(y, (batch, *(2 * count for count in tiles), features))
    return build.shrink(y, (0,) * 4, u.shape) >> 2


def _along(u: UOp, axis: int, formula: Formula, terms: int, step: int = 1, count: int = 1) -> UOp:
    """A formula of elements i, i + step, ... of an axis; its results on a new first axis."""
    start, stop, steps = [0] * u.ndim, list(u.shape), [1] * u.ndim
    parts, steps[axis] = list[UOp](), step
    for i in range(terms):
        start[axis], stop[axis] = i, i + (count - 1) * step + 1
        parts.append(build.shrink(u, tuple(start), tuple(stop), tuple(steps)))
    return build.concat([build.reshape(v, (1, *v.shape)) for v in formula(*parts)], 0)


def _weights(w0: UOp, w1: UOp, w2: UOp) -> Sequence[UOp]:
    return w0 + w0, w0 + w1 + w2, w0 - w1 + w2, w2 + w2


def _factors(x0: UOp, x1: UOp, x2: UOp, x3: UOp) -> Sequence[UOp]:
    return x0 - x2, x1 + x2, x2 - x1, x1 - x3


def _results(m0: UOp, m1: UOp, m2: UOp, m3: UOp) -> Sequence[UOp]:
    return m0 + m1 + m2, m1 - m2 - m3
