"""Rules of operations that move elements, and of those at computed places."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfn.dtypes import BOOL, INT64
from tfn.onnx.builder import Builder, Name, Rule, Term
from tfn.onnx.insides import Op, UOp, argument
from tfn.onnx.rules.elementwise import choice

END = (1 << 63) - 1
"""As ONNX writes the end of an axis."""


def reshape(b: Builder, x: Name, shape: Sequence[int]) -> Name:
    """An array in another shape."""
    zero = {"allowzero": 1} if 0 in shape else {}
    return b.add("Reshape", x, b.ints(shape), **zero)


def _reshape(b: Builder, u: UOp) -> Term:
    source = u.src[0]
    if b.term(source).shape == () and source.shape != ():  # one number, in whatever shape
        return b.term(source)
    return Term(reshape(b, b.full(source), u.arg), u.shape)


def _expand(b: Builder, u: UOp) -> Term:
    return b.term(u.src[0])


def _permute(b: Builder, u: UOp) -> Term:
    term = b.term(u.src[0])
    if term.shape == () or u.arg == tuple(range(len(u.arg))):
        return term
    if len(term.shape) != len(u.arg):
        return Term(transpose(b, b.full(u.src[0]), u.arg), u.shape)
    return Term(transpose(b, term.name, u.arg), tuple(term.shape[a] for a in u.arg))


def transpose(b: Builder, x: Name, axes: Sequence[int]) -> Name:
    """An array with its axes in another order."""
    return x if list(axes) == sorted(axes) else b.add("Transpose", x, perm=list(axes))


def _pad(b: Builder, u: UOp) -> Term:
    pad: argument.Pad = u.arg
    x, value = b.full(u.src[0]), b.full(u.src[1])
    x = dilate(b, x, u.src[0].shape, pad.interior, value)
    return Term(padded(b, x, pad.low, pad.high, value), u.shape)


def padded(b: Builder, x: Name, low: Sequence[int], high: Sequence[int], value: Name) -> Name:
    """An array with more elements, or fewer for negative numbers, at the ends of its axes."""
    if not any(low) and not any(high):
        return x
    return b.add("Pad", x, b.ints([*low, *high]), value)


def dilate(b: Builder, x: Name, shape: Sequence[int], between: Sequence[int], value: Name) -> Name:
    """Elements set apart: each becomes the first of a row, of which the rest is cut at the end."""
    axes = [a for a, n in enumerate(between) if n and shape[a] > 1]
    if not axes:
        return x
    apart: list[int] = []
    low: list[int] = []
    high: list[int] = []
    for a, n in enumerate(shape):
        apart += [n, 1] if a in axes else [n]
        low += [0, 0] if a in axes else [0]
        high += [0, between[a]] if a in axes else [0]
    wide = [n * (between[a] + 1) if a in axes else n for a, n in enumerate(shape)]
    x = padded(b, reshape(b, x, apart), low, high, value)
    ends = [-between[a] for a in axes]
    x = reshape(b, x, wide)
    return b.add("Slice", x, b.ints([0] * len(axes)), b.ints(ends), b.ints(axes))


def _shrink(b: Builder, u: UOp) -> Term:
    cut: argument.Shrink = u.arg
    shape = u.src[0].shape
    rows = [
        (a, start, END if stop == n else stop, step)
        for a, (n, start, stop, step) in enumerate(zip(shape, cut.start, cut.stop, cut.step))
        if (start, stop, step) != (0, n, 1)
    ]
    if b.term(u.src[0]).shape == ():
        return b.term(u.src[0])
    if not rows:
        return Term(b.full(u.src[0]), u.shape)
    axes, starts, stops, steps = (b.ints(part) for part in zip(*rows))
    rest = [axes] if all(row[3] == 1 for row in rows) else [axes, steps]
    return Term(b.add("Slice", b.full(u.src[0]), starts, stops, *rest), u.shape)


def _flip(b: Builder, u: UOp) -> Term:
    n = len(u.arg)
    ends, steps = b.ints([-END] * n), b.ints([-1] * n)
    x = b.full(u.src[0])
    return Term(b.add("Slice", x, b.ints([-1] * n), ends, b.ints(u.arg), steps), u.shape)


def _concat(b: Builder, u: UOp) -> Term:
    return Term(b.add("Concat", *(b.full(s) for s in u.src), axis=u.arg), u.shape)


# Windows at computed places.


def _starts(b: Builder, u: UOp) -> Name:
    """The start points as int64, as operations of ONNX take them."""
    name = b.full(u)
    return name if u.dtype == INT64 else b.cast(name, INT64)


def _window(b: Builder, sizes: Sequence[int]) -> Name:
    """The places of a window of these sizes, as an array (*sizes, k)."""
    parts = []
    for a, n in enumerate(sizes):
        line = reshape(b, _counted(b, n), [n if i == a else 1 for i in range(len(sizes))] + [1])
        parts.append(b.add("Expand", line, b.ints([*sizes, 1])))
    return b.add("Concat", *parts, axis=-1) if len(parts) > 1 else parts[0]


def _clamped(b: Builder, starts: Name, room: Sequence[int]) -> Name:
    return b.add("Min", b.add("Max", starts, b.number(0, INT64)), b.ints(room))


def _gather(b: Builder, u: UOp) -> Term:
    arg: argument.Gather = u.arg
    operand, indices = u.src
    k = indices.shape[-1]
    dims, points = operand.shape[arg.batch :], indices.shape[arg.batch : -1]
    sizes = arg.sizes[:k]
    x = b.full(operand)
    if k == 0:
        shape = [*indices.shape[: arg.batch], *[1] * len(points), *arg.sizes]
        return Term(b.add("Expand", reshape(b, x, shape), b.ints(u.shape)), u.shape)
    starts = _clamped(b, _starts(b, indices), [n - m for n, m in zip(dims, sizes)])
    if not points and not arg.batch:
        for axis, (n, size) in enumerate(zip(dims, sizes)):
            if n != size:
                x = b.add("Gather", x, _line(b, _element(b, starts, axis), size), axis=axis)
        return Term(x, u.shape)
    if all(n == 1 for n in sizes):
        if k == 1 and not arg.batch:
            found = b.add("Gather", x, reshape(b, starts, indices.shape[:-1]), axis=0)
        else:
            found = b.add("GatherND", x, starts, batch_dims=arg.batch)
        return Term(reshape(b, found, u.shape), u.shape)
    places = _places(b, starts, indices.shape, sizes)
    return Term(b.add("GatherND", x, places, batch_dims=arg.batch), u.shape)


def _places(b: Builder, starts: Name, shape: Sequence[int], sizes: Sequence[int]) -> Name:
    """The places of all elements of windows: (*batch, *points, *sizes, k)."""
    k = len(sizes)
    if all(n == 1 for n in sizes):
        return reshape(b, starts, [*shape[:-1], *sizes, k])
    starts = reshape(b, starts, [*shape[:-1], *[1] * k, k])
    return b.add("Add", starts, _window(b, sizes))


def _scatter(b: Builder, u: UOp) -> Term:
    arg: argument.Scatter = u.arg
    operand, indices, updates = u.src
    k, points = indices.shape[-1], indices.shape[arg.batch : -1]
    if not points and not arg.batch and arg.op in (Op.WHERE, Op.ADD):
        return _placed(b, u)
    dims, rest = operand.shape[arg.batch : arg.batch + k], operand.shape[arg.batch + k :]
    sizes = updates.shape[len(indices.shape) - 1 :][:k]
    starts = _starts(b, indices)
    batches = operand.shape[: arg.batch]
    rows = prod(batches) * prod(dims)
    # One more row takes the windows that do not fit.
    none = b.add("Expand", b.number(0, operand.dtype), b.ints([1, *rest]))
    flat = b.add("Concat", reshape(b, b.full(operand), [rows, *rest]), none, axis=0)
    places = _linear(b, _places(b, starts, indices.shape, sizes), dims)
    if batches:
        spread = [*batches, *[1] * (len(points) + k)]
        count = b.add(
            "Range", b.number(0, INT64), b.number(rows, INT64), b.number(prod(dims), INT64)
        )
        places = b.add("Add", places, reshape(b, count, spread))
    fits = reshape(b, _fit(b, starts, dims, sizes), [*indices.shape[:-1], *[1] * k])
    places = b.add("Where", fits, places, b.number(rows, INT64))
    total = prod(indices.shape[:-1]) * prod(sizes)
    places = reshape(b, places, [total, 1])
    values = reshape(b, b.full(updates), [total, *rest])
    reduction = {Op.WHERE: "none", Op.ADD: "add", Op.MUL: "mul", Op.MAX: "max", Op.MIN: "min"}
    out = b.add("ScatterND", flat, places, values, reduction=reduction[arg.op])
    out = b.add("Slice", out, b.ints([0]), b.ints([-1]), b.ints([0]))
    return Term(reshape(b, out, operand.shape), u.shape)


def _linear(b: Builder, places: Name, dims: Sequence[int]) -> Name:
    """Places as one number each: their last axis vanishes."""
    strides = [prod(dims[i + 1 :]) for i in range(len(dims))]
    scaled = b.add("Mul", places, b.ints(strides)) if len(dims) > 1 else places
    return b.add("ReduceSum", scaled, b.ints([-1]), keepdims=0)


def _fit(b: Builder, starts: Name, dims: Sequence[int], sizes: Sequence[int]) -> Name:
    """Whether whole windows lie in the operand; the last axis of the starts vanishes."""
    room = b.ints([n - m for n, m in zip(dims, sizes)])
    inside = b.add(
        "And",
        b.add("GreaterOrEqual", starts, b.number(0, INT64)),
        b.add("LessOrEqual", starts, room),
    )
    return b.cast(b.add("ReduceMin", b.cast(inside, np.int32), b.ints([-1]), keepdims=0), BOOL)


def _element(b: Builder, x: Name, place: int) -> Name:
    """One element of a vector."""
    return b.add("Gather", x, b.number(place, INT64), axis=0)


def _line(b: Builder, start: Name, size: int) -> Name:
    """The places start, start + 1, ..."""
    return b.add("Add", _counted(b, size), start)


def _counted(b: Builder, size: int) -> Name:
    return b.add("Range", b.number(0, INT64), b.number(size, INT64), b.number(1, INT64))


def _placed(b: Builder, u: UOp) -> Term:
    """One window: of each element of the operand whether it lies there, and the update for it."""
    arg: argument.Scatter = u.arg
    operand, indices, updates = u.src
    dims, sizes = operand.shape[: indices.shape[0]], updates.shape[: indices.shape[0]]
    starts, moved = _starts(b, indices), b.full(updates)
    zero = b.number(0, INT64)
    there = _fit(b, starts, dims, sizes)
    for axis, (n, size) in enumerate(zip(dims, sizes)):
        if n == size:
            continue
        place = b.add("Sub", _counted(b, n), _element(b, starts, axis))
        held = b.add("Min", b.add("Max", place, zero), b.number(size - 1, INT64))
        inside = b.add("Equal", place, held)
        moved = b.add("Gather", moved, held, axis=axis)
        inside = reshape(b, inside, [n if a == axis else 1 for a in range(operand.ndim)])
        there = b.add("And", there, inside)
    if arg.op is Op.ADD:
        moved = b.add("Add", b.full(operand), moved)
    out = choice(b, there, moved, b.full(operand), operand.dtype)
    return Term(out, u.shape)


RULES: dict[Op, Rule] = {
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.CONCAT: _concat,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
}
