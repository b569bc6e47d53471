"""Movement of sparse arrays: transpose, reshape, slice, concatenate, by arithmetic on indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn.errors import ArgumentError, NotAvailableError
from tfn.experimental.sparse.conversions import bcoo_update_layout
from tfn.experimental.sparse.coordinates import (
    Sparse,
    flat_index,
    full_batch,
    inside,
    padding,
    parts,
    unraveled,
)
from tfn.lax import broadcasted_iota
from tfn.lax import dynamic_slice as lax_dynamic_slice


def bcoo_transpose(mat: Any, *, permutation: Sequence[int]) -> Any:
    """Axes in another order, in which batch, sparse and dense ones stay in their groups.

    Raises:
        ArgumentError: for an order that is none.
        NotAvailableError: if an axis would leave its group.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> bcoo_transpose(sparse.BCOO.fromdense(tnp.ones((2, 3))), permutation=(1, 0)).shape
        (3, 2)
    """
    order = tuple(int(axis) % max(mat.ndim, 1) for axis in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise ArgumentError(
            "bcoo_transpose needs each axis once", got=f"permutation={tuple(permutation)}"
        )
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    groups = order[:first], order[first:last], order[last:]
    if any(sorted(g) != list(range(*b)) for g, b in zip(groups, _bounds(mat), strict=True)):
        raise NotAvailableError(
            "a sparse array is transposed within its batch, sparse and dense axes",
            got=f"permutation={order}, n_batch={mat.n_batch}, n_dense={mat.n_dense}",
            hint="update_layout(n_batch=0, n_dense=0) makes all axes sparse",
        )
    batch, sparse = groups[0], [axis - first for axis in groups[1]]
    dense = [first + 1 + axis - last for axis in groups[2]]
    data = mat.data.transpose((*batch, first, *dense))
    indices = mat.indices.transpose((*batch, first, first + 1))[..., np.asarray(sparse, int)]
    shape = [mat.shape[axis] for axis in order]
    in_order = mat.indices_sorted and list(groups[1]) == sorted(groups[1])
    return mat.like(data, indices, shape, in_order, mat.unique_indices)


def _bounds(mat: Sparse) -> tuple[tuple[int, int], ...]:
    """The first axis of each group, and the one behind its last."""
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    return (0, first), (first, last), (last, mat.ndim)


def bcoo_reshape(
    mat: Any,
    *,
    new_sizes: Sequence[int],
    dimensions: Sequence[int] | None = None,
    sharding: object = None,
) -> Any:
    """The elements in row-major order in another shape.

    Batch axes and dense axes are reshaped each by themselves where the new sizes allow it;
    otherwise they become sparse ones.

    Args:
        new_sizes: the sizes.
        dimensions: an order of the axes to take first.
        sharding: accepted, and changes nothing.

    Raises:
        ArgumentError: for sizes of another number of elements.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.eye(4))
        >>> bcoo_reshape(mat, new_sizes=(2, 8)).indices.tolist()
        [[0, 0], [0, 5], [1, 2], [1, 7]]
    """
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new = tuple(map(int, new_sizes))
    if prod(new) != prod(mat.shape):
        raise ArgumentError(
            "bcoo_reshape needs sizes of as many elements",
            got=f"{new} instead of {mat.shape}",
        )
    batch, sparse, dense = parts(mat)
    n_batch, n_dense = _prefix(new, prod(batch)), _prefix(new[::-1], prod(dense))
    if n_batch is None or n_dense is None or n_batch + n_dense > len(new):
        mat = bcoo_update_layout(mat, n_batch=0, n_dense=0)
        sparse, n_batch, n_dense = mat.shape, 0, 0
    elif not batch:
        n_batch = 0
    if not mat.n_dense:
        n_dense = 0
    last = len(new) - n_dense
    data, indices = full_batch(mat)
    nse = indices.shape[mat.n_batch]
    data = data.reshape(*new[:n_batch], nse, *new[last:])
    flat = flat_index(indices, sparse)
    rows = unraveled(flat, new[n_batch:last], indices.dtype)
    rows = rows.reshape(*new[:n_batch], nse, last - n_batch)
    return mat.like(data, rows, new, mat.indices_sorted, mat.unique_indices)


def _prefix(sizes: Sequence[int], count: int) -> int | None:
    """The number of first sizes whose product is `count`, None if there is none."""
    total = 1
    for i, n in enumerate((*sizes, 1)):
        if total == count:
            return i
        total *= n
    return None


def bcoo_broadcast_in_dim(
    mat: Any,
    *,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    sharding: object = None,
) -> Any:
    """The elements repeated along new axes, and along axes of size one.

    Args:
        shape: of the result.
        broadcast_dimensions: the axis of the result that each axis becomes, in order.
        sharding: accepted, and changes nothing.

    Raises:
        ArgumentError: for shapes that do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.asarray([0.0, 5.0]))
        >>> bcoo_broadcast_in_dim(mat, shape=(2, 2), broadcast_dimensions=(1,)).todense().tolist()
        [[0.0, 5.0], [0.0, 5.0]]
    """
    shape, at = tuple(shape), tuple(broadcast_dimensions)
    sizes = [shape[axis] for axis in at]
    fits = all(n in (1, m) for n, m in zip(mat.shape, sizes, strict=True))
    if not fits or list(at) != sorted(set(at)):
        raise ArgumentError(
            "bcoo_broadcast_in_dim needs a shape that the array fits into",
            got=f"{mat.shape} into {shape} at {at}",
        )
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    new_batch = at[first - 1] + 1 if first else 0
    new_dense_from = at[last] if mat.n_dense else len(shape)
    data, indices = mat.data, mat.indices
    # New axes among the batch ones and the dense ones are of the buffers; others are sparse.
    rest_data, rest_rows = data.shape[first:], indices.shape[first:]
    lead = [1] * new_batch
    for i, axis in enumerate(at[:first]):
        lead[axis] = data.shape[i]
    rows_lead = [1] * new_batch
    for i, axis in enumerate(at[:first]):
        rows_lead[axis] = indices.shape[i]
    tail = [1] * (len(shape) - new_dense_from)
    for i, axis in enumerate(at[last:]):
        tail[axis - new_dense_from] = rest_data[1 + i]
    nse = rest_data[0]
    data = data.reshape(*lead, nse, *tail)
    data = tnp.broadcast_to(data, (*shape[:new_batch], nse, *shape[new_dense_from:]))
    indices = indices.reshape(*rows_lead, *rest_rows)
    indices = tnp.broadcast_to(indices, (*shape[:new_batch], *rest_rows))
    kept = {axis: i for i, axis in enumerate(at[first:last])}
    old = parts(mat)[1]
    there = inside(indices, old)
    column_of: list[Any] = []
    repeated = 1
    for axis in range(new_batch, new_dense_from):
        if axis in kept and old[kept[axis]] == shape[axis]:
            column_of.append(indices[..., kept[axis]])
            continue
        column_of.append(None)
        repeated *= shape[axis]
    new = [a - new_batch for a in range(new_batch, new_dense_from)]
    grid = [shape[new_batch + a] for a in new if column_of[a] is None]
    counts = [
        broadcasted_iota(indices.dtype, grid, axis).reshape(repeated) for axis in range(len(grid))
    ]
    lanes = (*shape[:new_batch], nse, repeated)
    rows, number = [], 0
    for a in new:
        if column_of[a] is None:
            rows.append(tnp.broadcast_to(counts[number], lanes))
            number += 1
        else:
            rows.append(tnp.broadcast_to(column_of[a][..., None], lanes))
    total = nse * repeated
    full = tnp.stack(rows, -1) if rows else tnp.zeros((*lanes, 0), indices.dtype)
    sparse = shape[new_batch:new_dense_from]
    full = tnp.where(there[..., None, None], full, padding(sparse, full))
    full = full.reshape(*shape[:new_batch], total, len(rows))
    data = tnp.repeat(data, repeated, axis=new_batch)
    return mat.like(data, full, shape, False, mat.unique_indices)


def bcoo_squeeze(arr: Any, *, dimensions: Sequence[int]) -> Any:
    """The array without some axes of size one.

    Raises:
        ArgumentError: for an axis of another size.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> bcoo_squeeze(sparse.BCOO.fromdense(tnp.ones((1, 3))), dimensions=(0,)).shape
        (3,)
    """
    axes = sorted({axis % arr.ndim for axis in dimensions})
    if any(arr.shape[axis] != 1 for axis in axes):
        raise ArgumentError(
            "bcoo_squeeze removes axes of size one",
            got=f"dimensions={tuple(dimensions)} of {arr.shape}",
        )
    first, last = arr.n_batch, arr.ndim - arr.n_dense
    batch = [axis for axis in axes if axis < first]
    kept = np.asarray([axis - first for axis in range(first, last) if axis not in axes], int)
    dense = [first + 1 + axis - last for axis in axes if axis >= last]
    data = arr.data.squeeze((*batch, *dense)) if batch or dense else arr.data
    there = inside(arr.indices, parts(arr)[1])
    shape = [n for axis, n in enumerate(arr.shape) if axis not in axes]
    rows = arr.indices[..., kept]
    rows = tnp.where(there[..., None], rows, padding([arr.shape[first + k] for k in kept], rows))
    if len(kept) < arr.n_sparse and not len(kept):  # padding has no place any more: it is zero
        mask = there.reshape(*there.shape, *(1,) * (arr.n_dense - len(dense)))
        data = tnp.where(mask.squeeze(tuple(batch)) if batch else mask, data, 0)
    indices = rows.squeeze(tuple(batch)) if batch else rows
    return arr.like(data, indices, shape, arr.indices_sorted, arr.unique_indices)


def bcoo_rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """The array reversed along some axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> bcoo_rev(sparse.BCOO.fromdense(tnp.asarray([0, 5])), (0,)).todense().tolist()
        [5, 0]
    """
    axes = {axis % operand.ndim for axis in dimensions}
    first, last = operand.n_batch, operand.ndim - operand.n_dense
    sparse = parts(operand)[1]
    data, indices = full_batch(operand)
    for axis in axes:
        if axis < first:
            data, indices = tnp.flip(data, axis), tnp.flip(indices, axis)
        elif axis >= last:
            data = tnp.flip(data, first + 1 + axis - last)
    there = inside(indices, sparse)
    turned = [
        n - 1 - indices[..., i] if first + i in axes else indices[..., i]
        for i, n in enumerate(sparse)
    ]
    if turned:
        rows = tnp.stack(turned, -1)
        indices = tnp.where(there[..., None], rows, padding(sparse, rows))
    return operand.like(data, indices, operand.shape, False, operand.unique_indices)


def bcoo_slice(
    mat: Any,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Each axis from a start to a limit, by a stride.

    Raises:
        ArgumentError: for bounds that leave the array.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.arange(6))
        >>> bcoo_slice(mat, start_indices=(1,), limit_indices=(6,), strides=(2,)).todense().tolist()
        [1, 3, 5]
    """
    start, stop = tuple(start_indices), tuple(limit_indices)
    step = tuple(strides) if strides is not None else (1,) * mat.ndim
    fits = len(start) == len(stop) == len(step) == mat.ndim and all(
        0 <= a <= b <= n and s > 0 for a, b, s, n in zip(start, stop, step, mat.shape, strict=True)
    )
    if not fits:
        raise ArgumentError(
            "bcoo_slice needs bounds within the array",
            got=f"{start} to {stop} by {step} of {mat.shape}",
        )
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    cut = [slice(a, b, s) for a, b, s in zip(start, stop, step, strict=True)]
    data, indices = full_batch(mat)
    data = data[(*cut[:first], slice(None), *cut[last:])]
    indices = indices[tuple(cut[:first])]
    shape = [len(range(a, b, s)) for a, b, s in zip(start, stop, step, strict=True)]
    if first == last:
        return mat.like(data, indices, shape, mat.indices_sorted, mat.unique_indices)
    low, high, by = (
        tnp.asarray(np.asarray(x[first:last], indices.dtype)) for x in (start, stop, step)
    )
    moved = indices - low
    there = ((indices >= low) & (indices < high) & (moved % by == 0)).all(-1)
    rows = tnp.where(there[..., None], moved // by, padding(shape[first:last], indices))
    mask = there.reshape(*there.shape, *(1,) * mat.n_dense)
    return mat.like(tnp.where(mask, data, 0), rows, shape, False, mat.unique_indices)


def bcoo_dynamic_slice(mat: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """A window of fixed sizes at a start that may be traced, which is moved to where it fits.

    Raises:
        ArgumentError: without a start and a size for each axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.arange(6))
        >>> bcoo_dynamic_slice(mat, [tnp.asarray(4)], (3,)).todense().tolist()
        [3, 4, 5]
    """
    sizes = tuple(slice_sizes)
    if not len(start_indices) == len(sizes) == mat.ndim:
        raise ArgumentError(
            "bcoo_dynamic_slice needs a start and a size for each axis",
            got=f"{len(start_indices)} and {len(sizes)} for {mat.ndim}",
        )
    if any(not 0 <= s <= n for s, n in zip(sizes, mat.shape, strict=True)):
        raise ArgumentError(
            "bcoo_dynamic_slice needs sizes within the array", got=f"{sizes} of {mat.shape}"
        )
    starts = [tnp.asarray(s) for s in start_indices]
    starts = [
        tnp.clip(tnp.where(s < 0, s + n, s), 0, n - size)
        for s, n, size in zip(starts, mat.shape, sizes, strict=True)
    ]
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    data, indices = full_batch(mat)
    nse = indices.shape[first]
    data = lax_dynamic_slice(
        data, [*starts[:first], 0, *starts[last:]], (*sizes[:first], nse, *sizes[last:])
    )
    indices = lax_dynamic_slice(
        indices, [*starts[:first], 0, 0], (*sizes[:first], nse, mat.n_sparse)
    )
    if first == last:
        return mat.like(data, indices, sizes, mat.indices_sorted, mat.unique_indices)
    moved = indices - tnp.stack([s.astype(indices.dtype) for s in starts[first:last]])
    there = ((moved >= 0) & (moved < padding(sizes[first:last], moved))).all(-1)
    rows = tnp.where(there[..., None], moved, padding(sizes[first:last], moved))
    mask = there.reshape(*there.shape, *(1,) * mat.n_dense)
    return mat.like(tnp.where(mask, data, 0), rows, sizes, False, mat.unique_indices)


def bcoo_concatenate(operands: Sequence[Any], *, dimension: int) -> Any:
    """Arrays one behind the other along an axis.

    Raises:
        ArgumentError: for arrays of other shapes or layouts.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.asarray([0.0, 5.0]))
        >>> bcoo_concatenate([mat, mat], dimension=0).todense().tolist()
        [0.0, 5.0, 0.0, 5.0]
    """
    if not operands:
        raise ArgumentError("bcoo_concatenate needs at least one array", got="none")
    mat, axis = operands[0], dimension % max(operands[0].ndim, 1)
    layouts = {(m.n_batch, m.n_dense, m.ndim) for m in operands}
    rests = {(*m.shape[:axis], *m.shape[axis + 1 :]) for m in operands}
    if len(layouts) > 1 or len(rests) > 1 or not mat.ndim:
        raise ArgumentError(
            "bcoo_concatenate needs arrays of one layout, of the same sizes but along the axis",
            got=", ".join(map(repr, operands)),
        )
    sizes = [m.shape[axis] for m in operands]
    shape = (*mat.shape[:axis], sum(sizes), *mat.shape[axis + 1 :])
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    dtype = tnp.result_type(*(m.data for m in operands))
    full = [(d.astype(dtype), i) for d, i in map(full_batch, operands)]
    if first <= axis < last:
        sparse = shape[first:last]
        rows = []
        for (_, indices), m, low in zip(full, operands, np.cumsum([0, *sizes[:-1]]), strict=True):
            shift = np.zeros(mat.n_sparse, indices.dtype)
            shift[axis - first] = low
            there = inside(indices, parts(m)[1])[..., None]
            rows.append(tnp.where(there, indices + tnp.asarray(shift), padding(sparse, indices)))
        data = tnp.concatenate([d for d, _ in full], first)
        return mat.like(data, tnp.concatenate(rows, first), shape, False, _all_unique(operands))
    most = max(i.shape[first] for _, i in full)
    if axis < first:
        roomy = [_roomy(d, i, first, most, parts(mat)[1]) for d, i in full]
        data = tnp.concatenate([d for d, _ in roomy], axis)
        return mat.like(data, tnp.concatenate([i for _, i in roomy], axis), shape)
    at = first + 1 + axis - last
    wide = []
    for number, (d, _) in enumerate(full):
        before, after = sum(sizes[:number]), sum(sizes[number + 1 :])
        pads = [(0, 0)] * d.ndim
        pads[at] = (before, after)
        wide.append(tnp.pad(d, pads))
    indices = tnp.concatenate([i for _, i in full], first)
    return mat.like(tnp.concatenate(wide, first), indices, shape)


def _all_unique(operands: Sequence[Any]) -> bool:
    return all(m.unique_indices for m in operands)


def _roomy(
    data: Any, indices: Any, n_batch: int, nse: int, sparse: Sequence[int]
) -> tuple[Any, Any]:
    """Data and indices with padding behind."""
    more = nse - indices.shape[n_batch]
    pads = [(0, 0)] * data.ndim
    pads[n_batch] = (0, more)
    extra = tnp.broadcast_to(
        padding(sparse, indices), (*indices.shape[:n_batch], more, indices.shape[-1])
    )
    return tnp.pad(data, pads), tnp.concatenate([indices, extra], n_batch)
