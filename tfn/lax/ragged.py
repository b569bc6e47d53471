"""Ragged products: rows of groups of different sizes, each with a matrix of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tfn import numpy as tnp
from tfn._support.validate import shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import DTypeLike
from tfn.eager.operands import apply
from tfn.errors import ArgumentError, NotAvailableError
from tfn.lax import elementwise
from tfn.lax.branches import cond
from tfn.lax.contraction import DotNumbers, dot_general
from tfn.lax.dynamic_indexing import dynamic_slice_in_dim
from tfn.lax.loops import scan
from tfn.lax.movement import broadcast_in_dim, broadcasted_iota, expand_dims, full, transpose
from tfn.lax.operand import array
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const
from tfn.transforms.custom_jvp import custom_jvp

MIN_GROUPS_TO_LOOP = 8
"""Groups from which on each row is multiplied with the one matrix of its group.

Of fewer, a product with all matrices skips most tiles of other groups, and is as fast.
"""

MAX_ROWS_ALONE = 2
"""Rows of a group, on average, up to which each is a product of a vector: 8 rows of 64 groups of
(1024, 512) took 20 ms with all matrices, and take 1.2."""

MAX_TILE_ROWS = 128
"""Rows of a tile, at the most: up to there a tile holds a quarter more than an average group, so
that most groups are one."""


class RaggedDotDimensionNumbers(NamedTuple):
    """The axes of a ragged product.

    Attributes:
        dot_dimension_numbers: as those of `dot_general`.
        lhs_ragged_dimensions: the one axis of lhs that is divided into groups.
        rhs_group_dimensions: the axis of rhs with a matrix for each group, or none.
    """

    dot_dimension_numbers: DotNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Multiplies rows of lhs (m, k) with the matrix of their group, one of rhs (groups, k, n).

    The first ``group_sizes[0]`` rows belong to the first group, and so on; rows after the last
    group give zeros.  Of many groups each row, or each tile of the rows of a group, is multiplied
    with the one matrix of its group; of few, in tiles, with those of all groups in the tile.

    Args:
        lhs: rows in the order of their groups, shape (m, k).
        rhs: one matrix for each group, shape (groups, k, n), of the dtype of `lhs`.
        group_sizes: number of rows of each group, integers of shape (groups,).
        precision: accepted as in JAX and ignored: products are always computed as exactly as
            possible.
        preferred_element_type: dtype of the result; that of the operands if None.

    Returns:
        An array (m, n).

    Raises:
        ShapeError: unless the shapes are (m, k), (groups, k, n) and (groups,).

    Example:
        >>> from tfn import lax
        >>> x, w = lax.full((3, 1), 1.0), lax.reshape(lax.iota("float32", 2), (2, 1, 1))
        >>> lax.ragged_dot(x, w, np.array([1, 2])).tolist()
        [[0.0], [1.0], [1.0]]
    """
    x, w, sizes = array(lhs), array(rhs), array(group_sizes)
    if len(x.shape) != 2 or len(w.shape) != 3 or sizes.shape != w.shape[:1]:
        raise unfit(
            "ragged_dot needs shapes (m, k), (groups, k, n) and (groups,)",
            (x, w, sizes),
            "stack the matrices of the groups along the first axis",
        )
    many = len(w) >= MIN_GROUPS_TO_LOOP and 0 not in (*x.shape, *w.shape)
    out: Array = (_looped if many else _masked)(x, w, sizes, preferred_element_type)
    return out


def _masked(x: Array, w: Array, sizes: Array, dtype: DTypeLike | None) -> Array:
    """The products of rows with all matrices, of which those of their own groups are selected."""
    every = dot_general(x, w, (((1,), (1,)), ((), ())), None, dtype)
    selected: Array = apply(_of_own_group, [every, sizes])
    return selected


@partial(custom_jvp, nondiff_argnums=(3,))
def _looped(x: Array, w: Array, sizes: Array, dtype: DTypeLike | None) -> Array:
    """The same, of products with the own matrix alone: of each row, or of tiles in a loop."""
    rows, groups = len(x), len(w)
    ends = tnp.cumsum(sizes, dtype="int32")
    row = tnp.arange(rows, dtype="int32")
    group = _segment(ends, row)
    if rows <= groups * MAX_ROWS_ALONE:
        products = dot_general(x, w[group], (((1,), (1,)), ((0,), (0,))), None, dtype)
        return tnp.where((row < ends[-1])[:, None], products, 0)
    height = min(MAX_TILE_ROWS, -(-rows * 5 // (groups * 64)) * 16)
    starts, counts = ends - sizes.astype("int32"), -(-sizes.astype("int32") // height)
    tile_ends = tnp.cumsum(counts, dtype="int32")
    first_tiles = tile_ends - counts
    tile = tnp.arange(-(-rows // height) + groups, dtype="int32")
    own = _segment(tile_ends, tile)
    first = starts[own] + (tile - first_tiles[own]) * height
    padded = tnp.pad(x, ((0, height), (0, 0)))

    def multiplied(first: Array, group: Array) -> Array:
        part = dynamic_slice_in_dim(padded, first, height)
        return dot_general(part, w[group], (((1,), (0,)), ((), ())), None, dtype)

    def nothing(first: Array, group: Array) -> Array:
        return full((height, w.shape[2]), 0, dtype or x.dtype)

    def step(carry: None, each: Any) -> Any:
        used, first, group = each
        return carry, cond(used, multiplied, nothing, first, group)

    _, tiles = scan(step, None, (tile < tile_ends[-1], first, own))
    place = first_tiles[group] * height + row - starts[group]
    products = tiles.reshape(-1, w.shape[2])[place]
    return tnp.where((row < ends[-1])[:, None], products, 0)


@_looped.defjvp
def _looped_jvp(dtype: DTypeLike | None, primals: Any, tangents: Any) -> Any:
    """A product is linear in each factor; masked ones are differentiated again."""
    (x, w, sizes), (dx, dw, _) = primals, tangents
    tangent = _masked(dx, w, sizes, dtype) + _masked(x, dw, sizes, dtype)
    return _looped(x, w, sizes, dtype), tangent


def _segment(ends: Array, at: Array) -> Array:
    """The segment that a position is in; the last one for those behind it."""
    found = tnp.searchsorted(ends, at, side="right")
    return tnp.minimum(found, len(ends) - 1).astype("int32")


def _of_own_group(products: UOp, sizes: UOp) -> UOp:
    """The product of each row with the matrix of its group: f[m, groups, n] -> f[m, n].

    Masks are computed of the ends of groups here, for tiles that they hide to be skipped.
    """
    ends = running(sizes, Op.ADD)
    row = build.iota(products.shape, 0, ends.dtype)
    end, begin = (build.broadcast_in_dim(u, products.shape, (1,)) for u in (ends, ends - sizes))
    zero = const(0, products.dtype, products.shape)
    return build.add_up(build.where((begin <= row) & (row < end), products, zero), (1,))


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: object = None,
    out_sharding: Any = None,
) -> Array:
    """A product as that of `dot_general`, along one axis of which lhs is divided into groups.

    The first ``group_sizes[0]`` elements along the ragged axis are of the first group, and so on;
    those behind the last group count as zero.  The ragged axis is one of three kinds:

    1. neither contracted nor of the batch: each group has a matrix of its own, along the group
       axis of rhs;
    2. contracted: each group gives a result of its own, along a new axis in front;
    3. of the batch: groups change nothing.

    The elements of other groups are masked, so the work is that of as many products as groups.

    Args:
        lhs, rhs: arrays of one dtype.
        group_sizes: integers, the groups along the last axis; the axes before it are the batch
            axes and the axes of the ragged one's kind that come before it, or there are none.
        ragged_dot_dimension_numbers: the axes.
        precision: accepted as in JAX and ignored.
        preferred_element_type: dtype of the result; that of the operands if None.
        group_offset: None.
        out_sharding: how the result is divided, as for `dot_general`.

    Raises:
        ArgumentError: for axes that are no ragged product.
        ShapeError: for shapes that do not fit.
        NotAvailableError: for a group_offset.

    Example:
        >>> from tfn import lax
        >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
        >>> x, y = lax.full((3, 1), 2.0), lax.reshape(lax.iota("float32", 3), (3, 1))
        >>> lax.ragged_dot_general(x, y, np.array([1, 2]), numbers).tolist()
        [[[0.0]], [[6.0]]]
    """
    if group_offset is not None:
        raise NotAvailableError(
            "ragged_dot_general begins with the first group", got=f"group_offset={group_offset}"
        )
    x, y, sizes = array(lhs), array(rhs), array(group_sizes)
    numbers = ragged_dot_dimension_numbers
    (contract_x, contract_y), (batch_x, batch_y) = numbers.dot_dimension_numbers
    cx, bx = _axes(contract_x, x.ndim), _axes(batch_x, x.ndim)
    cy, by = _axes(contract_y, y.ndim), _axes(batch_y, y.ndim)
    ragged, groups = (
        _axes(numbers.lhs_ragged_dimensions, x.ndim),
        _axes(numbers.rhs_group_dimensions, y.ndim),
    )
    free = len(ragged) == 1 and ragged[0] not in (*cx, *bx)
    if len(ragged) != 1 or len(groups) != (1 if free else 0):
        raise ArgumentError(
            "ragged_dot_general needs one ragged axis of lhs, and a group axis of rhs where that "
            "is neither contracted nor of the batch",
            got=shown(numbers),
        )
    at = ragged[0]
    product = partial(
        dot_general,
        precision=precision,
        preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )
    if at in bx:
        return product(x, y, ((cx, cy), (bx, by)))
    own = cx if at in cx else [a for a in range(x.ndim) if a not in (*cx, *bx)]
    before = [*bx, *own[: own.index(at)]]
    wide_x = _of_groups(x, sizes, at, before)

    def up(axes: Sequence[int]) -> list[int]:
        return [axis + 1 for axis in axes]

    if free:
        return product(wide_x, y, (([*up(cx), 0], [*cy, groups[0]]), (up(bx), by)))
    order = [*by, *(cy[cx.index(axis)] for axis in before if axis in cx)]
    wide_y = _of_groups(y, sizes, cy[cx.index(at)], order)
    return product(wide_x, wide_y, ((up(cx), up(cy)), ([0, *up(bx)], [0, *up(by)])))


def _axes(axes: Sequence[int], ndim: int) -> list[int]:
    return [int(axis) % ndim for axis in axes]


def _of_groups(x: Array, sizes: Array, at: int, before: Sequence[int]) -> Array:
    """An array for each group along a new first axis, with zeros in the place of other groups.

    Raises:
        ShapeError: for sizes that are neither of one axis, nor of the axes `before` and one more.
    """
    if sizes.ndim > 1 and sizes.shape[:-1] != tuple(x.shape[axis] for axis in before):
        raise unfit(
            "ragged_dot_general needs group_sizes for each index of the axes before the ragged one",
            (x, sizes),
            "group_sizes of one axis are the same for all",
        )
    count = sizes.shape[-1]
    ends = apply(_ends_along_last, [sizes])
    shape = (count, *x.shape)
    places = [axis + 1 for axis in before] if sizes.ndim > 1 else []
    moved = [sizes.ndim - 1, *range(sizes.ndim - 1)]

    def wide(y: Array) -> Array:
        at_axes = (0, *places)
        order = np.argsort(at_axes)
        first = transpose(transpose(y, moved), [int(i) for i in order])
        return broadcast_in_dim(first, shape, tuple(int(at_axes[i]) for i in order))

    row = broadcasted_iota(ends.dtype, shape, at + 1)
    mine = elementwise.bitwise_and(
        elementwise.ge(row, wide(elementwise.sub(ends, sizes))), elementwise.lt(row, wide(ends))
    )
    full = broadcast_in_dim(expand_dims(x, (0,)), shape, tuple(range(len(shape))))
    return elementwise.select(mine, full, 0)


def _ends_along_last(sizes: UOp) -> UOp:
    order = [sizes.ndim - 1, *range(sizes.ndim - 1)]
    back = [*range(1, sizes.ndim), 0]
    return build.permute(running(build.permute(sizes, order), Op.ADD), back)
