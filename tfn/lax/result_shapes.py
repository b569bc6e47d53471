"""Shapes of results without the results: of convolutions and of reductions over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn import numpy as tnp
from tfn.array import Array, ArrayLike
from tfn.eager.operands import a_shape, array_of
from tfn.lax.convolution import conv_dimension_numbers, conv_general_dilated, conv_transpose
from tfn.lax.elementwise import add
from tfn.lax.movement import full
from tfn.lax.reduction import reduce_window
from tfn.trace.op import Shape
from tfn.transforms.make_jaxpr import eval_shape
from tfn.transforms.shapes import ShapeDtypeStruct

Padding = str | Sequence[tuple[int, int]]


def _shape(function: Any, shapes: Sequence[Sequence[int]], *args: Any, **options: Any) -> Shape:
    """The shape that a function gives to operands of some shapes, followed by arguments."""
    operands = [ShapeDtypeStruct(tuple(shape), "float32") for shape in shapes]
    return tuple(eval_shape(lambda *x: function(*x, *args, **options), *operands).shape)


def conv_general_permutations(dimension_numbers: Any) -> tuple[Shape, Shape, Shape]:
    """The axes of a layout in the order batch, features, space: of input, window and result.

    Args:
        dimension_numbers: three texts, such as ("NHWC", "HWIO", "NHWC").

    Raises:
        ArgumentError: for texts that name no layout.

    Example:
        >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs_shape, rhs_shape = ((1,) * len(text) for text in dimension_numbers[:2])
    layout = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs, rhs, out = layout.lhs_spec, layout.rhs_spec, layout.out_spec
    return tuple(lhs), tuple(rhs), tuple(out)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Padding,
    batch_group_count: int = 1,
) -> Shape:
    """The shape of a convolution with batch and channels first, and features first in the window.

    Raises:
        ShapeError: as `conv_general_dilated`.

    Example:
        >>> conv_shape_tuple((1, 3, 8, 8), (4, 3, 3, 3), (1, 1), "SAME")
        (1, 4, 8, 8)
    """
    shapes, groups = (lhs_shape, rhs_shape), batch_group_count
    return _shape(conv_general_dilated, shapes, strides, pads, batch_group_count=groups)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Any,
) -> Shape:
    """The shape of a convolution in a layout.

    Raises:
        ShapeError: as `conv_general_dilated`.

    Example:
        >>> layout = "NHWC", "HWIO", "NHWC"
        >>> conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 2), "SAME", layout)
        (1, 4, 4, 4)
    """
    shapes, layout = (lhs_shape, rhs_shape), dimension_numbers
    return _shape(conv_general_dilated, shapes, window_strides, padding, dimension_numbers=layout)


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    dimension_numbers: Any,
) -> Shape:
    """The shape of a transposed convolution in a layout.

    Raises:
        ShapeError: as `conv_transpose`.

    Example:
        >>> layout = "NHWC", "HWIO", "NHWC"
        >>> conv_transpose_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 2), "SAME", layout)
        (1, 16, 16, 4)
    """
    shapes, layout = (lhs_shape, rhs_shape), dimension_numbers
    return _shape(conv_transpose, shapes, window_strides, padding, dimension_numbers=layout)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """The shape of a reduction over windows.

    Raises:
        ShapeError, ArgumentError: as `reduce_window`.

    Example:
        >>> reduce_window_shape_tuple((8, 8), (3, 3), (2, 2), ((0, 0), (1, 1)))
        (3, 4)
    """
    windows = window_dimensions, window_strides, padding, base_dilation, window_dilation
    return _shape(reduce_window, [operand_shape], 0.0, add, *windows)


def shape_as_value(shape: Any) -> Array:
    """A shape as a vector of integers.

    Raises:
        ShapeError: for what is no shape.

    Example:
        >>> shape_as_value((2, 3)).tolist()
        [2, 3]
    """
    return tnp.array(list(a_shape("shape_as_value", shape)), "int32")


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """An array broadcast to the shape of another.

    Raises:
        ShapeError: if the shape does not broadcast.

    Example:
        >>> broadcast_like(1.0, tnp.zeros(2)).tolist()
        [1.0, 1.0]
    """
    return tnp.broadcast_to(arr, array_of("broadcast_like", like_arr).shape)


def empty(shape: int | Sequence[int], dtype: Any) -> Array:
    """An array of any values: zeros.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> empty(2, "int8").shape
        (2,)
    """
    return full(shape, 0, dtype)


def stage(x: ArrayLike, /) -> Array:
    """A value as an array.

    Example:
        >>> stage(2).dtype.name
        'int32'
    """
    return tnp.asarray(x)
