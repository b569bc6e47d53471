"""`BCSR`: sparse arrays of compressed rows, with batch axes in front and dense ones behind.

data     (*batch, nse, *dense)
indices  (*batch, nse)              the column of each element
indptr   (*batch, rows + 1)         where the elements of each row begin; behind the last: padding
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from tfn import numpy as tnp
from tfn.array import Array
from tfn.dtypes import INTEGERS
from tfn.errors import NotAvailableError, ShapeError
from tfn.experimental.sparse import bcoo, contraction, conversions, movement
from tfn.experimental.sparse.bcoo import BCOO
from tfn.experimental.sparse.coordinates import (
    as_bcoo,
    full_batch,
    over_batch,
    padding,
    rows_of,
    shown,
)
from tfn.extend import Shape, element_type


def pointers(rows: Any, count: int) -> Any:
    """The first element of each row, and the end, from the rows of elements in order.

    Example:
        >>> import tfn.numpy as tnp
        >>> pointers(tnp.asarray([0, 0, 2, 3]), 3).tolist()
        [0, 2, 2, 3]
    """
    ends = tnp.searchsorted(rows, tnp.arange(count, dtype=rows.dtype), side="right")
    return tnp.concatenate([tnp.zeros(1, rows.dtype), ends.astype(rows.dtype)])


class BCSR:
    """A sparse array of compressed rows: of a matrix, or of a stack of them.

    Args:
        args: ``(data, indices, indptr)``.
        shape: ``(*batch, rows, columns, *dense)``.
        indices_sorted, unique_indices: what is known about the indices; it is not checked.

    Raises:
        ShapeError: for parts that do not fit the shape.
        DTypeError: for indices or pointers that are no integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = BCSR.fromdense(tnp.asarray([[0.0, 2.0], [1.0, 4.0]]))
        >>> mat, mat.indptr.tolist(), (mat @ tnp.ones(2)).tolist()
        (BCSR(float32[2, 2], nse=3), [0, 1, 3], [2.0, 5.0])
    """

    __slots__ = (
        "data",
        "indices",
        "indptr",
        "shape",
        "indices_sorted",
        "unique_indices",
        "__weakref__",
    )
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(tnp.asarray, args)
        self.shape: Shape = tuple(map(int, shape))
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        for part in (self.indices, self.indptr):
            element_type("BCSR", part, INTEGERS, "integer indices")
        n_batch = self.indices.ndim - 1
        fits = (
            self.indptr.ndim == n_batch + 1
            and len(self.shape) >= n_batch + 2
            and self.indptr.shape[-1] == self.shape[n_batch] + 1
            and self.data.shape[n_batch:] == (self.nse, *self.shape[n_batch + 2 :])
        )
        if not fits:
            raise ShapeError(
                f"data, indices and indptr are not those of a sparse array of {self.shape}",
                got=f"data {self.data.shape}, indices {self.indices.shape}, "
                f"indptr {self.indptr.shape}",
                hint="they are (*batch, nse, *dense), (*batch, nse) and (*batch, rows + 1)",
            )

    nse = property(lambda self: self.indices.shape[-1])
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))
    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda self: 2)
    n_dense = property(lambda self: self.data.ndim - self.indices.ndim)

    __repr__ = shown

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> Self:
        """The elements of a dense array that are not zero: see `BCOO.fromdense`."""
        return cls.from_bcoo(
            BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)
        )

    @classmethod
    def from_bcoo(cls, arr: Any) -> Self:
        """The same array with compressed rows.

        Raises:
            NotAvailableError: if it has not two sparse axes.
        """
        if arr.n_sparse != 2:
            raise NotAvailableError(
                "BCSR has rows and columns", got=f"{arr!r} with {arr.n_sparse} sparse axes"
            )
        mat = arr if arr.indices_sorted else arr.sort_indices()
        count = mat.shape[mat.n_batch]
        data, indices = full_batch(mat)
        indptr = over_batch(lambda rows: pointers(rows, count), mat.n_batch)(indices[..., 0])
        return cls(
            (data, indices[..., 1], indptr),
            shape=mat.shape,
            indices_sorted=True,
            unique_indices=mat.unique_indices,
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> Self:
        """A sparse matrix of SciPy: see `BCOO.from_scipy_sparse`."""
        return cls.from_bcoo(
            BCOO.from_scipy_sparse(mat, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)
        )

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> Self:
        return cls.from_bcoo(BCOO._empty(shape, **options))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> Self:
        return cls.from_bcoo(BCOO._eye(N, M, k, **options))

    def to_bcoo(self) -> BCOO:
        """The same array with an index for each element."""
        rows = over_batch(lambda p: rows_of(p, self.nse), self.n_batch)(self.indptr)
        indices = tnp.stack([rows.astype(self.indices.dtype), self.indices], -1)
        sizes = self.shape[self.n_batch : self.n_batch + 2]
        out = tnp.where((rows < sizes[0])[..., None], indices, padding(sizes, indices))
        return BCOO(
            (self.data, out),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Array:
        """The dense array."""
        return self.to_bcoo().todense()

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> Any:
        """Each index once, in order: see `BCOO.sum_duplicates`."""
        return type(self).from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def block_until_ready(self) -> Self:
        """Waits until the data is computed."""
        self.data.block_until_ready()
        return self

    def transpose(self, *axes: Any) -> Any:
        """Raises an error: rows are compressed, columns are not.

        Raises:
            NotAvailableError: always.
        """
        raise NotAvailableError(
            "a BCSR is compressed by rows alone", got="a transpose", hint="to_bcoo().T is one"
        )

    T = property(transpose)

    def compressed_rows(self) -> tuple[Any, Any]:
        """The columns of elements, and where each row begins."""
        return self.indices, self.indptr

    def __matmul__(self, other: Any) -> Any:
        return bcoo.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return bcoo.matmul(other, self)

    def __mul__(self, other: Any) -> Any:
        return type(self).from_bcoo(self.to_bcoo() * other)

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1


bcoo.register(BCSR, ("data", "indices", "indptr"), 1)


def bcsr_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCSR:
    """The elements of a dense array that are not zero: `BCSR.fromdense`.

    Example:
        >>> import tfn.numpy as tnp
        >>> bcsr_fromdense(tnp.eye(3))
        BCSR(float32[3, 3], nse=3)
    """
    return BCSR.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcsr_todense(mat: BCSR) -> Array:
    """The dense array.

    Example:
        >>> import tfn.numpy as tnp
        >>> bcsr_todense(bcsr_fromdense(tnp.asarray([[0, 7]]))).tolist()
        [[0, 7]]
    """
    return mat.todense()


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: contraction.Dims,
    precision: object = None,
    preferred_element_type: Any = None,
    out_sharding: object = None,
) -> Any:
    """A product with contracted and batch axes: see `bcoo_dot_general`.

    Example:
        >>> import tfn.numpy as tnp
        >>> dims = ((1,), (0,)), ((), ())
        >>> bcsr_dot_general(bcsr_fromdense(tnp.eye(2)), tnp.ones(2), dimension_numbers=dims)
        Array([1., 1.], dtype=float32)
    """
    return contraction.bcoo_dot_general(
        as_bcoo(lhs),
        as_bcoo(rhs),
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
    )


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Any:
    """The elements of a dense array at the places of compressed rows.

    Example:
        >>> import tfn.numpy as tnp
        >>> bcsr_extract(tnp.asarray([1]), tnp.asarray([0, 1, 1]), tnp.asarray([[1, 2], [3, 4]]))
        Array([2], dtype=int32)
    """
    mat, indices, indptr = map(tnp.asarray, (mat, indices, indptr))
    n_batch = indices.ndim - 1
    n_dense = mat.ndim - n_batch - 2
    data = tnp.zeros((*indices.shape, *mat.shape[mat.ndim - n_dense :]), mat.dtype)
    where = BCSR((data, indices, indptr), shape=mat.shape).to_bcoo()
    return conversions.bcoo_extract(where, mat, assume_unique=True).data


def bcsr_broadcast_in_dim(
    mat: BCSR,
    *,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    sharding: object = None,
) -> BCSR:
    """The elements repeated along new axes: see `bcoo_broadcast_in_dim`.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = bcsr_fromdense(tnp.eye(2), n_batch=0)
        >>> bcsr_broadcast_in_dim(mat, shape=(2, 2, 3), broadcast_dimensions=(0, 1)).n_dense
        1
    """
    out = movement.bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    first = broadcast_dimensions[mat.n_batch]
    out = out.update_layout(n_batch=first, n_dense=len(shape) - first - 2, on_inefficient=None)
    return BCSR.from_bcoo(out)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays one behind the other along an axis: see `bcoo_concatenate`.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = bcsr_fromdense(tnp.eye(2))
        >>> bcsr_concatenate([mat, mat], dimension=1).todense()[0].tolist()
        [1.0, 0.0, 1.0, 0.0]
    """
    mats = [m.to_bcoo() for m in operands]
    return BCSR.from_bcoo(movement.bcoo_concatenate(mats, dimension=dimension))


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Each index once, in order: see `bcoo_sum_duplicates`.

    Example:
        >>> import tfn.numpy as tnp
        >>> parts = tnp.ones(2), tnp.asarray([0, 0]), tnp.asarray([0, 2])
        >>> bcsr_sum_duplicates(BCSR(parts, shape=(1, 1))).data.tolist()
        [2.0]
    """
    return BCSR.from_bcoo(conversions.bcoo_sum_duplicates(mat.to_bcoo(), nse))
