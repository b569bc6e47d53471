"""`COO`, `CSR` and `CSC`: matrices in the three formats that SciPy has too, over `BCOO`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from tfn import numpy as tnp
from tfn import tree
from tfn.array import Array
from tfn.dtypes import INTEGERS
from tfn.errors import ShapeError
from tfn.experimental.sparse import bcoo
from tfn.experimental.sparse.bcoo import BCOO
from tfn.experimental.sparse.bcsr import pointers
from tfn.experimental.sparse.coordinates import rows_of
from tfn.extend import Shape, element_type


def _coordinates(mat: Any, rows: Any, columns: Any) -> BCOO:
    indices = tnp.stack([rows, columns.astype(rows.dtype)], -1)
    return BCOO((mat.data, indices), shape=mat.shape)


def _sorted(mat: BCOO, by_columns: bool = False) -> tuple[Any, Any, Any]:
    """Data, rows and columns, in the order of the rows or of the columns."""
    if by_columns:
        data, columns, rows = _sorted(mat.T)
        return data, rows, columns
    mat = mat if mat.indices_sorted else mat.sort_indices()
    return mat.data, mat.indices[:, 0], mat.indices[:, 1]


def _check(mat: Any, lengths: Sequence[tuple[str, int]]) -> None:
    """Refuse parts of other lengths, and those that are no integers."""
    for name, _ in lengths:
        element_type(type(mat).__name__, getattr(mat, name), INTEGERS, "integer indices")
    wrong = [
        f"{name} {getattr(mat, name).shape} instead of {(n,)}"
        for name, n in lengths
        if getattr(mat, name).shape != (n,)
    ]
    if len(mat.shape) != 2 or wrong:
        raise ShapeError(
            f"{type(mat).__name__} is a matrix with parts that fit",
            got=", ".join(wrong) or f"shape {mat.shape}",
        )


def _matmul(mat: Any, other: Any) -> Any:
    return bcoo.matmul(mat, other)


def _rmatmul(mat: Any, other: Any) -> Any:
    return bcoo.matmul(other, mat)


def _times(mat: Any, other: Any) -> Any:
    return mat.from_bcoo(mat.to_bcoo() * other)


def _negative(mat: Any) -> Any:
    return _times(mat, -1)


def _todense(mat: Any) -> Array:
    """The dense matrix."""
    return mat.to_bcoo().todense()  # type: ignore[no-any-return]


def _ready(mat: Any) -> Any:
    """Waits until the data is computed."""
    mat.data.block_until_ready()
    return mat


def _shown(mat: Any) -> str:
    dtype = getattr(mat.data, "dtype", None)
    if dtype is None:
        return f"{type(mat).__name__}(shape={mat.shape})"
    return f"{type(mat).__name__}({dtype.name}{list(mat.shape)}, nse={mat.nse})"


def _fromdense(cls: Any, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> Any:
    """The elements of a dense matrix that are not zero; room for `nse` of them."""
    return cls.from_bcoo(BCOO.fromdense(mat, nse=nse, index_dtype=index_dtype))


def _from_scipy_sparse(cls: Any, mat: Any, *, index_dtype: Any = None) -> Any:
    """A sparse matrix of SciPy."""
    return cls.from_bcoo(BCOO.from_scipy_sparse(mat, index_dtype=index_dtype))


def _without_elements(cls: Any, /, shape: Sequence[int], **options: Any) -> Any:
    return cls.from_bcoo(BCOO._empty(shape, **options))


def _diagonal(cls: Any, /, N: int, M: int, k: int, **options: Any) -> Any:
    return cls.from_bcoo(BCOO._eye(N, M, k, **options))


_nse = property(lambda mat: mat.data.shape[0])
_dtype = property(lambda mat: mat.data.dtype)
_ndim = property(lambda mat: len(mat.shape))
_size = property(lambda mat: prod(mat.shape))
_transposed = property(lambda mat: mat.transpose())


class COO:
    """A sparse matrix of coordinates: ``(data, row, col)``, each of as many elements as stored.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = COO.fromdense(tnp.asarray([[0.0, 2.0], [1.0, 4.0]]))
        >>> mat, mat.row.tolist(), (mat @ tnp.ones(2)).tolist()
        (COO(float32[2, 2], nse=3), [0, 1, 1], [2.0, 5.0])
    """

    __slots__ = ("data", "row", "col", "shape", "_sorted_by", "__weakref__")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        self.data, self.row, self.col = map(tnp.asarray, args)
        self.shape: Shape = tuple(map(int, shape))
        self._sorted_by = bool(rows_sorted), bool(cols_sorted)
        _check(self, [("row", self.nse), ("col", self.nse)])

    nse, dtype, ndim, size, T = _nse, _dtype, _ndim, _size, _transposed
    todense, block_until_ready, __repr__ = _todense, _ready, _shown
    __matmul__, __rmatmul__, __mul__, __rmul__ = _matmul, _rmatmul, _times, _times
    __neg__ = _negative
    fromdense, from_scipy_sparse = classmethod(_fromdense), classmethod(_from_scipy_sparse)
    _empty, _eye = classmethod(_without_elements), classmethod(_diagonal)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Self:
        """The same matrix."""
        return cls(_sorted(mat), shape=mat.shape, rows_sorted=True)

    def to_bcoo(self) -> BCOO:
        """The same matrix with rows and columns in one array."""
        return _coordinates(self, self.row, self.col)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """Rows and columns exchanged."""
        return COO((self.data, self.col, self.row), shape=self.shape[::-1])


class CSR:
    """A sparse matrix of compressed rows: ``(data, indices, indptr)``.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = CSR.fromdense(tnp.asarray([[0.0, 2.0], [1.0, 4.0]]))
        >>> mat, mat.indices.tolist(), mat.indptr.tolist()
        (CSR(float32[2, 2], nse=3), [1, 0, 1], [0, 1, 3])
    """

    __slots__ = ("data", "indices", "indptr", "shape", "__weakref__")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(tnp.asarray, args)
        self.shape: Shape = tuple(map(int, shape))
        _check(self, [("indices", self.nse), ("indptr", self.shape[0] + 1)])

    nse, dtype, ndim, size, T = _nse, _dtype, _ndim, _size, _transposed
    todense, block_until_ready, __repr__ = _todense, _ready, _shown
    __matmul__, __rmatmul__, __mul__, __rmul__ = _matmul, _rmatmul, _times, _times
    __neg__ = _negative
    fromdense, from_scipy_sparse = classmethod(_fromdense), classmethod(_from_scipy_sparse)
    _empty, _eye = classmethod(_without_elements), classmethod(_diagonal)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Self:
        """The same matrix."""
        data, rows, columns = _sorted(mat)
        return cls((data, columns, pointers(rows, mat.shape[0])), shape=mat.shape)

    def to_bcoo(self) -> BCOO:
        """The same matrix with an index for each element."""
        return _coordinates(self, rows_of(self.indptr, self.nse), self.indices)

    def compressed_rows(self) -> tuple[Any, Any]:
        """The columns of elements, and where each row begins."""
        return self.indices, self.indptr

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """Rows and columns exchanged: the same parts, by columns."""
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


class CSC:
    """A sparse matrix of compressed columns: ``(data, indices, indptr)``.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = CSC.fromdense(tnp.asarray([[0.0, 2.0], [1.0, 4.0]]))
        >>> mat, mat.indices.tolist(), mat.indptr.tolist()
        (CSC(float32[2, 2], nse=3), [1, 0, 1], [0, 1, 3])
    """

    __slots__ = ("data", "indices", "indptr", "shape", "__weakref__")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self.data, self.indices, self.indptr = map(tnp.asarray, args)
        self.shape: Shape = tuple(map(int, shape))
        _check(self, [("indices", self.nse), ("indptr", self.shape[-1] + 1)])

    nse, dtype, ndim, size, T = _nse, _dtype, _ndim, _size, _transposed
    todense, block_until_ready, __repr__ = _todense, _ready, _shown
    __matmul__, __rmatmul__, __mul__, __rmul__ = _matmul, _rmatmul, _times, _times
    __neg__ = _negative
    fromdense, from_scipy_sparse = classmethod(_fromdense), classmethod(_from_scipy_sparse)
    _empty, _eye = classmethod(_without_elements), classmethod(_diagonal)

    @classmethod
    def from_bcoo(cls, mat: BCOO) -> Self:
        """The same matrix."""
        data, rows, columns = _sorted(mat, True)
        return cls((data, rows, pointers(columns, mat.shape[1])), shape=mat.shape)

    def to_bcoo(self) -> BCOO:
        """The same matrix with an index for each element."""
        return _coordinates(self, self.indices, rows_of(self.indptr, self.nse))

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """Rows and columns exchanged: the same parts, by rows."""
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def _tree(cls: type[Any], names: Sequence[str]) -> None:
    """Make a class a node of trees, of its parts."""

    def flatten(mat: Any) -> Any:
        return tuple(getattr(mat, name) for name in names), mat.shape

    def unflatten(shape: Any, children: Sequence[Any]) -> Any:
        mat = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            setattr(mat, name, child)
        mat.shape = shape
        if cls is COO:
            mat._sorted_by = False, False
        return mat

    tree.register_node(cls, flatten, unflatten)


_tree(COO, ("data", "row", "col"))
_tree(CSR, ("data", "indices", "indptr"))
_tree(CSC, ("data", "indices", "indptr"))


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
    """The elements of a dense matrix that are not zero: `COO.fromdense`.

    Example:
        >>> import tfn.numpy as tnp
        >>> coo_fromdense(tnp.eye(2)).col.tolist()
        [0, 1]
    """
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)  # type: ignore[no-any-return]


def coo_todense(mat: COO) -> Array:
    """The dense matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> coo_todense(coo_fromdense(tnp.asarray([[0, 7]]))).tolist()
        [[0, 7]]
    """
    return mat.todense()


def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, and a vector.

    Example:
        >>> import tfn.numpy as tnp
        >>> coo_matvec(coo_fromdense(tnp.asarray([[0, 7]])), tnp.asarray([2]), True).tolist()
        [0, 14]
    """
    return (mat.T if transpose else mat) @ v  # type: ignore[no-any-return]


def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, and a dense matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> coo_matmat(coo_fromdense(tnp.asarray([[0, 7]])), tnp.asarray([[2], [3]])).tolist()
        [[21]]
    """
    return (mat.T if transpose else mat) @ B  # type: ignore[no-any-return]


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
    """The elements of a dense matrix that are not zero: `CSR.fromdense`.

    Example:
        >>> import tfn.numpy as tnp
        >>> csr_fromdense(tnp.eye(2)).indptr.tolist()
        [0, 1, 2]
    """
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)  # type: ignore[no-any-return]


def csr_todense(mat: CSR) -> Array:
    """The dense matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> csr_todense(csr_fromdense(tnp.asarray([[0, 7]]))).tolist()
        [[0, 7]]
    """
    return mat.todense()


def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, and a vector.

    Example:
        >>> import tfn.numpy as tnp
        >>> csr_matvec(csr_fromdense(tnp.asarray([[0, 7]])), tnp.asarray([2]), True).tolist()
        [0, 14]
    """
    return (mat.T if transpose else mat) @ v  # type: ignore[no-any-return]


def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, and a dense matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> csr_matmat(csr_fromdense(tnp.asarray([[0, 7]])), tnp.asarray([[2], [3]])).tolist()
        [[21]]
    """
    return (mat.T if transpose else mat) @ B  # type: ignore[no-any-return]
