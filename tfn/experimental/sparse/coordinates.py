"""Coordinates of elements: what the functions of sparse arrays need of them, and helpers.

An array of shape ``(*batch, *sparse, *dense)`` stores ``nse`` elements for each batch::

    data     (*batch, nse, *dense)
    indices  (*batch, nse, n_sparse)      a row for each element; out of bounds it is padding

An element that occurs twice counts as the sum.  The functions here work on one batch, and
`over_batch` maps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from tfn import lax, vmap
from tfn import numpy as tnp
from tfn.array import Array
from tfn.dtypes import INTEGERS
from tfn.errors import ArgumentError, ShapeError
from tfn.extend import Shape, element_type


class Sparse(Protocol):
    """A batched array of coordinates: `BCOO`."""

    data: Any
    indices: Any
    shape: Shape
    indices_sorted: bool
    unique_indices: bool

    @property
    def n_batch(self) -> int:
        """The number of batch axes."""

    @property
    def n_sparse(self) -> int:
        """The number of sparse axes."""

    @property
    def n_dense(self) -> int:
        """The number of dense axes."""

    @property
    def nse(self) -> int:
        """The number of elements that are stored for each batch."""

    @property
    def ndim(self) -> int:
        """The number of axes."""

    @property
    def dtype(self) -> Any:
        """The type of the elements."""

    def like(
        self,
        data: Any,
        indices: Any,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Any:
        """An array of this class of other parts."""


def parts(mat: Sparse) -> tuple[Shape, Shape, Shape]:
    """The sizes of the batch axes, of the sparse and of the dense ones."""
    first, last = mat.n_batch, mat.ndim - mat.n_dense
    return mat.shape[:first], mat.shape[first:last], mat.shape[last:]


def over_batch(function: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """A function of one batch, mapped over leading axes."""
    for _ in range(n_batch):
        function = vmap(function)
    return function


def columns(indices: Any) -> tuple[Any, ...]:
    """The index along each sparse axis: the columns of the indices of one batch."""
    return tuple(indices[:, i] for i in range(indices.shape[1]))


def scattered(shape: Sequence[int], indices: Any, values: Any) -> Any:
    """Zeros, to which values of ``(nse, *rest)`` are added at indices along the first axes."""
    if not indices.shape[1]:
        return values.sum(0)
    if not prod(shape):
        return tnp.zeros(tuple(shape), values.dtype)
    return tnp.zeros(tuple(shape), values.dtype).at[columns(indices)].add(values, mode="drop")


def gathered(array: Any, indices: Any) -> Any:
    """The elements of an array at indices along its first axes: zero at padding."""
    if not indices.shape[1]:
        return tnp.broadcast_to(array, (indices.shape[0], *array.shape))
    count = indices.shape[1]
    if not prod(array.shape[:count]):
        return tnp.zeros((indices.shape[0], *array.shape[count:]), array.dtype)
    return array.at[columns(indices)].get(mode="fill", fill_value=0)


def padding(shape: Sequence[int], like: Any) -> Any:
    """The row of indices of an element that is not there."""
    return tnp.asarray(np.asarray(shape, like.dtype))


def inside(indices: Any, shape: Sequence[int]) -> Any:
    """A mask of the rows of indices that are of elements, and not padding."""
    return (indices < padding(shape, indices)).all(-1)


def nonzero(mat: Any, n_batch: int, n_dense: int) -> Any:
    """A mask of the elements of ``(*batch, *sparse)`` that are not zero."""
    mask = mat != 0
    return mask.any(tuple(range(mat.ndim - n_dense, mat.ndim))) if n_dense else mask


def flat_index(indices: Any, shape: Sequence[int]) -> Any:
    """Rows of indices as one number each, row-major; of padding a number beyond all."""
    size = prod(shape)
    wide = "int64" if size > np.iinfo("int32").max else indices.dtype
    total = tnp.zeros(indices.shape[:-1], wide)
    for axis, n in enumerate(shape):
        total = total * n + indices[..., axis].astype(wide)
    return tnp.where(inside(indices, shape), total, size)


def unraveled(flat: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Rows of indices from one number each; those beyond all are padding."""
    size, found = prod(shape), []
    rest = flat
    for n in reversed(shape):
        found.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    rows = tnp.stack(found[::-1], -1) if found else tnp.zeros((*flat.shape, 0), flat.dtype)
    rows = rows.astype(dtype)
    return tnp.where((flat < size)[..., None], rows, padding(shape, rows))


def sorted_rows(indices: Any, *others: Any) -> tuple[Any, ...]:
    """The rows of indices of one batch in order, and other arrays in the same order."""
    count = indices.shape[1]
    order = tnp.arange(indices.shape[0])
    if count:
        order = lax.sort((*columns(indices), order), num_keys=count)[-1]
    return (indices[order], *(x[order] for x in others))


def number_of_axes(what: str, shape: Sequence[int], n_batch: int, n_dense: int) -> int:
    """The number of sparse axes.

    Raises:
        ArgumentError: if batch and dense axes are more than there are.
    """
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ArgumentError(
            f"{what} cannot divide the axes into batch, sparse and dense ones",
            got=f"{len(shape)} axes, n_batch={n_batch}, n_dense={n_dense}",
            hint="batch axes come first, dense axes last; all others are sparse",
        )
    return n_sparse


def rows_of(indptr: Any, nse: int) -> Any:
    """The row of each of `nse` elements of one batch; behind the last one, the number of rows.

    Example:
        >>> import tfn.numpy as tnp
        >>> rows_of(tnp.asarray([0, 2, 2, 3]), 4).tolist()
        [0, 0, 2, 3]
    """
    if not nse:
        return tnp.zeros(0, indptr.dtype)
    begins = tnp.zeros(nse, indptr.dtype).at[indptr].add(1, mode="drop")
    return (tnp.cumsum(begins) - 1).astype(indptr.dtype)


def as_bcoo(x: Any) -> Any:
    """A sparse array of another layout as a `BCOO`; all else as it is."""
    return x.to_bcoo() if hasattr(x, "to_bcoo") else x


def shown(mat: Any) -> str:
    """A sparse array in one line: ``BCOO(float32[2, 2], nse=3)``; its parts may be no arrays."""
    name, dtype = type(mat).__name__, getattr(mat.data, "dtype", None)
    if dtype is None or not hasattr(mat.indices, "shape"):
        return f"{name}(shape={mat.shape})"
    more = f", n_batch={mat.n_batch}" if mat.n_batch else ""
    more += f", n_dense={mat.n_dense}" if mat.n_dense else ""
    return f"{name}({dtype.name}{list(mat.shape)}, nse={mat.nse}{more})"


def check(data: Array, indices: Array, shape: Shape) -> None:
    """Refuse data and indices that are not of one array of this shape.

    Raises:
        ShapeError: telling the shapes that would fit.
        DTypeError: unless indices are integers.
    """
    element_type("a sparse array", indices, INTEGERS, "integer indices")
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1] if indices.ndim else 0
    n_dense = len(shape) - n_batch - n_sparse
    wanted: tuple[int, ...] | None = None
    if n_batch >= 0 and n_dense >= 0:
        wanted = (*shape[:n_batch], indices.shape[-2], *shape[n_batch + n_sparse :])
    batch = tuple(shape[:n_batch]) if wanted else ()
    one_or_full = wanted is not None and all(
        len(x.shape) >= n_batch and all(a in (1, b) for a, b in zip(x.shape[:n_batch], batch))
        for x in (data, indices)
    )
    if wanted is None or not one_or_full or data.shape[n_batch:] != wanted[n_batch:]:
        raise ShapeError(
            f"data and indices are not those of a sparse array of shape {tuple(shape)}",
            got=f"data {data.shape}, indices {indices.shape}",
            hint="data is (*batch, nse, *dense), indices (*batch, nse, sparse axes)"
            + (f": data of {wanted} fits these indices" if wanted else ""),
        )


def full_batch(mat: Sparse) -> tuple[Any, Any]:
    """Data and indices with all batch axes at their sizes, which may be 1 if all are the same."""
    batch = mat.shape[: mat.n_batch]
    return (
        tnp.broadcast_to(mat.data, (*batch, *mat.data.shape[mat.n_batch :])),
        tnp.broadcast_to(mat.indices, (*batch, *mat.indices.shape[mat.n_batch :])),
    )
