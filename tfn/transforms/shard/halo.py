"""Windows of a divided axis: a device gets the rows that it lacks from the parts around its own.

A convolution of 3 rows of f32[16,8], in parts of f32[4,8], needs::

    the last row of the part before  ++  the own part  ++  the first row of the part after

Slices, paddings and concatenations are windows, too.  Parts are of size ceil(n / parts): after the
last row of all there may be padding, which no window has.

Source: Xu et al. 2021, "GSPMD", section 4.4 (halo exchange), https://arxiv.org/abs/2105.04663
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tfn._support.frozen import frozen
from tfn.trace.argument import Conv, Pad, Shrink
from tfn.trace.build import (
    broadcast_in_dim,
    broadcast_to,
    cast,
    concat,
    conv,
    flip,
    gather,
    index_dtype,
    iota,
    moveaxis,
    pad,
    reshape,
    shrink,
    where,
    zeros,
)
from tfn.trace.sharding import Axis, Exchange
from tfn.trace.uop import UOp
from tfn.transforms.shard.collective_rules import collective


class Place(NamedTuple):
    """The number of a device among the parts of an axis.

    Attributes:
        number: of its part.
        parts: how many there are.
        axis, axis_index: the axis of the mesh along which they lie, the major one of several, and
            the index of the device along it.
    """

    number: UOp
    parts: int
    axis: Axis
    axis_index: UOp

    def row(self, size: int, first: int = 0, step: int | None = None) -> UOp:
        """The numbers of so many rows: those of its part, or from ``first + number * step`` on."""
        step = size if step is None else step
        dtype = index_dtype(self.parts * max(abs(step), size) + abs(first))
        begin = cast(self.number, dtype) * step + first
        return iota((size,), 0, dtype) + broadcast_to(begin, (size,))


def part_size(n: int, parts: int) -> int:
    """The number of rows of a part, padding included."""
    return -(-n // parts)


def along(row: UOp, x: UOp, axis: int) -> UOp:
    """A vector along an axis of a value, in the shape of the value."""
    return broadcast_in_dim(row, x.shape, (axis,))


def masked(x: UOp, axis: int, n: int, value: UOp, at: Place) -> UOp:
    """A part with a value in the place of padding: of all parts together n rows are none."""
    size = x.shape[axis]
    if size * at.parts == n:
        return x
    return where(along(at.row(size) < n, x, axis), x, broadcast_to(value, x.shape))


@frozen
class Window:
    """The rows of an axis that devices need; rows that are not there are zeros.

    Attributes:
        first, step, length: ``[first + i * step, first + i * step + length)`` for part i.
        size: the number of rows of the axis.
    """

    first: int
    step: int
    length: int
    size: int

    def slabs(self, parts: int) -> list[tuple[int, int, int]]:
        """Numbers of parts from the own one to others, and the rows that a device gets of them."""
        part = part_size(self.size, parts)
        spans = []
        for i in range(parts):
            begin = self.first + i * self.step
            end = min(begin + self.length, self.size)
            if max(begin, 0) < end:
                spans.append((max(begin, 0) - i * part, end - i * part))
        if not spans:
            return [(0, 0, 0)]
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        hops = range(low // part, (high - 1) // part + 1)
        return [(hop, max(low - hop * part, 0), min(high - hop * part, part)) for hop in hops]

    def received(self, parts: int) -> int:
        """The number of rows that a device receives."""
        return sum(high - low for hop, low, high in self.slabs(parts) if hop)


def windowed(x: UOp, axis: int, window: Window, at: Place) -> UOp:
    """The rows of a window, from the part of this device and those around it."""
    part = x.shape[axis]
    x = moveaxis(masked(x, axis, window.size, zeros((), x.dtype), at), axis, 0)
    slabs, rest = window.slabs(at.parts), x.shape[1:]
    none = (0,) * len(rest)
    rows = []
    for hop, low, high in slabs:
        slab = shrink(x, (low, *none), (high, *rest))
        if hop:
            pairs = tuple((i + hop, i) for i in range(at.parts) if 0 <= i + hop < at.parts)
            slab = collective(Exchange.PERMUTE, slab, at.axis_index, at.axis, pairs=pairs)
        rows.append(slab)
    have = concat(rows, 0)
    begins = slabs[0][0] * part + slabs[0][1]  # where that is, from the first row of the own part
    starts = [window.first + i * (window.step - part) - begins for i in range(at.parts)]
    low = max(-min(starts), 0)
    high = max(max(starts) + window.length - have.shape[0], 0)
    have = pad(have, (low, *none), (high, *none))
    begin = starts[0] + low
    if window.step == part:
        out = shrink(have, (begin, *none), (begin + window.length, *rest))
    else:
        start = at.number * (window.step - part) + begin
        out = gather(have, reshape(start, (1,)), (window.length, *rest))
    return moveaxis(out, 0, axis)


# Which rows an op needs.


def window_of_shrink(u: UOp, axis: int, parts: int) -> Window:
    """The rows that a slice of an axis needs."""
    arg: Shrink = u.arg
    part, step = part_size(u.shape[axis], parts), arg.step[axis]
    return Window(arg.start[axis], step * part, step * (part - 1) + 1, u.src[0].shape[axis])


def window_of_pad(u: UOp, axis: int, parts: int) -> Window | None:
    """The rows that a device pads; None if devices begin with different phases of the interior."""
    arg: Pad = u.arg
    part, every, low = part_size(u.shape[axis], parts), arg.interior[axis] + 1, arg.low[axis]
    if part % every:
        return None
    length = -(-(part - low % every) // every)
    return Window(-(low // every), part // every, length, u.src[0].shape[axis])


def window_of_concat(u: UOp, operand: int, parts: int) -> Window:
    """The rows of an operand of a concatenation."""
    part, sizes = part_size(u.shape[u.arg], parts), [s.shape[u.arg] for s in u.src]
    return Window(-sum(sizes[:operand]), part, part, sizes[operand])


def window_of_conv(u: UOp, space: int, over_result: bool, parts: int) -> Window | None:
    """The rows that a convolution needs, of the axis of a number among those of space.

    Row r of the operand meets position a of the result and b of the window where
    ``r * dilation_x = a * stride + b * dilation_w - low``; one of a and b is divided.  None if
    devices begin with different phases of the dilation.
    """
    arg: Conv = u.arg
    every, low = arg.dilation_x[space], arg.padding[space][0]
    part, mine, _, reach = _reach(u, space, over_result, parts)
    if mine * part % every:
        return None
    length = max((reach - 1 - low % every) // every + 1, 0)
    return Window(-(low // every), mine * part // every, length, u.src[0].shape[1 + space])


def _reach(u: UOp, space: int, over_result: bool, parts: int) -> tuple[int, int, int, int]:
    """Size of a part, strides of what is divided and of the other, positions of both together."""
    arg: Conv = u.arg
    sizes = u.shape[1 + space], u.src[1].shape[space]
    strides = arg.strides[space], arg.dilation_w[space]
    (n, other), (mine, its) = (pair if over_result else pair[::-1] for pair in (sizes, strides))
    part = part_size(n, parts)
    return part, mine, its, mine * (part - 1) + its * (other - 1) + 1


# The ops on parts.


def shrink_across(u: UOp, x: UOp, axis: int, at: Place) -> UOp:
    """A slice of a divided axis."""
    x = windowed(x, axis, window_of_shrink(u, axis, at.parts), at)
    step = tuple(u.arg.step[axis] if i == axis else 1 for i in range(x.ndim))
    return shrink(x, (0,) * x.ndim, x.shape, step)


def pad_across(u: UOp, x: UOp, axis: int, value: UOp, at: Place) -> UOp:
    """A padding of a divided axis."""
    window = window_of_pad(u, axis, at.parts)
    assert window is not None
    every, part = u.arg.interior[axis] + 1, part_size(u.shape[axis], at.parts)
    phase = u.arg.low[axis] % every
    x = windowed(x, axis, window, at)
    row = at.row(window.length, window.first, window.step)
    inside = (row >= 0) & (row < window.size)
    x = where(along(inside, x, axis), x, broadcast_to(value, x.shape))
    after = part - phase - (window.length - 1) * every - 1
    low, high, interior = (
        tuple(n if i == axis else 0 for i in range(x.ndim)) for n in (phase, after, every - 1)
    )
    return pad(x, low, high, interior, value)


def concat_across(u: UOp, parts: Sequence[UOp], at: Place) -> UOp:
    """A concatenation along a divided axis: a row is that of one of the operands."""
    out: UOp | None = None
    for i, x in enumerate(parts):
        window = window_of_concat(u, i, at.parts)
        rows = windowed(x, u.arg, window, at)
        if out is not None:
            is_before = at.row(window.length) < -window.first
            rows = where(along(is_before, rows, u.arg), out, rows)
        out = rows
    assert out is not None
    return out


def flip_across(x: UOp, axis: int, at: Place) -> UOp:
    """A divided axis counted backwards: the part of the other end, backwards."""
    pairs = tuple((i, at.parts - 1 - i) for i in range(at.parts))
    return flip(collective(Exchange.PERMUTE, x, at.axis_index, at.axis, pairs=pairs), (axis,))


def conv_across(u: UOp, x: UOp, w: UOp, places: Sequence[tuple[int, bool, Place]]) -> UOp:
    """A convolution of which axes of space of the result, or of the window, are divided."""
    arg: Conv = u.arg
    padding = list(arg.padding)
    for space, over_result, at in places:
        window = window_of_conv(u, space, over_result, at.parts)
        assert window is not None
        if not over_result:
            w = masked(w, space, u.src[1].shape[space], zeros((), w.dtype), at)
        x = windowed(x, 1 + space, window, at)
        every, reach = arg.dilation_x[space], _reach(u, space, over_result, at.parts)[-1]
        phase = arg.padding[space][0] % every
        padding[space] = phase, reach - phase - (window.length - 1) * every - 1
    return conv(x, w, replace(arg, padding=tuple(padding)))
