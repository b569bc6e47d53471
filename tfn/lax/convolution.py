"""Convolutions, in any layout: forward, transposed, as patches, with unshared weights.

A convolution is computed as (batch, *space, channels) with (*window, channels, features); other
layouts are permuted to it and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tfn import dtypes
from tfn._support.validate import integer, of_each_axis, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.errors import ArgumentError, ShapeError
from tfn.lax.contraction import dot_general, result_dtype
from tfn.lax.movement import rev, transpose
from tfn.lax.operand import array, show
from tfn.lax.window_padding import Pairs, dilated, padtype_to_pads, pairs_of
from tfn.numpy.contraction import is_tf32
from tfn.trace.argument import Conv
from tfn.trace.bind import bind
from tfn.trace.op import Op, Shape


class ConvDimensionNumbers(NamedTuple):
    """The axes of a convolution's operands and result, in an order that does not depend on the
    layout.

    Attributes:
        lhs_spec: axes of (batch, channels, *space).
        rhs_spec: axes of (features, channels, *window).
        out_spec: axes of (batch, features, *space).
    """

    lhs_spec: Shape
    rhs_spec: Shape
    out_spec: Shape


Layout = ConvDimensionNumbers | tuple[str, str, str] | None


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Layout
) -> ConvDimensionNumbers:
    """Returns a layout as axes.

    Args:
        lhs_shape: shape of the input, of which only the number of axes matters.
        rhs_shape: shape of the kernel, with as many axes.
        dimension_numbers: three strings of letters such as ("NHWC", "HWIO", "NHWC"), a
            ConvDimensionNumbers, which is returned as it is, or None for batch, channels, space
            with features, channels, window.

    Raises:
        ArgumentError: unless there are three strings, each of which names each axis once.
        ShapeError: if the shapes have different numbers of axes.

    Example:
        >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    n = len(lhs_shape)
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(rhs_shape) != n:
        raise ShapeError(
            "a window needs as many axes as what it goes over",
            got=f"shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}",
            hint="add axes of size 1, or channels and features",
        )
    if dimension_numbers is None:
        return ConvDimensionNumbers(*(tuple(range(n)),) * 3)
    _check_layout(dimension_numbers)
    lhs, rhs, out = dimension_numbers
    space = [letter for letter in rhs if letter not in "OI"]
    ok = all(
        len(spec) == n and set(spec) == {*pair, *space}
        for spec, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
    )
    if not ok:
        raise ArgumentError(
            f"a layout of {n} axes needs N, C, O, I and {n - 2} letters for space, each once",
            got=f"dimension_numbers={dimension_numbers}",
            hint=_LAYOUT,
        )
    return ConvDimensionNumbers(
        *(
            tuple(spec.index(letter) for letter in (*pair, *space))
            for spec, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
        )
    )


_LAYOUT = 'for example ("NHWC", "HWIO", "NHWC")'


def _check_layout(layout: object) -> None:
    """Raise ArgumentError unless there are three strings."""
    if not isinstance(layout, (tuple, list)) or list(map(type, layout)) != [str] * 3:
        raise ArgumentError(
            "a layout of a convolution is three strings",
            got=f"dimension_numbers={layout}",
            hint=_LAYOUT,
        )


CONV = "a convolution"  # what messages call all functions of this file that convolve


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Pairs,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layout = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolves an array with a kernel in any layout (a cross-correlation: the kernel is not
    flipped).

    Args:
        lhs: the input: batch, channels and any number of spatial axes, in the order of the layout.
        rhs: the kernel: features, channels and the window, in the order of the layout, of the dtype
            of `lhs`; it has ``channels / feature_group_count`` channels.
        window_strides: steps of the window along each spatial axis, at least 1.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) per spatial axis; negative numbers
            crop.
        lhs_dilation: distance of neighbouring elements of `lhs`, per spatial axis, with zeros
            between them, as in a transposed convolution; 1 if None.
        rhs_dilation: distance of neighbouring elements of the window, per spatial axis; 1 if None.
        dimension_numbers: layouts of lhs, rhs and result; NCHW, OIHW, NCHW if None.
        feature_group_count: number of independent groups of channels, which divides both the
            channels and the features.
        batch_group_count: number of independent groups of the batch, each with features of its own.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.
        preferred_element_type: dtype of the result; that of the operands if None.

    Returns:
        An array of batch, features and spatial axes, in the order of the layout.

    Raises:
        ShapeError, DTypeError, ArgumentError: for operands or a layout that do not fit.

    Example:
        >>> from tfn import lax
        >>> x, w = lax.full((1, 8, 8, 3), 1.0), lax.full((3, 3, 3, 4), 1.0)
        >>> layout = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout).shape
        (1, 8, 8, 4)
    """
    x, w = array(lhs), array(rhs)
    rank = len(x.shape) - 2
    if rank < 0 or len(w.shape) != len(x.shape):
        raise unfit(
            "a convolution needs as many window axes and strides as space axes",
            (x, w),
            "x has two axes more than space: batch and channels",
        )
    strides = of_each_axis(CONV, "window_strides", window_strides, rank)
    layout = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    x = transpose(x, (layout.lhs_spec[0], *layout.lhs_spec[2:], layout.lhs_spec[1]))
    w = transpose(w, (*layout.rhs_spec[2:], layout.rhs_spec[1], layout.rhs_spec[0]))
    spread_x = of_each_axis(CONV, "lhs_dilation", lhs_dilation, rank)
    spread_w = of_each_axis(CONV, "rhs_dilation", rhs_dilation, rank)
    feature_group_count = integer(CONV, "feature_group_count", feature_group_count, 1)
    batch_group_count = integer(CONV, "batch_group_count", batch_group_count, 1)
    if x.shape[-1] != w.shape[-2] * feature_group_count:  # in the layout that the user wrote
        raise ShapeError(
            f"a window of {w.shape[-2]} input channels, in {feature_group_count} group(s), "
            f"does not fit an image of {x.shape[-1]}",
            got=f"{show(array(lhs))}, {show(array(rhs))}: channels are axis {layout.lhs_spec[1]} "
            f"of lhs, input channels axis {layout.rhs_spec[1]} of rhs",
            hint="make the window of (channels / groups) input channels, or name the layout by "
            "dimension_numbers",
        )
    if isinstance(padding, str):
        if any(d != 1 for d in spread_x):
            raise ArgumentError(
                "a padding in words says nothing when lhs is dilated",
                got=f"padding={padding!r}",
                hint="give pairs, or use conv_transpose",
            )
        window = dilated(w.shape[:-2], spread_w)
        padding = padtype_to_pads(x.shape[1:-1], window, strides, padding)
    pads = pairs_of(CONV, padding, rank)
    for n, (low, high) in zip(dilated(x.shape[1:-1], spread_x), pads):
        if min(low, 0) + min(high, 0) + n < 0:
            raise ShapeError(
                f"{CONV} cannot crop more elements than there are",
                got=f"{show(x)}, padding={pads}",
                hint="negative padding crops: take smaller numbers",
            )
    arg = Conv(
        strides,
        pads,
        spread_x,
        spread_w,
        feature_group_count,
        batch_group_count,
        result_dtype(x, preferred_element_type),
        is_tf32(precision) and x.dtype == w.dtype == dtypes.FLOAT32,
    )
    out = bind(Op.CONV, x, w, arg=arg)
    back = (layout.out_spec[0], *layout.out_spec[2:], layout.out_spec[1])
    return transpose(out, sorted(range(rank + 2), key=back.__getitem__))


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolves an array with a kernel in the layouts NCHW, OIHW, NCHW.

    Args:
        lhs: the input, shape (batch, channels, *space).
        rhs: the kernel, shape (features, channels, *window), of the dtype of `lhs`.
        window_strides: steps of the window along each spatial axis, at least 1.
        padding: 'SAME', 'SAME_LOWER' or 'VALID', as in `padtype_to_pads`.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.
        preferred_element_type: dtype of the result; that of the operands if None.

    Returns:
        An array (batch, features, *space).

    Raises:
        ShapeError, DTypeError, ArgumentError: as `conv_general_dilated`.

    Example:
        >>> import tfn.numpy as tnp
        >>> conv(tnp.ones((1, 1, 5, 5)), tnp.ones((2, 1, 3, 3)), (1, 1), "VALID").shape
        (1, 2, 3, 3)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Pairs,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolves in the layouts NCHW, OIHW, NCHW, with padding in pairs and with dilations.

    Args:
        lhs: the input, shape (batch, channels, *space).
        rhs: the kernel, shape (features, channels, *window), of the dtype of `lhs`.
        window_strides: steps of the window along each spatial axis, at least 1.
        padding: (low, high) per spatial axis, negative numbers crop; or a word as in `conv`.
        lhs_dilation: distance of neighbouring elements of `lhs`, per spatial axis; 1 if None.
        rhs_dilation: distance of neighbouring elements of the window, per spatial axis; 1 if None.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.
        preferred_element_type: dtype of the result; that of the operands if None.

    Returns:
        An array (batch, features, *space).

    Raises:
        ShapeError, DTypeError, ArgumentError: as `conv_general_dilated`.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, w = tnp.ones((1, 1, 5, 5)), tnp.ones((2, 1, 3, 3))
        >>> conv_with_general_padding(x, w, (1, 1), ((1, 1), (1, 1)), None, None).shape
        (1, 2, 5, 5)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Pairs,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layout = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Extracts the elements of every window (im2col), as channels: those of lhs, each with the
    window's.

    Computed as a convolution with one-hot kernels, one for each element of the window.

    Args:
        lhs: the input: batch, channels and spatial axes, in the order of the layout.
        filter_shape: sizes of the window along the spatial axes.
        window_strides: steps of the window along each spatial axis, at least 1.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) per spatial axis.
        lhs_dilation: distance of neighbouring elements of `lhs`, per spatial axis; 1 if None.
        rhs_dilation: distance of neighbouring elements of the window, per spatial axis; 1 if None.
        dimension_numbers: layouts of lhs, of a kernel, and of the result; NCHW, OIHW, NCHW if None.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.
        preferred_element_type: dtype of the result; that of the operands if None.

    Returns:
        An array of batch, channels * window and spatial axes, in the order of the layout.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `conv_general_dilated`.

    Example:
        >>> from tfn import lax
        >>> x = lax.full((1, 2, 5, 5), 1.0)
        >>> lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID").shape
        (1, 18, 3, 3)
    """
    x = array(lhs)
    shape = of_each_axis(
        "conv_general_dilated_patches", "filter_shape", filter_shape, len(x.shape) - 2
    )
    layout = conv_dimension_numbers(x.shape, (1,) * len(x.shape), dimension_numbers)
    channels, size = x.shape[layout.lhs_spec[1]], prod(shape)
    one_hot = np.eye(size, dtype=x.dtype).reshape(size, 1, *shape)
    window = np.tile(one_hot, (channels, *(1,) * (len(shape) + 1)))
    place = [0] * len(x.shape)
    for axis, at in enumerate(layout.rhs_spec):
        place[at] = axis
    return conv_general_dilated(
        x,
        np.transpose(window, place),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        layout,
        channels,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Pairs,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layout = None,
    precision: object = None,
) -> Array:
    """A convolution whose kernel is another one at each place of the result: unshared weights.

    Args:
        lhs: the input: batch, channels and spatial axes, in the order of the layout.
        rhs: the kernels: channels of the result, channels of the input times the elements of the
            window, and the spatial axes of the result, in the order of the layout.
        window_strides: steps of the window along each spatial axis, at least 1.
        padding: 'SAME', 'SAME_LOWER', 'VALID', or (low, high) per spatial axis.
        filter_shape: sizes of the window along the spatial axes.
        lhs_dilation: distance of neighbouring elements of `lhs`, per spatial axis; 1 if None.
        rhs_dilation: distance of neighbouring elements of the window, per spatial axis; 1 if None.
        dimension_numbers: layouts of lhs, of the kernels, and of the result; NCHW, OIHW, NCHW if
            None.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.

    Returns:
        An array of batch, channels and spatial axes, in the order of the layout.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `conv_general_dilated` and `dot_general`.

    Example:
        >>> from tfn import lax
        >>> x, w = lax.full((1, 2, 5, 5), 1.0), lax.full((4, 18, 3, 3), 1.0)
        >>> y = lax.conv_general_dilated_local(x, w, (1, 1), "VALID", (3, 3))
        >>> y.shape, float(y[0, 0, 0, 0])
        ((1, 4, 3, 3), 18.0)
    """
    x, w = array(lhs), array(rhs)
    layout = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, layout, precision
    )
    kernels, out = layout.rhs_spec, layout.out_spec
    pairs = sorted(zip(kernels[2:], out[2:], strict=True))
    of_kernel, of_input = zip(*pairs, strict=True) if pairs else ((), ())
    dims = (((out[1],), (kernels[1],)), (of_input, of_kernel))
    y = dot_general(patches, w, dims)  # spatial axes, batch, channels
    spatial = len(pairs)
    order = [0] * len(x.shape)
    order[out[0]], order[out[1]] = spatial, spatial + 1
    for i, axis in enumerate(of_input):
        order[axis] = i
    return transpose(y, order)


_CHANNELS_LAST = {1: "H", 2: "HW", 3: "HWD"}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Pairs,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layout = None,
    transpose_kernel: bool = False,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolves with a fractional stride (a transposed convolution), as decoders do to enlarge an
    image.

    Args:
        lhs: the input: batch, channels and 1 to 3 spatial axes, in the order of the layout.
        rhs: the kernel: window, channels and features, in the order of the layout, of the dtype of
            `lhs`.
        strides: factor by which each spatial axis grows, at least 1.
        padding: 'SAME' (size * stride elements per axis), 'VALID' (every element that the window
            reaches), or (low, high) per spatial axis, around the dilated `lhs`.
        rhs_dilation: distance of neighbouring elements of the window, per spatial axis; 1 if None.
        dimension_numbers: as of `conv_general_dilated`; channels last if None.
        transpose_kernel: flip the window and swap its channels and features, which makes this
            the gradient of a convolution with the same kernel.
        precision: "tensorfloat32" as in `dot_general`; any other is ignored: products are computed
            as exactly as possible.
        preferred_element_type: dtype of the result; that of the operands if None.
        use_consistent_padding: whether pairs are the padding of the convolution of which this is
            the transpose.

    Returns:
        An array of batch, features and spatial axes, in the order of the layout.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `conv_general_dilated`.

    Example:
        >>> from tfn import lax
        >>> x, w = lax.full((1, 4, 4, 3), 1.0), lax.full((3, 3, 3, 2), 1.0)
        >>> lax.conv_transpose(x, w, (2, 2), "SAME").shape
        (1, 8, 8, 2)
    """
    x, w = array(lhs), array(rhs)
    rank = len(x.shape) - 2
    if dimension_numbers is None:
        if rank not in _CHANNELS_LAST:
            raise unfit(
                "conv_transpose needs 1 to 3 axes of space", (x, w), "dimension_numbers name others"
            )
        space = _CHANNELS_LAST[rank]
        dimension_numbers = (f"N{space}C", f"{space}IO", f"N{space}C")
    layout = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    window = [w.shape[axis] for axis in layout.rhs_spec[2:]]
    spread = of_each_axis("conv_transpose", "rhs_dilation", rhs_dilation, rank)
    strides = of_each_axis("conv_transpose", "strides", strides, rank)
    if isinstance(padding, str):
        padding = [
            _transposed_padding(k, s, padding)
            for k, s in zip(dilated(window, spread), strides, strict=True)
        ]
    elif use_consistent_padding:
        padding = [
            (reach - 1 - low, reach - 1 - high)
            for reach, (low, high) in zip(dilated(window, spread), padding, strict=True)
        ]
    if transpose_kernel:
        w = rev(w, layout.rhs_spec[2:])
        order = list(range(rank + 2))
        features, channels = layout.rhs_spec[:2]
        order[features], order[channels] = channels, features
        w = transpose(w, order)
    return conv_general_dilated(
        x,
        w,
        (1,) * rank,
        padding,
        strides,
        spread,
        layout,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    else:
        raise ArgumentError(
            "padding is 'SAME', 'VALID' or pairs",
            got=f"padding={padding!r}",
            hint="write (low, high) for each axis of the dilated lhs",
        )
    return low, total - low
