"""`BCOO`: the class of sparse arrays of coordinates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Self

from tfn import jit, tree
from tfn import numpy as tnp
from tfn.array import Array
from tfn.errors import ArgumentError, NotAvailableError, OutOfBoundsError
from tfn.experimental.sparse import arithmetic, contraction, conversions, movement, row_loops
from tfn.experimental.sparse.coordinates import as_bcoo, check, number_of_axes, parts, shown
from tfn.extend import Shape


class BCOO:
    """A sparse array: the elements that are not zero, and their coordinates.

    Axes are ``(*batch, *sparse, *dense)``.  An index may occur twice, then its elements are added
    up; one that is out of bounds is padding.  It is a tree of two arrays, so all transforms take
    it; `tfn.experimental.sparse.grad` differentiates by the data alone.

    Args:
        args: ``(data, indices)``, of shapes ``(*batch, nse, *dense)`` and
            ``(*batch, nse, sparse axes)``.
        shape: of the array.
        indices_sorted, unique_indices: what is known about the indices; it is not checked.

    Raises:
        ShapeError: for data and indices that do not fit the shape.
        DTypeError: for indices that are no integers.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = BCOO.fromdense(tnp.asarray([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
        >>> mat, mat.data.tolist(), mat.indices.tolist()
        (BCOO(float32[2, 3], nse=3), [2.0, 1.0, 4.0], [[0, 1], [1, 0], [1, 2]])
        >>> (mat @ tnp.ones(3)).tolist(), (2 * mat).todense()[1].tolist()
        ([2.0, 5.0], [2.0, 0.0, 8.0])
    """

    __slots__ = ("data", "indices", "shape", "indices_sorted", "unique_indices", "__weakref__")
    __array_priority__ = 100  # operators of NumPy's arrays leave the work to those of this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(tnp.asarray, args)
        self.shape: Shape = tuple(map(int, shape))
        self.indices_sorted, self.unique_indices = bool(indices_sorted), bool(unique_indices)
        check(self.data, self.indices, self.shape)

    def like(
        self,
        data: Any,
        indices: Any,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Self:
        """An array of other parts."""
        return type(self)(
            (data, indices),
            shape=shape,
            indices_sorted=indices_sorted,
            unique_indices=unique_indices,
        )

    nse = property(lambda self: self.indices.shape[-2])
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: prod(self.shape))
    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)
    T = property(lambda self: self.transpose())

    __repr__ = shown

    # From other arrays, and to them.

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
        """The elements of a dense array that are not zero.

        Args:
            nse: room for as many; if None, as many as there are.
            index_dtype: of the indices.
            n_batch, n_dense: the numbers of batch and dense axes.
        """
        array = tnp.asarray(mat)
        args = conversions.from_dense(array, nse, n_batch, n_dense, index_dtype)
        return cls(args, shape=array.shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> Self:
        """A sparse matrix of SciPy.

        Raises:
            NotAvailableError: for batch or dense axes, which it has not.
        """
        if n_dense or n_batch:
            raise NotAvailableError(
                "matrices of SciPy have sparse axes alone",
                got=f"n_batch={n_batch}, n_dense={n_dense}",
                hint="update_layout changes it afterwards",
            )
        return cls(conversions.from_scipy(mat, index_dtype), shape=mat.shape)

    @classmethod
    def _empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> Self:
        n_sparse = number_of_axes("empty", shape, n_batch, n_dense)
        batch, dense = shape[:n_batch], shape[n_batch + n_sparse :]
        data = tnp.zeros((*batch, nse, *dense), dtype)
        row = tnp.asarray(list(shape[n_batch : n_batch + n_sparse]), index_dtype)
        indices = tnp.broadcast_to(row, (*batch, nse, n_sparse))
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> Self:
        number_of_axes("eye", (N, M), n_batch, n_dense)
        count = max(0, min(N + min(k, 0), M - max(k, 0)))
        i = tnp.arange(count, dtype=index_dtype)
        rows = tnp.stack([i - min(k, 0), i + max(k, 0)], -1)
        flat = cls(
            (tnp.ones(count, dtype), rows), shape=(N, M), indices_sorted=True, unique_indices=True
        )
        laid_out: Self = flat.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
        return laid_out

    def todense(self) -> Array:
        """The dense array."""
        return conversions.to_dense(self)  # type: ignore[no-any-return]

    def update_layout(
        self,
        *,
        n_batch: int | None = None,
        n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> Any:
        """The same array with other numbers of batch and dense axes; see `bcoo_update_layout`."""
        return conversions.bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> Any:
        """Each index once, in order: see `bcoo_sum_duplicates`.

        Args:
            nse: room for as many elements.
            remove_zeros: whether elements that are zero are left out, if `nse` is None.
        """
        mat: Any = self
        if remove_zeros and nse is None:
            there = (self.data != 0).any(tuple(range(self.n_batch + 1, self.data.ndim)))
            row = tnp.asarray(parts(self)[1], self.indices.dtype)
            mat = self.like(self.data, tnp.where(there[..., None], self.indices, row), self.shape)
        return conversions.bcoo_sum_duplicates(mat, nse)

    def sort_indices(self) -> Any:
        """The elements in order of their indices."""
        return conversions.bcoo_sort_indices(self)

    def block_until_ready(self) -> Self:
        """Waits until the data is computed."""
        self.data.block_until_ready()
        self.indices.block_until_ready()
        return self

    def astype(self, dtype: Any) -> Any:
        """The elements of another dtype."""
        return arithmetic.unary(lambda x: x.astype(dtype), self)

    # Movement.

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """Axes in another order; reversed if None, in their groups."""
        if axes is None:
            first, last = self.n_batch, self.ndim - self.n_dense
            axes = [*range(first), *reversed(range(first, last)), *range(last, self.ndim)]
        return movement.bcoo_transpose(self, permutation=axes)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The elements in another shape; one size may be -1.

        Raises:
            NotAvailableError: for another order than "C".
        """
        if order != "C":
            raise NotAvailableError("sparse arrays are row-major", got=f"order={order!r}")
        listed = len(shape) == 1 and isinstance(shape[0], (tuple, list))
        new = list(shape[0] if listed else shape)
        if -1 in new:
            new[new.index(-1)] = self.size // max(1, prod(n for n in new if n != -1))
        return movement.bcoo_reshape(self, new_sizes=new)

    def __getitem__(self, index: Any) -> Any:
        """Integers, slices, ``...`` and None; one index more than axes is an error."""
        items = list(index) if isinstance(index, tuple) else [index]
        for at in [i for i, x in enumerate(items) if x is ...]:
            missing = self.ndim - sum(x is not None and x is not Ellipsis for x in items)
            items[at : at + 1] = [slice(None)] * missing
        items += [slice(None)] * (self.ndim - sum(x is not None for x in items))
        if sum(x is not None for x in items) > self.ndim:
            raise OutOfBoundsError(f"{self!r} has {self.ndim} axes", got=f"{len(items)} indices")
        mat: Any = self
        start, stop, step, turned, gone = [], [], [], [], []
        for axis, (item, n) in enumerate(
            zip([x for x in items if x is not None], self.shape, strict=True)
        ):
            if isinstance(item, slice):
                a, b, s = item.indices(n)
                if s < 0:
                    turned.append(axis)
                    count = len(range(a, b, s))
                    a, b, s = a + (count - 1) * s, a + 1, -s
                    a = max(a, 0)
                start.append(min(a, n))
                stop.append(max(min(a, n), b))
                step.append(s)
                continue
            i = _integer(item)
            if not -n <= i < n:
                raise OutOfBoundsError(
                    f"axis {axis} of {self!r} has no index {i}", got=f"a size of {n}"
                )
            gone.append(axis)
            start.append(i % n)
            stop.append(i % n + 1)
            step.append(1)
        mat = movement.bcoo_slice(mat, start_indices=start, limit_indices=stop, strides=step)
        if turned:
            mat = movement.bcoo_rev(mat, turned)
        if gone:
            mat = movement.bcoo_squeeze(mat, dimensions=gone)
        if any(x is None for x in items):
            kept = [x for x in items if x is None or isinstance(x, slice)]
            places = [i for i, x in enumerate(kept) if x is not None]
            sizes = iter(mat.shape)
            shape = [1 if x is None else next(sizes) for x in kept]
            mat = movement.bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=places)
        return mat

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    # Arithmetic.

    def sum(self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
        """The sum over all axes, a dense number, or over some, a sparse array."""
        if axis is None and not keepdims:
            every = tuple(range(self.ndim))
            out = arithmetic.bcoo_reduce_sum(self, axes=every).data.sum(0)
            return out if dtype is None else out.astype(dtype)
        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        gone = {a % self.ndim for a in axes}
        mat = arithmetic.bcoo_reduce_sum(self, axes=tuple(gone))
        if keepdims:
            mat = mat.reshape([1 if a in gone else n for a, n in enumerate(self.shape)])
        return mat if dtype is None else mat.astype(dtype)

    def __neg__(self) -> Any:
        return arithmetic.unary(operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        mat = self if self.unique_indices else conversions.bcoo_sum_duplicates(self)
        return arithmetic.unary(abs, mat)

    def __mul__(self, other: Any) -> Any:
        other = as_bcoo(other)
        if isinstance(other, BCOO):
            return arithmetic.bcoo_multiply_sparse(self, other)
        return self._with(arithmetic.bcoo_multiply_dense, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            raise NotAvailableError(
                "a quotient of sparse arrays is NaN nearly everywhere",
                got=f"{self!r} / {other!r}",
                hint="todense() gives what has it",
            )
        return self._with(arithmetic.bcoo_multiply_dense, 1 / tnp.asarray(other))

    def _with(self, function: Callable[..., Any], other: Any) -> Any:
        """The array with the data that a function of a dense array gives."""
        data = function(self, other)
        return self.like(data, self.indices, self.shape, self.indices_sorted, self.unique_indices)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            return arithmetic.added(self, other)
        return self.todense() + tnp.asarray(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, BCOO):
            return arithmetic.added(self, -other)
        return self.todense() - tnp.asarray(other)

    def __rsub__(self, other: Any) -> Any:
        return tnp.asarray(other) - self.todense()

    def __pow__(self, other: Any) -> Any:
        if not isinstance(other, (int, float)) or other <= 0:
            return self.todense() ** other
        mat = self if self.unique_indices else conversions.bcoo_sum_duplicates(self)
        return arithmetic.unary(lambda x: x**other, mat)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self)


def _integer(item: Any) -> int:
    """An integer index.

    Raises:
        NotAvailableError: for an array of indices.
    """
    try:
        return operator.index(item)
    except TypeError:
        raise NotAvailableError(
            "a sparse array is indexed by integers, slices, ... and None",
            got=repr(item)[:80],
            hint="todense() gives what takes all others",
        ) from None


def matmul(a: Any, b: Any) -> Any:
    """The product of matrices, of stacks of them, and of vectors, of which one is sparse.

    Raises:
        ArgumentError: for shapes that do not fit.

    Example:
        >>> import tfn.numpy as tnp
        >>> mat = BCOO.fromdense(tnp.asarray([[0.0, 2.0], [3.0, 0.0]]))
        >>> matmul(tnp.ones(2), mat).tolist()
        [3.0, 2.0]
    """
    a, b = (x if _is_sparse(x) else tnp.asarray(x) for x in (a, b))
    both = _is_sparse(a) and _is_sparse(b)  # then the number of results may depend on the indices
    return _matmul(a, b) if both else _compiled_matmul(a, b)


def _is_sparse(x: object) -> bool:
    """Whether a value is a sparse array, of any format."""
    return hasattr(x, "nse")


def _matmul(a: Any, b: Any) -> Any:
    if row_loops.fits(a, b):
        return row_loops.product(a, b)
    a, b = map(as_bcoo, (a, b))
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
        raise ArgumentError(
            "matmul needs a last axis that is as long as the last but one of the other",
            got=f"{a.shape} and {b.shape}",
        )
    stacks = min(max(a.ndim - 2, 0), max(b.ndim - 2, 0))
    if stacks and a.shape[a.ndim - 2 - stacks : a.ndim - 2] != b.shape[b.ndim - 2 - stacks : -2]:
        raise ArgumentError(
            "matmul of sparse stacks needs stacks of one shape", got=f"{a.shape} and {b.shape}"
        )
    lead_a, lead_b = max(a.ndim - 2, 0) - stacks, max(b.ndim - 2, 0) - stacks
    batch = [*range(lead_a, lead_a + stacks)], [*range(lead_b, lead_b + stacks)]
    contract = ([a.ndim - 1], [max(0, b.ndim - 2)])
    out = contraction.bcoo_dot_general(a, b, dimension_numbers=(contract, batch))
    # (stacks, leading of a, rows, leading of b, columns) -> (leading, stacks, rows, columns)
    lead = lead_a or lead_b
    if not lead or (not stacks and not lead_b):
        return out
    rows = 1 if a.ndim > 1 else 0
    if lead_a:
        order = [*range(stacks, stacks + lead_a), *range(stacks), *range(stacks + lead_a, out.ndim)]
    else:
        first = stacks + rows
        order = [*range(first, first + lead_b), *range(first), *range(first + lead_b, out.ndim)]
    return out.transpose(order)


_compiled_matmul = jit(_matmul)


def register(cls: Any, names: Sequence[str], ndim: int) -> None:
    """Make a class of sparse arrays a node of trees.

    Args:
        cls: the class.
        names: of the attributes that are arrays.
        ndim: axes of its indices, without those of batches.
    """

    def flatten(mat: Any) -> Any:
        known = getattr(mat.indices, "ndim", None)
        n_batch = known - ndim if known is not None else None
        static = (mat.shape, n_batch, mat.indices_sorted, mat.unique_indices)
        return tuple(getattr(mat, name) for name in names), static

    def unflatten(static: Any, children: Sequence[Any]) -> Any:
        shape, n_batch, in_order, unique = static
        mat = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            setattr(mat, name, child)
        now = getattr(mat.indices, "ndim", None)
        if n_batch is not None and now is not None:  # vmap takes a batch axis away, or adds one
            more = now - ndim - n_batch
            sizes = getattr(mat.data, "shape", ())[: max(more, 0)]
            shape = (*sizes, *shape[max(-more, 0) :])
        mat.shape, mat.indices_sorted, mat.unique_indices = shape, in_order, unique
        return mat

    tree.register_node(cls, flatten, unflatten)


register(BCOO, ("data", "indices"), 2)


def bcoo_fromdense(
    mat: Any,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCOO:
    """The elements of a dense array that are not zero: `BCOO.fromdense`.

    Example:
        >>> import tfn.numpy as tnp
        >>> bcoo_fromdense(tnp.eye(3), n_batch=1)
        BCOO(float32[3, 3], nse=1, n_batch=1)
    """
    return BCOO.fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)


def bcoo_todense(mat: BCOO) -> Array:
    """The dense array.

    Example:
        >>> import tfn.numpy as tnp
        >>> bcoo_todense(bcoo_fromdense(tnp.asarray([0, 7]))).tolist()
        [0, 7]
    """
    return mat.todense()
