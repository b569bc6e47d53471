"""Type rules of contractions and windows: dot, convolution, FFT, gather, scatter."""

from __future__ import annotations

from math import prod
from typing import Any

from tfn.dtypes import COMPLEXES, INTEGERS, SHORT, DType, complex_of, part
from tfn.errors import DTypeError, ShapeError
from tfn.trace.argument import FftType
from tfn.trace.op import Op, Shape
from tfn.trace.regions import Node, Type
from tfn.trace.type_checks import NUMBERS, need_dtype, show


def dot(src: tuple[Node, ...], arg: Any) -> Type:
    """A contraction: batch axes, then the free axes of both operands."""
    a, b = src
    _product("dot_general", src, arg.dtype)
    pairs = [
        *zip(arg.contract_a, arg.contract_b, strict=True),
        *zip(arg.batch_a, arg.batch_b, strict=True),
    ]
    for i, j in pairs:
        if a.shape[i] != b.shape[j]:
            raise ShapeError(
                f"dot_general needs axis {i} of the first operand to equal axis {j} of the second",
                got=f"{show(a)}, {show(b)}: {a.shape[i]} and {b.shape[j]}",
            )
    used_a, used_b = {*arg.contract_a, *arg.batch_a}, {*arg.contract_b, *arg.batch_b}
    return (
        tuple(a.shape[i] for i in arg.batch_a)
        + tuple(n for i, n in enumerate(a.shape) if i not in used_a)
        + tuple(n for i, n in enumerate(b.shape) if i not in used_b)
    ), arg.dtype


def _product(name: str, src: tuple[Node, ...], dtype: DType) -> None:
    if src[0].dtype != src[1].dtype:
        raise DTypeError(f"{name} needs operands of one dtype", got=", ".join(map(show, src)))
    need_dtype(name, src[0], NUMBERS, "numbers")
    if (src[0].dtype in COMPLEXES) != (dtype in COMPLEXES):
        kind = "complex" if src[0].dtype in COMPLEXES else "real"
        raise DTypeError(
            f"{name} of {kind} numbers has a {kind} result",
            got=f"{show(src[0])}, and a result of {SHORT[dtype]}",
        )


def conv_size(
    n: int, window: int, stride: int, padding: tuple[int, int], dilation_x: int, dilation_w: int
) -> int:
    """How many places a window of a convolution has along one axis."""
    inner = (n - 1) * dilation_x + 1 if n else 0
    reach = (window - 1) * dilation_w + 1 if window else 0
    return max((inner + sum(padding) - reach) // stride + 1, 0)


def conv(src: tuple[Node, ...], arg: Any) -> Type:
    """A convolution, with features last in NHWC order as `argument.Conv` says."""
    x, w = src
    _product("conv", src, arg.dtype)
    batch, space, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    window, depth, features = w.shape[:-2], w.shape[-2], w.shape[-1]
    if len(space) != len(window) or len(space) != len(arg.strides):
        raise ShapeError(
            "conv needs as many window axes as space axes",
            got=f"{show(x)}, {show(w)}, strides {arg.strides}",
        )
    if depth * arg.groups != channels:
        raise ShapeError(
            f"conv needs {depth} x {arg.groups} group(s) = {depth * arg.groups} input channels",
            got=f"{show(x)}, {show(w)}",
        )
    if features % (arg.groups * arg.batch_groups) or batch % arg.batch_groups:
        raise ShapeError(
            "conv needs its groups to divide features and batch",
            got=f"{show(x)}, {show(w)}, {arg.groups} groups, {arg.batch_groups} batch groups",
        )
    sizes = tuple(
        conv_size(*axis)
        for axis in zip(
            space, window, arg.strides, arg.padding, arg.dilation_x, arg.dilation_w, strict=True
        )
    )
    return (batch // arg.batch_groups, *sizes, features), arg.dtype


def half(n: int) -> int:
    """How many of the values of a Fourier transform tell all, if it is of real values."""
    return n // 2 + 1


def fft(src: tuple[Node, ...], arg: Any) -> Type:
    """A discrete Fourier transform of the last axes."""
    x, inverse = src[0], arg.kind is FftType.IRFFT
    if arg.kind is FftType.RFFT:
        need_dtype("rfft", x, frozenset(map(part, COMPLEXES)), "float32 or float64")
    else:
        need_dtype(arg.kind.value, x, COMPLEXES, "complex values")
    rank = len(x.shape) - len(arg.lengths)
    halved = (*arg.lengths[:-1], *map(half, arg.lengths[-1:]))
    found = x.shape[max(rank, 0) :]
    if not prod(found) or found != (halved if inverse else arg.lengths) or not arg.lengths:
        raise ShapeError(
            f"{arg.kind.value} needs last axes of its lengths, none of them 0",
            got=f"{show(x)}, lengths {arg.lengths}",
        )
    if arg.kind is FftType.RFFT:
        return x.shape[:rank] + halved, complex_of(x.dtype)
    return x.shape[:rank] + arg.lengths, part(x.dtype) if inverse else x.dtype


def _windows(name: str, operand: Node, indices: Node, batch: int, sizes: Shape) -> None:
    dims = operand.shape[batch:]
    k = indices.shape[-1] if indices.shape else 0
    if indices.dtype not in INTEGERS:
        raise DTypeError(f"{name} needs integer indices", got=show(indices))
    ok = (
        operand.shape[:batch] == indices.shape[:batch]
        and len(indices.shape) > batch
        and len(sizes) == len(dims)
        and k <= len(dims)
        and all(0 <= size <= n for size, n in zip(sizes, dims, strict=True))
        and sizes[k:] == dims[k:]
    )
    if not ok:
        raise ShapeError(
            f"{name} needs windows inside the operand",
            got=f"{show(operand)}, {show(indices)}, window {sizes}",
        )


def gather(src: tuple[Node, ...], arg: Any) -> Type:
    """Windows of an operand at computed starts."""
    operand, indices = src
    _windows("gather", operand, indices, arg.batch, arg.sizes)
    return indices.shape[:-1] + arg.sizes, operand.dtype


def scatter(src: tuple[Node, ...], arg: Any) -> Type:
    """An operand with windows combined into it at computed starts."""
    operand, indices, updates = src
    sizes = updates.shape[len(indices.shape) - 1 :]
    _windows("scatter", operand, indices, arg.batch, sizes)
    if updates.shape[: len(indices.shape) - 1] != indices.shape[:-1]:
        raise ShapeError("scatter needs one update for each index", got=", ".join(map(show, src)))
    if operand.dtype in COMPLEXES and arg.op in (Op.MAX, Op.MIN):
        raise DTypeError(f"scatter by {arg.op.value} needs real numbers", got=show(operand))
    if updates.dtype != operand.dtype:
        raise DTypeError(
            "scatter needs updates of the operand's dtype", got=", ".join(map(show, src))
        )
    return operand.shape, operand.dtype
