"""Node constructors: one function for each kind of node, without nodes that do nothing.

Transforms and passes build graphs with these functions; a movement that moves nothing returns its
operand.  They never promote and never broadcast unless their name says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfn.dtypes import (
    BFLOAT16,
    COMPLEXES,
    DEFAULTS,
    FLOAT16,
    FLOAT32,
    INT32,
    INT64,
    UINT32,
    DType,
    highest,
    lowest,
    part,
    wide_type,
)
from tfn.trace.argument import (
    Call,
    Cond,
    Conv,
    Dot,
    Gather,
    Iota,
    Pad,
    Reduce,
    Scan,
    Scatter,
    Shrink,
    Sort,
    While,
)
from tfn.trace.op import Op, Shape
from tfn.trace.regions import results
from tfn.trace.uop import Number, UOp, const, reshaped


def zeros(shape: Shape, dtype: DType) -> UOp:
    """All zeros."""
    return const(0, dtype, shape)


def full_like(u: UOp, value: Number) -> UOp:
    """A constant of the shape and dtype of `u`."""
    return const(value, u.dtype, u.shape)


def index_dtype(size: int, *dtypes: DType) -> DType:
    """The dtype of indices into `size` elements, and of `size` itself: int32, or else int64.

    It also holds all values of the integer `dtypes`.
    """
    wide = size >= 1 << 31 or any(d.itemsize == 8 or d == UINT32 for d in dtypes)
    return INT64 if wide else INT32


def result_index_dtype(size: int, *dtypes: DType) -> DType:
    """The dtype of indices that are results: `index_dtype`, or the default of integers if wider."""
    return max(index_dtype(size, *dtypes), DEFAULTS[int], key=lambda dtype: dtype.itemsize)


def iota(shape: Shape, axis: int, dtype: DType | None = None) -> UOp:
    """The coordinate along `axis` at every element of `shape`."""
    line = UOp(Op.IOTA, (), Iota(shape[axis], dtype or index_dtype(shape[axis])))
    return broadcast_in_dim(line, shape, (axis,))


def cast(u: UOp, dtype: DType) -> UOp:
    """The values in another dtype; float to integer truncates and saturates, NaN becomes 0."""
    return u if u.dtype == dtype else UOp(Op.CAST, (u,), dtype)


def bitcast(u: UOp, dtype: DType) -> UOp:
    """The same bits read as another dtype."""
    return u if u.dtype == dtype else UOp(Op.BITCAST, (u,), dtype)


def where(condition: UOp, x: UOp, y: UOp) -> UOp:
    """`x` where the condition holds, else `y`."""
    return x if x is y else UOp(Op.WHERE, (condition, x, y))


def eq(x: UOp, y: UOp) -> UOp:
    """Elementwise equality (``==`` on nodes is identity)."""
    return UOp(Op.EQ, (x, y))


def ne(x: UOp, y: UOp) -> UOp:
    """Elementwise inequality; true on NaN."""
    return UOp(Op.NE, (x, y))


def maximum(x: UOp, y: UOp) -> UOp:
    """The larger, NaN if either is NaN."""
    return UOp(Op.MAX, (x, y))


def minimum(x: UOp, y: UOp) -> UOp:
    """The smaller, NaN if either is NaN."""
    return UOp(Op.MIN, (x, y))


def unary(op: Op, x: UOp) -> UOp:
    """An elementwise op of one operand."""
    return UOp(op, (x,))


def complex_(re: UOp, im: UOp) -> UOp:
    """The complex numbers of these parts."""
    return UOp(Op.COMPLEX, (re, im))


def real(u: UOp) -> UOp:
    """The real part."""
    return UOp(Op.REAL, (u,)) if u.dtype in COMPLEXES else u


def imag(u: UOp) -> UOp:
    """The imaginary part, zero of a real number."""
    return UOp(Op.IMAG, (u,)) if u.dtype in COMPLEXES else zeros(u.shape, u.dtype)


def conj(u: UOp) -> UOp:
    """The number with the imaginary part negated."""
    return complex_(real(u), -imag(u)) if u.dtype in COMPLEXES else u


def reshape(u: UOp, shape: Shape) -> UOp:
    """The same elements in row-major order under another shape."""
    if u.shape == shape:
        return u
    if u.op is Op.RESHAPE:
        return reshape(u.src[0], shape)
    if u.op is Op.CONST:
        return reshaped(u, shape)
    return UOp(Op.RESHAPE, (u,), shape)


def permute(u: UOp, axes: Sequence[int]) -> UOp:
    """Axes in another order: axis i of the result is axis ``axes[i]`` of `u`.

    Axes that come back to where they were are no operation: the batching rules of a loop and of the
    one after it move the axis of lanes there and back.  Where only axes of size 1 move, elements
    stay where they are: that is a reshape.
    """
    order = tuple(axes)
    if order == tuple(range(u.ndim)):
        return u
    if u.op is Op.PERMUTE and all(u.arg[axis] == i for i, axis in enumerate(order)):
        return u.src[0]
    long = [axis for axis in order if u.shape[axis] != 1]
    if long == sorted(long):
        return UOp(Op.RESHAPE, (u,), tuple(u.shape[axis] for axis in order))
    return UOp(Op.PERMUTE, (u,), order)


def moveaxis(u: UOp, source: int, to: int) -> UOp:
    """One axis moved to another position."""
    order = [axis for axis in range(u.ndim) if axis != source]
    order.insert(to, source)
    return permute(u, order)


def expand(u: UOp, shape: Shape) -> UOp:
    """Axes of size 1 repeated to the sizes of `shape`."""
    if u.shape == shape:
        return u
    if u.op is Op.CONST:
        return reshaped(u, shape)
    return UOp(Op.EXPAND, (u,), shape)


def broadcast_in_dim(u: UOp, shape: Shape, dims: Sequence[int]) -> UOp:
    """Axis i of `u` becomes axis ``dims[i]`` of `shape`; the other axes repeat it."""
    inner = [1] * len(shape)
    for axis, dim in enumerate(dims):
        inner[dim] = u.shape[axis]
    return expand(reshape(u, tuple(inner)), shape)


def broadcast_to(u: UOp, shape: Shape) -> UOp:
    """NumPy's broadcasting: axes are matched from the right."""
    return broadcast_in_dim(u, shape, range(len(shape) - u.ndim, len(shape)))


def spread(u: UOp, size: int) -> UOp:
    """The same value everywhere along a new first axis."""
    return broadcast_in_dim(u, (size, *u.shape), range(1, u.ndim + 1))


def pad(
    u: UOp, low: Shape, high: Shape, interior: Shape | None = None, value: UOp | None = None
) -> UOp:
    """Elements of `value` (zero) added before, after and between."""
    interior = interior or (0,) * u.ndim
    if not any(low) and not any(high) and not any(interior):
        return u
    value = zeros((), u.dtype) if value is None else value
    return UOp(Op.PAD, (u, value), Pad(tuple(low), tuple(high), tuple(interior)))


def shrink(u: UOp, start: Shape, stop: Shape, step: Shape | None = None) -> UOp:
    """Elements start, start + step, ... below stop of each axis."""
    step = step or (1,) * u.ndim
    if not any(start) and tuple(stop) == u.shape and all(s == 1 for s in step):
        return u
    return UOp(Op.SHRINK, (u,), Shrink(tuple(start), tuple(stop), tuple(step)))


def pad_or_crop(u: UOp, low: Shape, high: Shape, interior: Shape | None = None) -> UOp:
    """`pad` whose low and high may be negative: then elements are removed, after padding."""
    grown = pad(u, tuple(max(n, 0) for n in low), tuple(max(n, 0) for n in high), interior)
    start = tuple(max(-n, 0) for n in low)
    stop = tuple(n + min(h, 0) for n, h in zip(grown.shape, high, strict=True))
    return shrink(grown, start, stop)


def flip(u: UOp, axes: Sequence[int]) -> UOp:
    """Axes counted backwards."""
    return UOp(Op.FLIP, (u,), tuple(sorted(axes))) if axes else u


def concat(parts: Sequence[UOp], axis: int) -> UOp:
    """Arrays joined along an axis."""
    return parts[0] if len(parts) == 1 else UOp(Op.CONCAT, tuple(parts), axis)


def reduce(
    u: UOp, op: Op, axes: Sequence[int], keepdims: bool = False, index: DType | None = None
) -> UOp:
    """A monoid over axes, which vanish or, with `keepdims`, become size 1.

    With `index` it is where the first extreme is; see `argument.Reduce`.
    """
    axes = tuple(sorted(axes))
    out = UOp(Op.REDUCE, (u,), Reduce(op, axes, index)) if axes or index is not None else u
    if keepdims:
        return reshape(out, tuple(1 if i in axes else n for i, n in enumerate(u.shape)))
    return out


def add_up(u: UOp, axes: Sequence[int], keepdims: bool = False) -> UOp:
    """The sum over axes."""
    return reduce(u, Op.ADD, axes, keepdims)


def identity(op: Op, dtype: DType) -> Number:
    """The identity element of a monoid, from which a reduction starts."""
    if op in (Op.MAX, Op.MIN):
        end = lowest if op is Op.MAX else highest
        real = end(part(dtype))
        return complex(real, real) if dtype in COMPLEXES else real
    return 1 if op is Op.MUL else 0


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums of `dtype` are kept: shorter floats are summed in 32 bits."""
    return FLOAT32 if dtype in (FLOAT16, BFLOAT16) else wide_type(dtype)


def dot(
    a: UOp,
    b: UOp,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: DType | None = None,
    tf32: bool = False,
) -> UOp:
    """A contraction; the result is (batch, free axes of a, free axes of b)."""
    arg = Dot(
        tuple(contract[0]),
        tuple(contract[1]),
        tuple(batch[0]),
        tuple(batch[1]),
        dtype or a.dtype,
        tf32 and a.dtype == b.dtype == FLOAT32,
    )
    return UOp(Op.DOT, (a, b), arg)


TF32_DROPPED_BITS = 13
"""Bits of the mantissa of float32 that tf32 does not have."""


def tf32(x: UOp) -> UOp:
    """Numbers of float32 rounded to 10 bits of mantissa, to nearest, ties to even; NaN stays.

    Source: PTX ISA, alternate floating-point data formats.
    """
    unsigned = np.dtype("uint32")
    bits, half = bitcast(x, unsigned), (1 << TF32_DROPPED_BITS - 1) - 1
    up = (bits >> TF32_DROPPED_BITS) & 1
    rounded = bitcast((bits + half + up) & ~((1 << TF32_DROPPED_BITS) - 1) % (1 << 32), x.dtype)
    return where(eq(x, x), rounded, full_like(x, float("nan")))


def conv(x: UOp, w: UOp, arg: Conv) -> UOp:
    """A convolution of (batch, *space, channels) with (*window, channels, features)."""
    return UOp(Op.CONV, (x, w), arg)


def gather(operand: UOp, indices: UOp, sizes: Shape, batch: int = 0) -> UOp:
    """Windows of the operand at clamped start points; see `argument.Gather`."""
    return UOp(Op.GATHER, (operand, indices), Gather(batch, tuple(sizes)))


def scatter(operand: UOp, indices: UOp, updates: UOp, op: Op, batch: int = 0) -> UOp:
    """Windows combined into the operand; see `argument.Scatter`."""
    return UOp(Op.SCATTER, (operand, indices, updates), Scatter(batch, op))


def sort(operands: Sequence[UOp], keys: int = 1) -> list[UOp]:
    """All operands sorted together along the last axis by the first `keys` of them."""
    if operands[0].shape[-1:] == (1,) and len({u.shape for u in operands}) == 1:
        return list(operands)
    return several(UOp(Op.SORT, tuple(operands), Sort(keys)))


def several(node: UOp) -> list[UOp]:
    """All results of a node that has several."""
    return [UOp(Op.GET, (node,), i) for i in range(len(results(node)))]


def scan(
    body: UOp,
    consts: Sequence[UOp],
    carries: Sequence[UOp],
    arrays: Sequence[UOp],
    length: int,
    reverse: bool = False,
) -> list[UOp]:
    """A function repeated over slices: last carries, then arrays of slices; see `argument.Scan`."""
    arg = Scan(length, reverse, len(consts), len(carries))
    return several(UOp(Op.SCAN, (body, *consts, *carries, *arrays), arg))


def repeat_while(
    cond: UOp,
    body: UOp,
    cond_consts: Sequence[UOp],
    body_consts: Sequence[UOp],
    carries: Sequence[UOp],
    names: Sequence[str] = (),
) -> list[UOp]:
    """A function repeated while another one holds: the last carries; see `argument.While`."""
    arg = While(len(cond_consts), len(body_consts), tuple(names))
    return several(UOp(Op.WHILE, (cond, body, *cond_consts, *body_consts, *carries), arg))


def choose(index: UOp, branches: Sequence[UOp], operands: Sequence[UOp]) -> list[UOp]:
    """The results of the function that the index chooses; see `argument.Cond`."""
    return several(UOp(Op.COND, (index, *branches, *operands), Cond(len(branches))))


def after(u: UOp, others: Sequence[UOp]) -> UOp:
    """The same value, not read before others exist, and never taken for `u` itself."""
    return UOp(Op.AFTER, (u, *others))


def call(name: str, function: UOp, operands: Sequence[UOp]) -> list[UOp]:
    """The results of a function that keeps its name; see `argument.Call`."""
    return several(UOp(Op.CALL, (function, *operands), Call(name)))


def count(shape: Shape) -> int:
    """The number of elements of a shape."""
    return prod(shape)
