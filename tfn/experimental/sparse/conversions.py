"""Conversions of coordinates: to and from dense arrays, other layouts, sorted and unique ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn.errors import ArgumentError, ConcretizationTypeError, NotAvailableError
from tfn.experimental.sparse.coordinates import (
    Sparse,
    full_batch,
    gathered,
    inside,
    nonzero,
    number_of_axes,
    over_batch,
    padding,
    parts,
    scattered,
    sorted_rows,
)
from tfn.lax import broadcasted_iota


def stored(mat: Any, n_batch: int, n_dense: int) -> int:
    """The largest number of elements of a batch that are not zero.

    Raises:
        ConcretizationTypeError: for a traced array.
    """
    if mat.owner is not None and not mat.owner.known:
        raise ConcretizationTypeError(
            "the number of elements of a sparse array depends on values",
            got=repr(mat)[:80],
            hint="give it as nse=",
        )
    mask = nonzero(mat, n_batch, n_dense)
    count = mask.sum(tuple(range(n_batch, mask.ndim)))
    return int(count.max()) if count.size else 0


def from_dense(
    mat: Any, nse: int | None, n_batch: int, n_dense: int, index_dtype: Any
) -> tuple[Any, Any]:
    """Data and indices of the elements of a dense array that are not zero.

    Args:
        nse: room for as many elements; those that are missing are padding, those beyond are lost.
    """
    number_of_axes("fromdense", mat.shape, n_batch, n_dense)
    count = stored(mat, n_batch, n_dense) if nse is None else nse
    mask = nonzero(mat, n_batch, n_dense)
    sparse = mask.shape[n_batch:]

    if not sparse:  # one element is all there is: there is no place for padding, which is zero
        indices = tnp.zeros((*mat.shape[:n_batch], count, 0), index_dtype)
        data = over_batch(gathered, n_batch)(mat, indices)
        first = (tnp.arange(count) == 0).reshape(count, *(1,) * n_dense)
        return tnp.where(first, data, 0), indices

    def find(lane: Any) -> Any:
        found = tnp.nonzero(lane, size=count, fill_value=sparse)
        return tnp.stack(found, -1).astype(index_dtype)

    indices = over_batch(find, n_batch)(mask)
    return over_batch(gathered, n_batch)(mat, indices), indices


def to_dense(mat: Sparse) -> Any:
    """The dense array."""
    data, indices = full_batch(mat)
    _, sparse, dense = parts(mat)
    shape = (*sparse, *dense)
    return over_batch(lambda d, i: scattered(shape, i, d), mat.n_batch)(data, indices)


def bcoo_extract(sparr: Any, arr: Any, *, assume_unique: bool | None = None) -> Any:
    """The elements of a dense array at the indices of a sparse one.

    Args:
        sparr: the sparse array, whose elements say where.
        arr: a dense array of its shape.
        assume_unique: whether no index occurs twice; if it does, its first has the element, and
            the others zero.  If None, what the array says of itself.

    Raises:
        ArgumentError: for an array of another shape.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> where = sparse.BCOO.fromdense(tnp.asarray([[0, 1], [1, 0]]))
        >>> bcoo_extract(where, tnp.asarray([[1.0, 2.0], [3.0, 4.0]])).data.tolist()
        [2.0, 3.0]
    """
    array = tnp.asarray(arr)
    if array.shape != sparr.shape:
        raise ArgumentError(
            "bcoo_extract needs a dense array of the shape of the sparse one",
            got=f"{array.shape} and {sparr.shape}",
            hint="broadcast it first",
        )
    _, indices = full_batch(sparr)
    taken = over_batch(gathered, sparr.n_batch)(array, indices)
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    if not unique:
        first = over_batch(_first_of_equals, sparr.n_batch)(indices)
        taken = taken * _over_dense(first, taken)
    return sparr.like(taken, indices, sparr.shape, sparr.indices_sorted, sparr.unique_indices)


def _first_of_equals(indices: Any) -> Any:
    """A mask of the rows of indices that occur for the first time."""
    places = tnp.arange(indices.shape[0])
    ordered, order = sorted_rows(indices, places)
    return tnp.zeros(places.shape, bool).at[order].set(_begins(ordered))


def _begins(ordered: Any) -> Any:
    """A mask of the sorted rows that differ from the one before."""
    rest = (ordered[1:] != ordered[:-1]).any(-1)
    return tnp.concatenate([tnp.ones(min(1, ordered.shape[0]), bool), rest])


def _over_dense(mask: Any, data: Any) -> Any:
    """A mask of elements with an axis of one for each dense axis, of the dtype of the data."""
    return mask.reshape(*mask.shape, *(1,) * (data.ndim - mask.ndim)).astype(data.dtype)


def bcoo_sort_indices(mat: Any) -> Any:
    """The same array with its elements in order of their indices.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO((tnp.asarray([1.0, 2.0]), tnp.asarray([[3], [1]])), shape=(4,))
        >>> bcoo_sort_indices(mat).data.tolist()
        [2.0, 1.0]
    """
    data, indices = full_batch(mat)
    indices, data = over_batch(sorted_rows, mat.n_batch)(indices, data)
    return mat.like(data, indices, mat.shape, True, mat.unique_indices)


def bcoo_sum_duplicates(mat: Any, nse: int | None = None) -> Any:
    """The same array with each index once, in order: what occurs twice is added up.

    Args:
        nse: room for as many elements.  If None, as many as there are, which a traced array does
            not know: it keeps its room.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO((tnp.asarray([1.0, 2.0]), tnp.asarray([[1], [1]])), shape=(4,))
        >>> bcoo_sum_duplicates(mat).data.tolist()
        [3.0]
    """
    data, indices = full_batch(mat)
    sparse = parts(mat)[1]

    def summed(data: Any, indices: Any) -> tuple[Any, Any, Any]:
        rows, values = sorted_rows(indices, data)
        begins = _begins(rows)
        there = inside(rows, sparse)
        number = tnp.cumsum(begins.astype("int32")) - 1
        total = tnp.zeros_like(values).at[number].add(values * _over_dense(there, values))
        kept = tnp.broadcast_to(padding(sparse, rows), rows.shape).at[number].set(rows)
        return total, kept, (begins & there).sum()

    data, indices, count = over_batch(summed, mat.n_batch)(data, indices)
    if nse is None and (count.owner is None or count.owner.known):
        nse = int(count.max()) if count.size else 0
    if nse is not None:
        data, indices = _with_room(data, indices, mat.n_batch, nse, sparse)
    return mat.like(data, indices, mat.shape, True, True)


def _with_room(
    data: Any, indices: Any, n_batch: int, nse: int, sparse: Sequence[int]
) -> tuple[Any, Any]:
    """The first `nse` elements, or all and padding."""
    have = indices.shape[-2]
    front = (slice(None),) * n_batch
    if nse <= have:
        return data[(*front, slice(nse))], indices[(*front, slice(nse))]
    more = nse - have
    zeros = tnp.zeros((*data.shape[:n_batch], more, *data.shape[n_batch + 1 :]), data.dtype)
    rows = tnp.broadcast_to(
        padding(sparse, indices), (*indices.shape[:n_batch], more, indices.shape[-1])
    )
    return (
        tnp.concatenate([data, zeros], n_batch),
        tnp.concatenate([indices, rows], n_batch),
    )


def bcoo_update_layout(
    mat: Any,
    *,
    n_batch: int | None = None,
    n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> Any:
    """The same array with other numbers of batch and dense axes.

    Args:
        n_batch, n_dense: the numbers; as they are if None.
        on_inefficient: ``"error"`` refuses a layout that stores more: more batch or dense axes
            than before.  ``"warn"`` and None allow it.

    Raises:
        NotAvailableError: for a layout that stores more, unless it is allowed.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.BCOO.fromdense(tnp.eye(3), n_batch=1)
        >>> bcoo_update_layout(mat, n_batch=0).n_sparse
        2
    """
    batch = mat.n_batch if n_batch is None else n_batch
    dense = mat.n_dense if n_dense is None else n_dense
    number_of_axes("bcoo_update_layout", mat.shape, batch, dense)
    if on_inefficient == "error" and (batch > mat.n_batch or dense > mat.n_dense):
        raise NotAvailableError(
            "bcoo_update_layout would store more elements than are there",
            got=f"n_batch {mat.n_batch} to {batch}, n_dense {mat.n_dense} to {dense}",
            hint="on_inefficient=None allows it",
        )
    for step, (have, want) in (
        (_batch_to_sparse, (mat.n_batch, batch)),
        (_dense_to_sparse, (mat.n_dense, dense)),
    ):
        if want < have:
            mat = step(mat, have - want)
    for step, (have, want) in (
        (_sparse_to_batch, (mat.n_batch, batch)),
        (_sparse_to_dense, (mat.n_dense, dense)),
    ):
        if want > have:
            mat = step(mat, want - have)
    return mat


def _batch_to_sparse(mat: Any, count: int) -> Any:
    """The last batch axes as sparse ones."""
    data, indices = full_batch(mat)
    kept = mat.n_batch - count
    batch = indices.shape[:-1]
    new = [broadcasted_iota(indices.dtype, batch, axis) for axis in range(kept, mat.n_batch)]
    indices = tnp.concatenate([tnp.stack(new, -1), indices], -1)
    nse = prod(batch[kept:])
    indices = indices.reshape(*batch[:kept], nse, indices.shape[-1])
    data = data.reshape(*batch[:kept], nse, *data.shape[mat.n_batch + 1 :])
    return _padded_whole(mat.like(data, indices, mat.shape, False, mat.unique_indices))


def _padded_whole(mat: Any) -> Any:
    """Padding that is out of bounds along all sparse axes, as a sum over one of them needs."""
    sparse = parts(mat)[1]
    row = padding(sparse, mat.indices)
    indices = tnp.where(inside(mat.indices, sparse)[..., None], mat.indices, row)
    return mat.like(mat.data, indices, mat.shape, mat.indices_sorted, mat.unique_indices)


def _dense_to_sparse(mat: Any, count: int) -> Any:
    """The first dense axes as sparse ones."""
    data, indices = full_batch(mat)
    sizes = data.shape[mat.n_batch + 1 :][:count]
    rest = data.shape[mat.n_batch + 1 + count :]
    grid = (*indices.shape[:-1], *sizes)
    old = indices.reshape(*indices.shape[:-1], *(1,) * count, indices.shape[-1])
    old = tnp.broadcast_to(old, (*grid, indices.shape[-1]))
    first = len(grid) - count
    new = [broadcasted_iota(indices.dtype, grid, axis) for axis in range(first, len(grid))]
    nse = indices.shape[-2] * prod(sizes)
    batch = indices.shape[: mat.n_batch]
    indices = tnp.concatenate([old, tnp.stack(new, -1)], -1)
    indices = indices.reshape(*batch, nse, indices.shape[-1])
    data = data.reshape(*batch, nse, *rest)
    out = mat.like(data, indices, mat.shape, mat.indices_sorted, mat.unique_indices)
    return _padded_whole(out)


def _sparse_to_batch(mat: Any, count: int) -> Any:
    """The first sparse axes as batch axes, of which each has room for all elements."""
    data, indices = full_batch(mat)
    sparse = parts(mat)[1]
    sizes, rest = sparse[:count], sparse[count:]

    def spread(data: Any, indices: Any) -> tuple[Any, Any]:
        grid = (*sizes, indices.shape[0])
        mine = tnp.ones(grid, bool)
        for axis in range(count):
            mine = mine & (indices[:, axis] == broadcasted_iota(indices.dtype, grid, axis))
        kept = indices[:, count:]
        rows = tnp.where(mine[..., None], kept, padding(rest, kept))
        values = tnp.broadcast_to(data, (*sizes, *data.shape))
        return values * _over_dense(mine, values), rows

    data, indices = over_batch(spread, mat.n_batch)(data, indices)
    return mat.like(data, indices, mat.shape, False, mat.unique_indices)


def _sparse_to_dense(mat: Any, count: int) -> Any:
    """The last sparse axes as dense ones."""
    data, indices = full_batch(mat)
    sparse = parts(mat)[1]
    kept, sizes = sparse[: len(sparse) - count], sparse[len(sparse) - count :]

    def spread(data: Any, indices: Any) -> tuple[Any, Any]:
        nse = indices.shape[0]
        number = tnp.arange(nse, dtype=indices.dtype)[:, None]
        at = tnp.concatenate([number, indices[:, len(kept) :]], 1)
        values = scattered((nse, *sizes, *data.shape[1:]), at, data)
        return values, indices[:, : len(kept)]

    data, indices = over_batch(spread, mat.n_batch)(data, indices)
    return mat.like(data, indices, mat.shape, mat.indices_sorted, False)


def from_scipy(mat: Any, index_dtype: Any) -> tuple[Any, Any]:
    """Data and indices of a sparse matrix of SciPy."""
    found = mat.tocoo()
    rows = np.stack([found.row, found.col], -1).astype(index_dtype or "int32")
    return tnp.asarray(found.data), tnp.asarray(rows)
