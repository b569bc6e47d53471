"""Sums and products, element by element, of sparse arrays: on the data where it is possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn.errors import ArgumentError, NotAvailableError
from tfn.experimental.sparse.conversions import bcoo_update_layout
from tfn.experimental.sparse.coordinates import (
    full_batch,
    gathered,
    inside,
    over_batch,
    padding,
    parts,
)
from tfn.experimental.sparse.movement import bcoo_broadcast_in_dim, bcoo_squeeze


def added(a: Any, b: Any) -> Any:
    """The sum of two sparse arrays of one shape: the elements of both.

    Raises:
        ArgumentError: for arrays of two shapes.
    """
    if a.shape != b.shape:
        raise ArgumentError(
            "a sum of sparse arrays needs arrays of one shape",
            got=f"{a.shape} and {b.shape}",
            hint="bcoo_broadcast_in_dim repeats one of them",
        )
    if (a.n_batch, a.n_dense) != (b.n_batch, b.n_dense):
        n_batch, n_dense = min(a.n_batch, b.n_batch), min(a.n_dense, b.n_dense)
        a, b = (bcoo_update_layout(x, n_batch=n_batch, n_dense=n_dense) for x in (a, b))
    (da, ia), (db, ib) = full_batch(a), full_batch(b)
    dtype = tnp.result_type(a.data, b.data)
    data = tnp.concatenate([da.astype(dtype), db.astype(dtype)], a.n_batch)
    return a.like(data, tnp.concatenate([ia, ib.astype(ia.dtype)], a.n_batch), a.shape)


def bcoo_multiply_dense(sp_mat: Any, v: Any) -> Any:
    """The product, element by element, with a dense array that broadcasts to it.

    Returns:
        The data of the product: its indices are those of the sparse array.

    Raises:
        ArgumentError: for an array that does not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.eye(2))
        >>> bcoo_multiply_dense(mat, tnp.asarray([3.0, 5.0])).tolist()
        [3.0, 5.0]
    """
    v = tnp.asarray(v)
    shape = (*(1,) * (sp_mat.ndim - v.ndim), *v.shape)
    if v.ndim > sp_mat.ndim or any(
        n not in (1, m) for n, m in zip(shape, sp_mat.shape, strict=True)
    ):
        raise ArgumentError(
            "a product with a sparse array needs an array that broadcasts to its shape",
            got=f"{v.shape} to {sp_mat.shape}",
        )
    data, indices = full_batch(sp_mat)
    if v.size == 1 and not v.ndim:
        return data * v
    batch, sparse, _ = parts(sp_mat)
    v = v.reshape(shape)
    first = len(batch)
    kept = np.asarray([i for i in range(len(sparse)) if shape[first + i] != 1], int)
    v = v.reshape([n for i, n in enumerate(shape) if not 0 <= i - first < len(sparse) or n != 1])
    v = tnp.broadcast_to(v, (*batch, *v.shape[first:]))
    taken = over_batch(lambda x, rows: gathered(x, rows[:, kept]), first)(v, indices)
    return data * taken


def bcoo_multiply_sparse(lhs: Any, rhs: Any) -> Any:
    """The product, element by element, of two sparse arrays that broadcast to each other.

    Raises:
        ArgumentError: for shapes that do not broadcast.
        NotAvailableError: for arrays of two layouts.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.asarray([0.0, 2.0, 3.0]))
        >>> bcoo_multiply_sparse(mat, mat).todense().tolist()
        [0.0, 4.0, 9.0]
    """
    shape = tuple(np.broadcast_shapes(lhs.shape, rhs.shape))
    lhs, rhs = (_broadcast(m, shape) for m in (lhs, rhs))
    n_batch, n_dense = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch, n_dense=n_dense) for m in (lhs, rhs))
    sparse = parts(lhs)[1]
    dtype = tnp.result_type(lhs.data, rhs.data)

    def pairs(dl: Any, il: Any, dr: Any, ir: Any) -> tuple[Any, Any]:
        nl, nr = il.shape[0], ir.shape[0]
        same = (il[:, None] == ir[None, :]).all(-1) & inside(il, sparse)[:, None]
        mask = same.reshape(nl, nr, *(1,) * n_dense)
        data = tnp.where(mask, dl[:, None].astype(dtype) * dr[None].astype(dtype), 0)
        rows = tnp.where(same[..., None], il[:, None], padding(sparse, il))
        return data.reshape(nl * nr, *data.shape[2:]), rows.reshape(nl * nr, il.shape[1])

    data, indices = over_batch(pairs, n_batch)(*full_batch(lhs), *full_batch(rhs))
    return lhs.like(data, indices, shape, False, lhs.unique_indices and rhs.unique_indices)


def _broadcast(mat: Any, shape: Sequence[int]) -> Any:
    """A sparse array repeated to a shape by NumPy's rule."""
    if mat.shape == tuple(shape):
        return mat
    if mat.n_batch and len(shape) > mat.ndim:
        mat = bcoo_update_layout(mat, n_batch=0)
    at = range(len(shape) - mat.ndim, len(shape))
    return bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=tuple(at))


def bcoo_reduce_sum(mat: Any, *, axes: Sequence[int]) -> Any:
    """The sum over some axes: the same elements, without their indices there.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> bcoo_reduce_sum(sparse.BCOO.fromdense(tnp.eye(3)), axes=(0,)).todense().tolist()
        [1.0, 1.0, 1.0]
    """
    gone = sorted({axis % max(mat.ndim, 1) for axis in axes})
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    data, indices = full_batch(mat)
    batch = [axis for axis in gone if axis < first]
    dense = tuple(first + 1 + axis - last for axis in gone if axis >= last)
    sparse = parts(mat)[1]
    kept = np.asarray([i for i in range(len(sparse)) if first + i not in gone], int)
    if dense:
        data = data.sum(dense)
    if len(kept) < len(sparse):
        there = inside(indices, sparse)
        rest = [sparse[i] for i in kept]
        if not rest:  # padding has no place any more: it is zero
            data = tnp.where(there.reshape(*there.shape, *(1,) * (data.ndim - there.ndim)), data, 0)
        indices = indices[..., kept]
        indices = tnp.where(there[..., None], indices, padding(rest, indices))
    shape = [n for axis, n in enumerate(mat.shape) if axis not in gone]
    if batch:
        order = [*(a for a in range(first) if a not in batch), *batch]
        data = data.transpose((*order, *range(first, data.ndim)))
        indices = indices.transpose((*order, first, first + 1))
        count = first - len(batch)
        data = data.reshape(*data.shape[:count], -1, *data.shape[first + 1 :])
        indices = indices.reshape(*indices.shape[:count], data.shape[count], indices.shape[-1])
    return mat.like(data, indices, shape)


def unary(function: Any, mat: Any) -> Any:
    """A function that is zero at zero, of each element: duplicates must have been added up."""
    return mat.like(
        function(mat.data), mat.indices, mat.shape, mat.indices_sorted, mat.unique_indices
    )


def bcoo_conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: Any = None,
) -> Any:
    """A convolution of one sparse line with a sparse window: shapes (1, 1, n) and (1, 1, k).

    Args:
        lhs, rhs: sparse, with one batch, one feature and one axis of space.
        window_strides: (1,).
        padding: ((low, high),), "VALID" or "SAME".
        lhs_dilation, rhs_dilation, dimension_numbers: as in `tfn.lax.conv_general_dilated`;
            only dilations of one.
        feature_group_count, batch_group_count: 1.
        precision: accepted; there is one precision.
        preferred_element_type: the dtype of the result; promoted from the operands if None.

    Raises:
        NotAvailableError: for any other convolution.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> line = sparse.BCOO.fromdense(tnp.arange(4.0).reshape(1, 1, 4))
        >>> window = sparse.BCOO.fromdense(tnp.asarray([[[1.0, 10.0]]]))
        >>> bcoo_conv_general_dilated(
        ...     line, window, window_strides=(1,), padding="VALID").todense().tolist()
        [[[10.0, 21.0, 32.0]]]
    """
    sizes_l, sizes_r = lhs.shape, rhs.shape
    plain = (
        len(sizes_l) == len(sizes_r) == 3
        and sizes_l[:2] == sizes_r[:2] == (1, 1)
        and tuple(window_strides) == (1,)
        and all(d is None or tuple(d) == (1,) for d in (lhs_dilation, rhs_dilation))
        and feature_group_count == batch_group_count == 1
    )
    if not plain:
        raise NotAvailableError(
            "a convolution of sparse arrays is of one line with one window, without strides",
            got=f"{sizes_l} with {sizes_r}, window_strides={tuple(window_strides)}",
            hint="todense() one of them",
        )
    n, k = sizes_l[2], sizes_r[2]
    if padding == "VALID":
        low, high = 0, 0
    elif padding == "SAME":
        low, high = (k - 1) // 2, k - 1 - (k - 1) // 2
    else:
        ((low, high),) = padding
    length = n + low + high - k + 1
    line, window = (bcoo_update_layout(m, n_batch=0, n_dense=0) for m in (lhs, rhs))
    line = bcoo_squeeze(line, dimensions=(0, 1))
    window = bcoo_squeeze(window, dimensions=(0, 1))
    dtype = preferred_element_type or tnp.result_type(lhs.data, rhs.data)
    at = line.indices[:, None, 0] + low - window.indices[None, :, 0]
    there = (at >= 0) & (at < length)
    there = there & inside(line.indices, (n,))[:, None] & inside(window.indices, (k,))[None]
    products = line.data[:, None].astype(dtype) * window.data[None].astype(dtype)
    data = tnp.where(there, products, 0).reshape(-1)
    zeros = tnp.where(there, 0, 1).astype(at.dtype)
    rows = tnp.stack([zeros, zeros, tnp.where(there, at, length)], -1).reshape(-1, 3)
    return lhs.like(data, rows, (1, 1, length))
