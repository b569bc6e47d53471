"""Shapes of the results of convolutions and of reductions over windows, without arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn import numpy as tnp
from tfn._support.validate import several
from tfn.array import Array
from tfn.errors import ShapeError
from tfn.lax.contraction import Layout, conv_dimension_numbers, conv_transpose, padtype_to_pads
from tfn.trace.op import Shape
from tfn.transforms.make_jaxpr import eval_shape
from tfn.transforms.shapes import ShapeDtypeStruct

Padding = str | Sequence[tuple[int, int]]


def _windows(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    spread: Sequence[int],
    spread_window: Sequence[int],
) -> Shape:
    """The numbers of places of a window along axes."""
    wide = [max((n - 1) * d + 1, 0) if n else 0 for n, d in zip(sizes, spread, strict=True)]
    cover = [max((n - 1) * d + 1, 0) for n, d in zip(window, spread_window, strict=True)]
    pads = padtype_to_pads(wide, cover, strides, padding) if isinstance(padding, str) else padding
    return tuple(
        max((n + low + high - w) // by + 1, 0)
        for n, w, by, (low, high) in zip(wide, cover, strides, pads, strict=True)
    )


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Padding,
    batch_group_count: int = 1,
) -> Shape:
    """The shape of a convolution of (batch, channels, *space) with (features, channels, *window).

    Args:
        lhs_shape, rhs_shape: sizes of the operands.
        strides: steps of the window.
        pads: pairs (low, high), or a word for `padtype_to_pads`.
        batch_group_count: number of groups of the batch.

    Raises:
        ShapeError: if the numbers of axes differ.

    Example:
        >>> conv_shape_tuple((2, 3, 8, 8), (5, 3, 3, 3), (1, 1), "VALID")
        (2, 5, 6, 6)
    """
    rank = len(lhs_shape) - 2
    if len(rhs_shape) != rank + 2 or len(strides) != rank:
        raise ShapeError(
            "a convolution needs operands and strides of as many axes",
            got=f"{tuple(lhs_shape)}, {tuple(rhs_shape)} and strides {tuple(strides)}",
        )
    one = (1,) * rank
    space = _windows(lhs_shape[2:], rhs_shape[2:], strides, pads, one, one)
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *space)


def conv_general_permutations(dimension_numbers: Any) -> tuple[Shape, Shape, Shape]:
    """The orders of axes that bring a convolution of a layout to that of `conv_shape_tuple`.

    Args:
        dimension_numbers: three texts such as ("NHWC", "HWIO", "NHWC").

    Returns:
        Those of the operands and of the result.

    Example:
        >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    rank = len(several("conv_general_permutations", "dimension_numbers", dimension_numbers)[0])
    specs = conv_dimension_numbers((1,) * rank, (1,) * rank, dimension_numbers)
    return specs.lhs_spec, specs.rhs_spec, specs.out_spec


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Layout,
) -> Shape:
    """The shape of a convolution of a layout; sizes of -1 stay as they are.

    Args:
        lhs_shape, rhs_shape: sizes of the operands.
        window_strides: steps of the window.
        padding: pairs (low, high), or a word for `padtype_to_pads`.
        dimension_numbers: three texts such as ("NHWC", "HWIO", "NHWC").

    Example:
        >>> layout = ("NHWC", "HWIO", "NHWC")
        >>> conv_general_shape_tuple((2, 8, 8, 3), (3, 3, 3, 5), (1, 1), "SAME", layout)
        (2, 8, 8, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple(
        [lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs], window_strides, padding
    )
    return tuple(shape[out.index(axis)] for axis in range(len(out)))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Layout,
) -> Shape:
    """The shape of a transposed convolution of a layout.

    Args:
        lhs_shape, rhs_shape: sizes of the operands; a batch of -1 stays as it is.
        window_strides: factors by which the axes grow.
        padding: pairs (low, high), or a word.
        dimension_numbers: three texts such as ("NHWC", "HWIO", "NHWC").

    Example:
        >>> layout = ("NHWC", "HWIO", "NHWC")
        >>> conv_transpose_shape_tuple((2, 4, 4, 3), (3, 3, 3, 5), (2, 2), "SAME", layout)
        (2, 8, 8, 5)
    """
    batch = conv_general_permutations(dimension_numbers)
    at, to = batch[0][0], batch[2][0]
    some = [1 if axis == at else n for axis, n in enumerate(lhs_shape)]
    x, w = (ShapeDtypeStruct(shape, "float32") for shape in (some, rhs_shape))
    out = eval_shape(
        lambda x, w: conv_transpose(
            x, w, window_strides, padding, dimension_numbers=dimension_numbers
        ),
        x,
        w,
    ).shape
    return tuple(lhs_shape[at] if axis == to else n for axis, n in enumerate(out))


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The shape of a reduction over windows.

    Args:
        operand_shape: sizes of the operand.
        window_dimensions, window_strides: sizes and steps of the window.
        padding: pairs (low, high), or a word for `padtype_to_pads`.
        base_dilation, window_dilation: distances of elements; 1 if None.

    Example:
        >>> reduce_window_shape_tuple((8,), (3,), (2,), [(0, 1)])
        (4,)
    """
    one = (1,) * len(operand_shape)
    return _windows(
        operand_shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation or one,
        window_dilation or one,
    )


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as a vector of integers.

    Example:
        >>> shape_as_value((2, 3)).tolist()
        [2, 3]
    """
    return tnp.asarray(list(shape), "int32")
