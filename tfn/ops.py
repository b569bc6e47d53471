"""Segment reductions: sums, products and extremes of the elements of each segment."""

from __future__ import annotations

from tfn import numpy as tnp
from tfn._support.validate import element_type, integer, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, INTEGERS
from tfn.eager.operands import REAL, array_of, known_values
from tfn.trace.build import identity, index_dtype
from tfn.trace.op import Op


def _combined(
    name: str,
    op: Op,
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None,
    mode: str | None,
) -> Array:
    x, ids = array_of(name, data), array_of(name, segment_ids)
    if x.shape[: ids.ndim] != ids.shape:
        raise unfit(
            f"{name} needs a segment for each element along the first axes",
            (x, ids),
            "segment_ids has as many elements as data has rows",
        )
    element_type(name, ids, INTEGERS, "integer segments")
    if op in (Op.MAX, Op.MIN):
        element_type(name, x, REAL | {BOOL}, "real numbers")
    if num_segments is None:
        ends = known_values(name, ids, "pass num_segments=, which fixes the shape")
        count = int(ends.max(initial=-1)) + 1
    else:
        count = integer(name, "num_segments", num_segments, 0)
    ids = ids.astype(index_dtype(count, ids.dtype))
    rest = x.shape[ids.ndim :]
    flat = x.reshape((ids.size, *rest))
    begin = tnp.full((count, *rest), identity(op, x.dtype), x.dtype)
    at = begin.at[tnp.where(ids < 0, count, ids).ravel()]  # before the first is outside, too
    update = {Op.ADD: at.add, Op.MUL: at.multiply, Op.MAX: at.max, Op.MIN: at.min}[op]
    return update(flat, mode=mode)


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """Returns the sum of the elements of each segment; zero for one without any.

    Args:
        data: array of any dtype; its first axes are those of `segment_ids`.
        segment_ids: integers, the segment of each element; elements outside of [0, num_segments)
            are left out, unless `mode` is "clip".
        num_segments: number of segments; the largest id plus 1 if None, which needs ids that are
            known.
        indices_are_sorted, unique_indices, bucket_size: accepted as in JAX and ignored.
        mode: of the updates outside, as of `Array.at`; None drops them.

    Returns:
        An array (num_segments, *rest) of the dtype of `data`, where rest are its other axes.

    Raises:
        ShapeError: unless each element has a segment.
        DTypeError: unless the segments are integers.

    Example:
        >>> segment_sum(tnp.array([1, 2, 3]), tnp.array([0, 2, 0]), 4).tolist()
        [4, 0, 2, 0]
    """
    return _combined("segment_sum", Op.ADD, data, segment_ids, num_segments, mode)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """Returns the product of the elements of each segment; one for one without any.

    Args:
        data: array of any dtype; its first axes are those of `segment_ids`.
        segment_ids: integers, the segment of each element; elements outside of [0, num_segments)
            are left out, unless `mode` is "clip".
        num_segments: number of segments; the largest id plus 1 if None, which needs ids that are
            known.
        indices_are_sorted, unique_indices, bucket_size: accepted as in JAX and ignored.
        mode: of the updates outside, as of `Array.at`; None drops them.

    Returns:
        An array (num_segments, *rest) of the dtype of `data`, where rest are its other axes.

    Raises:
        ShapeError, DTypeError: as `segment_sum`.

    Example:
        >>> segment_prod(tnp.array([2, 3, 4]), tnp.array([0, 2, 0]), 3).tolist()
        [8, 1, 3]
    """
    return _combined("segment_prod", Op.MUL, data, segment_ids, num_segments, mode)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """Returns the largest element of each segment; -inf or the smallest integer for one without
    any.

    Args:
        data: real numbers or booleans; the first axes are those of `segment_ids`.
        segment_ids: integers, the segment of each element; elements outside of [0, num_segments)
            are left out, unless `mode` is "clip".
        num_segments: number of segments; the largest id plus 1 if None, which needs ids that are
            known.
        indices_are_sorted, unique_indices, bucket_size: accepted as in JAX and ignored.
        mode: of the updates outside, as of `Array.at`; None drops them.

    Returns:
        An array (num_segments, *rest) of the dtype of `data`, where rest are its other axes.

    Raises:
        ShapeError, DTypeError: as `segment_sum`, and for complex numbers.

    Example:
        >>> segment_max(tnp.array([2.0, 3.0, 4.0]), tnp.array([0, 2, 0]), 3).tolist()
        [4.0, -inf, 3.0]
    """
    return _combined("segment_max", Op.MAX, data, segment_ids, num_segments, mode)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: str | None = None,
) -> Array:
    """Returns the smallest element of each segment; inf or the largest integer for one without any.

    Args:
        data: real numbers or booleans; the first axes are those of `segment_ids`.
        segment_ids: integers, the segment of each element; elements outside of [0, num_segments)
            are left out, unless `mode` is "clip".
        num_segments: number of segments; the largest id plus 1 if None, which needs ids that are
            known.
        indices_are_sorted, unique_indices, bucket_size: accepted as in JAX and ignored.
        mode: of the updates outside, as of `Array.at`; None drops them.

    Returns:
        An array (num_segments, *rest) of the dtype of `data`, where rest are its other axes.

    Raises:
        ShapeError, DTypeError: as `segment_sum`, and for complex numbers.

    Example:
        >>> segment_min(tnp.array([2.0, 3.0, 4.0]), tnp.array([0, 2, 0]), 3).tolist()
        [2.0, inf, 3.0]
    """
    return _combined("segment_min", Op.MIN, data, segment_ids, num_segments, mode)
