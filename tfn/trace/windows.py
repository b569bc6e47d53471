"""Type rules of contractions and windows: dot, convolution, FFT, gather, scatter."""

from __future__ import annotations

from math import prod

from tfn._support.validate import element_type, shown, unfit, unlike
from tfn.dtypes import COMPLEXES, INTEGERS, SHORT, DType, complex_of, part
from tfn.errors import DTypeError
from tfn.trace.argument import Conv, Dot, Fft, FftType, Gather, Scatter
from tfn.trace.op import Op, Shape
from tfn.trace.regions import Node, Type
from tfn.trace.type_checks import NUMBERS, ORDERED, sized


def dot(src: tuple[Node, ...], arg: Dot) -> Type:
    """A contraction: batch axes, then the free axes of both operands."""
    a, b = src
    _product("dot_general", src, arg.dtype)
    pairs = [
        *zip(arg.contract_a, arg.contract_b, strict=True),
        *zip(arg.batch_a, arg.batch_b, strict=True),
    ]
    for i, j in pairs:
        if a.shape[i] != b.shape[j]:
            raise unfit(
                f"dot_general needs axis {i} of the first operand to equal axis {j} of the second",
                src,
                "transpose one, or contract other axes",
                f": {a.shape[i]} and {b.shape[j]}",
            )
    used_a, used_b = {*arg.contract_a, *arg.batch_a}, {*arg.contract_b, *arg.batch_b}
    shape = (
        tuple(a.shape[i] for i in arg.batch_a)
        + tuple(n for i, n in enumerate(a.shape) if i not in used_a)
        + tuple(n for i, n in enumerate(b.shape) if i not in used_b)
    )
    return sized("dot_general", shape, arg.dtype)


def _product(name: str, src: tuple[Node, ...], dtype: DType) -> None:
    if src[0].dtype != src[1].dtype:
        raise unlike(name, src)
    element_type(name, src[0], NUMBERS, "numbers")
    if (src[0].dtype in COMPLEXES) != (dtype in COMPLEXES):
        kind = "complex" if src[0].dtype in COMPLEXES else "real"
        raise DTypeError(
            f"{name} of {kind} numbers has a {kind} result",
            got=f"{shown(src[0])}, and a result of {SHORT[dtype]}",
            hint="leave the dtype of the result out, or take .real of it",
        )


def conv_size(
    n: int, window: int, stride: int, padding: tuple[int, int], dilation_x: int, dilation_w: int
) -> int:
    """The number of positions of a window of a convolution along one axis."""
    inner = (n - 1) * dilation_x + 1 if n else 0
    reach = (window - 1) * dilation_w + 1 if window else 0
    return max((inner + sum(padding) - reach) // stride + 1, 0)


def conv(src: tuple[Node, ...], arg: Conv) -> Type:
    """A convolution, with features last in NHWC order as `argument.Conv` says."""
    x, w = src
    _product("conv", src, arg.dtype)
    batch, space, channels = x.shape[0], x.shape[1:-1], x.shape[-1]
    window, depth, features = w.shape[:-2], w.shape[-2], w.shape[-1]
    if len(space) != len(window) or len(space) != len(arg.strides):
        raise unfit(
            "conv needs as many window axes as space axes",
            src,
            "a window has the axes (*sizes, channels, features)",
            f", strides {arg.strides}",
        )
    if depth * arg.groups != channels:
        words = f"{depth} x {arg.groups} group(s) = {depth * arg.groups} input channels"
        raise unfit(f"conv needs {words}", src, "make the window of (channels / groups) channels")
    if features % (arg.groups * arg.batch_groups) or batch % arg.batch_groups:
        raise unfit(
            "conv needs its groups to divide features and batch",
            src,
            "take a number of groups that divides both",
            f", {arg.groups} groups, {arg.batch_groups} batch groups",
        )
    axes = (space, window, arg.strides, arg.padding, arg.dilation_x, arg.dilation_w)
    sizes = tuple(conv_size(*axis) for axis in zip(*axes, strict=True))
    return sized("conv", (batch // arg.batch_groups, *sizes, features), arg.dtype)


def half(n: int) -> int:
    """The length of the non-redundant half of the Fourier transform of `n` real values."""
    return n // 2 + 1


def fft(src: tuple[Node, ...], arg: Fft) -> Type:
    """A discrete Fourier transform of the last axes."""
    x, inverse = src[0], arg.kind is FftType.IRFFT
    if arg.kind is FftType.RFFT:
        element_type("rfft", x, frozenset(map(part, COMPLEXES)), "float32 or float64")
    else:
        element_type(arg.kind.value, x, COMPLEXES, "complex values")
    rank = len(x.shape) - len(arg.lengths)
    halved = (*arg.lengths[:-1], *map(half, arg.lengths[-1:]))
    sizes = x.shape[max(rank, 0) :]
    if not prod(sizes) or sizes != (halved if inverse else arg.lengths) or not arg.lengths:
        raise unfit(
            f"{arg.kind.value} needs last axes of its lengths, none of them 0",
            src,
            "tfn.numpy.fft pads or cuts to the length n",
            f", lengths {arg.lengths}",
        )
    if arg.kind is FftType.RFFT:
        return x.shape[:rank] + halved, complex_of(x.dtype)
    return x.shape[:rank] + arg.lengths, part(x.dtype) if inverse else x.dtype


def _windows(name: str, operand: Node, indices: Node, batch: int, sizes: Shape) -> None:
    dims = operand.shape[batch:]
    k = indices.shape[-1] if indices.shape else 0
    element_type(name, indices, INTEGERS, "integer indices")
    ok = (
        operand.shape[:batch] == indices.shape[:batch]
        and len(indices.shape) > batch
        and len(sizes) == len(dims)
        and k <= len(dims)
        and all(0 <= size <= n for size, n in zip(sizes, dims, strict=True))
        and sizes[k:] == dims[k:]
    )
    if not ok:
        raise unfit(
            f"{name} needs windows inside the operand",
            (operand, indices),
            "the last axis of the indices holds a start for each of the first axes",
            f", window {sizes}",
        )


def gather(src: tuple[Node, ...], arg: Gather) -> Type:
    """Windows of an operand at computed starts."""
    operand, indices = src
    _windows("gather", operand, indices, arg.batch, arg.sizes)
    return sized("gather", indices.shape[:-1] + arg.sizes, operand.dtype)


def scatter(src: tuple[Node, ...], arg: Scatter) -> Type:
    """An operand with windows combined into it at computed starts."""
    operand, indices, updates = src
    sizes = updates.shape[len(indices.shape) - 1 :]
    _windows("scatter", operand, indices, arg.batch, sizes)
    if updates.shape[: len(indices.shape) - 1] != indices.shape[:-1]:
        raise unfit(
            "scatter needs one update for each index",
            src,
            "the updates are of shape (*indices.shape[:-1], *window)",
        )
    if arg.op in (Op.MAX, Op.MIN):
        element_type(f"scatter by {arg.op.value}", operand, ORDERED, "real numbers")
    if updates.dtype != operand.dtype:
        raise unlike("scatter", src, "updates of the operand's dtype")
    return operand.shape, operand.dtype
