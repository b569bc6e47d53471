"""Rules of reductions, contractions, convolutions and sorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn.dtypes import BOOL, FLOAT32, FLOAT64, FLOATS, INT32, INT64
from tfn.onnx.builder import Builder, Name, Rule, Term
from tfn.onnx.insides import Op, UOp, argument
from tfn.onnx.rules.movement import dilate, padded, reshape, transpose

REDUCTIONS = {Op.ADD: "ReduceSum", Op.MUL: "ReduceProd", Op.MAX: "ReduceMax", Op.MIN: "ReduceMin"}
COMMON = frozenset({FLOAT32, FLOAT64, INT32, INT64})
"""The dtypes for which onnxruntime has kernels of all these operations."""

SIGN_BIT = -(1 << 63)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A dtype of `COMMON` that holds the values of another."""
    if dtype in COMMON:
        return dtype
    if dtype in FLOATS:
        return FLOAT32
    return INT32 if dtype == BOOL or dtype.itemsize < 4 else INT64


def _ordered(b: Builder, x: Name, dtype: np.dtype[Any]) -> Name:
    """Values of a common dtype in the same order: of uint64 the first bit is turned over."""
    wide = _wide(dtype)
    if wide == dtype:
        return x
    x = b.cast(x, wide)
    turned = dtype == np.uint64
    return b.add("BitwiseXor", x, b.number(SIGN_BIT, INT64)) if turned else x


def _back(b: Builder, x: Name, dtype: np.dtype[Any], ordered: bool) -> Name:
    if _wide(dtype) == dtype:
        return x
    if ordered and dtype == np.uint64:
        x = b.add("BitwiseXor", x, b.number(SIGN_BIT, INT64))
    return b.cast(x, dtype)


def _reduce(b: Builder, u: UOp) -> Term:
    arg: argument.Reduce = u.arg
    source = u.src[0]
    if not arg.axes:
        return b.term(source)
    ordered = arg.op in (Op.MAX, Op.MIN)
    x = b.full(source)
    x = _ordered(b, x, source.dtype) if ordered else _cast(b, x, source.dtype)
    if arg.index is not None:
        name = "ArgMax" if arg.op is Op.MAX else "ArgMin"
        found = b.add(name, x, axis=arg.axes[0], keepdims=0)
        return Term(found if arg.index == INT64 else b.cast(found, arg.index), u.shape)
    out = b.add(REDUCTIONS[arg.op], x, b.ints(arg.axes), keepdims=0)
    return Term(_back(b, out, u.dtype, ordered), u.shape)


def _cast(b: Builder, x: Name, dtype: np.dtype[Any], to: np.dtype[Any] | None = None) -> Name:
    to = to or _wide(dtype)
    return x if to == dtype else b.cast(x, to)


def _dot(b: Builder, u: UOp) -> Term:
    """A product of matrices where the axes allow it, else an Einsum."""
    arg: argument.Dot = u.arg
    left, right = u.src
    wide = _wide(np.promote_types(left.dtype, arg.dtype) if left.dtype != arg.dtype else arg.dtype)
    names = [_cast(b, b.full(s), s.dtype, wide) for s in u.src]
    free_a = _free(left, arg.batch_a, arg.contract_a)
    free_b = _free(right, arg.batch_b, arg.contract_b)
    batch = len(arg.batch_a)
    plain = batch == 0 and len(free_b) <= 1
    batched = batch > 0 and len(free_a) == len(free_b) == 1
    if len(arg.contract_a) == 1 and (plain or batched):
        a = transpose(b, names[0], [*arg.batch_a, *free_a, *arg.contract_a])
        w = transpose(b, names[1], [*arg.batch_b, *arg.contract_b, *free_b])
        out = b.add("MatMul", a, w)
    else:
        out = b.add("Einsum", *names, equation=_equation(arg, left.ndim, right.ndim))
    return Term(_cast(b, out, wide, arg.dtype), u.shape)


def _free(u: UOp, *taken: Sequence[int]) -> list[int]:
    return [a for a in range(u.ndim) if not any(a in axes for axes in taken)]


def _equation(arg: argument.Dot, rank_a: int, rank_b: int) -> str:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a = [next(letters) for _ in range(rank_a)]
    w = [next(letters) for _ in range(rank_b)]
    for i, j in zip(arg.contract_a + arg.batch_a, arg.contract_b + arg.batch_b, strict=True):
        w[j] = a[i]
    out = [a[i] for i in arg.batch_a]
    out += [c for i, c in enumerate(a) if i not in arg.batch_a + arg.contract_a]
    out += [c for j, c in enumerate(w) if j not in arg.batch_b + arg.contract_b]
    return f"{''.join(a)},{''.join(w)}->{''.join(out)}"


def _conv(b: Builder, u: UOp) -> Term:
    """Channels come before space in ONNX; what it has no attribute for is done to the operand."""
    arg: argument.Conv = u.arg
    x, w = u.src
    wide = FLOAT64 if arg.dtype == FLOAT64 else FLOAT32
    data = _cast(b, b.full(x), x.dtype, wide)
    space, groups, shape = len(arg.strides), arg.groups, x.shape
    if arg.batch_groups > 1:  # groups of the batch become groups of channels
        count = arg.batch_groups
        n, depth = shape[0] // count, shape[-1] // groups
        data = reshape(b, data, [count, n, *shape[1:-1], groups, depth])
        data = transpose(b, data, [1, *range(2, space + 3), 0, space + 3])
        shape = (n, *shape[1:-1], groups * count * depth)
        data, groups = reshape(b, data, shape), groups * count
    data = transpose(b, data, [0, space + 1, *range(1, space + 1)])
    none = b.number(0, wide)
    sizes = [shape[0], shape[-1], *shape[1:-1]]
    data = dilate(b, data, sizes, [0, 0, *(d - 1 for d in arg.dilation_x)], none)
    low, high = ([p[i] for p in arg.padding] for i in (0, 1))
    if min((0, *low, *high)) < 0:
        data = padded(b, data, [0, 0, *low], [0, 0, *high], none)
        low = high = [0] * space
    weights = transpose(b, _cast(b, b.full(w), w.dtype, wide), [space + 1, space, *range(space)])
    attributes: dict[str, Any] = {
        "kernel_shape": list(w.shape[:-2]),
        "strides": list(arg.strides),
        "pads": [*low, *high],
        "dilations": list(arg.dilation_w),
        "group": groups,
    }
    out = transpose(b, b.add("Conv", data, weights, **attributes), [0, *range(2, space + 2), 1])
    return Term(_cast(b, out, wide, arg.dtype), u.shape)


def _sort(b: Builder, u: UOp) -> tuple[Term, ...]:
    """Stable sorts by each key, the last one first; NaN is as large as infinity."""
    arg: argument.Sort = u.arg
    n = u.src[0].shape[-1]
    count = n if arg.largest is None else arg.largest
    names = [b.full(s) for s in u.src]
    for place in reversed(range(arg.keys)):
        key = _key(b, names[place], u.src[place].dtype)
        largest = int(arg.largest is not None)
        _, order = b.many("TopK", [key, b.ints([count])], 2, axis=-1, largest=largest)
        names = [b.add("GatherElements", name, order, axis=-1) for name in names]
    shape = (*u.src[0].shape[:-1], count)
    return tuple(Term(name, shape) for name in names)


def _key(b: Builder, x: Name, dtype: np.dtype[Any]) -> Name:
    """Values of a dtype of `COMMON`, in the order of which a sort puts rows."""
    if dtype not in FLOATS:
        return _ordered(b, x, dtype)
    x = _cast(b, x, dtype)
    return b.add("Where", b.add("IsNaN", x), b.number(np.inf, _wide(dtype)), x)


RULES: dict[Op, Rule] = {
    Op.REDUCE: _reduce,
    Op.DOT: _dot,
    Op.CONV: _conv,
    Op.SORT: _sort,
}
