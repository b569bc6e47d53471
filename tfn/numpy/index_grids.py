"""Index arrays of triangles, diagonals and grids; flat indices and their coordinates."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tfn._support.validate import element_type, integer, one_of, rank, several, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import INTEGERS, DTypeLike, promote
from tfn.eager.operands import a_shape, apply, array_of, indices_of, operands_of
from tfn.errors import ArgumentError, OutOfBoundsError
from tfn.numpy.concatenation import concatenate, stack
from tfn.numpy.creation import make
from tfn.numpy.ranges import arange, linspace
from tfn.trace import build, runtime
from tfn.trace.build import cast, concat, iota, reshape
from tfn.trace.op import Shape
from tfn.trace.uop import UOp


def _known(lines: Any) -> tuple[Array, ...]:
    return tuple(indices_of("indices", line, int(line.max(initial=0))) for line in lines)


def _triangle(name: str, of: Any, n: int, k: int, m: int | None) -> tuple[Array, Array]:
    shape = a_shape(name, (n, n if m is None else m))
    runtime.installed().check_room(2 * 8 * prod(shape))
    rows, columns = _known(of(shape[0], integer(name, "k", k), shape[1]))
    return rows, columns


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the elements at or below the k-th diagonal of an n by m matrix.

    Args:
        n: number of rows.
        k: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        m: number of columns, n for None.

    Returns:
        Two integer vectors of one size.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> tril_indices(2)
        (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    return _triangle("tril_indices", np.tril_indices, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the elements at or above the k-th diagonal of an n by m matrix.

    Args:
        n: number of rows.
        k: number of the diagonal: 0 is the main one, positive ones lie above it, negative ones
            below.
        m: number of columns, n for None.

    Returns:
        Two integer vectors of one size.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> triu_indices(2)
        (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    return _triangle("triu_indices", np.triu_indices, n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The coordinates of the main diagonal of an array of size `n` along each of `ndim` axes.

    Raises:
        ShapeError: if `n` is negative.
        ArgumentError: if `ndim` is negative.

    Example:
        >>> diag_indices(3)
        (Array([0, 1, 2], dtype=int32), Array([0, 1, 2], dtype=int32))
    """
    count = integer("diag_indices", "ndim", ndim, 0)
    return (arange(a_shape("diag_indices", n)[0]),) * count


def indices(dimensions: object, dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """The coordinates of every element, one array for each axis, along a new first axis.

    Args:
        dimensions: the sizes of the axes.
        dtype: dtype of the coordinates; None takes int32, or int64 for a long axis.
        sparse: whether to return a tuple of arrays that broadcast to them.

    Returns:
        An array of one axis more, or a tuple of one for each axis.

    Raises:
        ShapeError: if a size is negative.
        DTypeError: if there is no such dtype.

    Example:
        >>> indices((2, 2)).tolist()
        [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = a_shape("indices", dimensions)
    lines = tuple(make(_line, len(shape), axis, n) for axis, n in enumerate(shape))
    if not sparse:
        grid = make(_coordinates, shape)
        return grid if dtype is None else grid.astype(dtype)
    return lines if dtype is None else tuple(line.astype(dtype) for line in lines)


def _line(ndim: int, axis: int, size: int) -> UOp:
    shape = tuple(size if a == axis else 1 for a in range(ndim))
    return iota(shape, axis, build.result_index_dtype(size))


def _coordinates(shape: Shape) -> UOp:
    each = [
        reshape(iota(shape, axis, build.result_index_dtype(size)), (1, *shape))
        for axis, size in enumerate(shape)
    ]
    return concat(each, 0) if each else iota((0,), 0, build.result_index_dtype(0))


def unravel_index(indices: ArrayLike, shape: object, order: str = "C") -> tuple[Array, ...]:
    """The coordinates of flat indices in an array of a shape; negative ones count from the end.

    Args:
        indices: integers, of any shape; those outside of the array stand for its first or last.
        shape: the sizes of the array.
        order: "C", the last axis varies first, or "F", the first one.

    Raises:
        ArgumentError: for another order.
        DTypeError: unless the indices are integers.
        ShapeError: if a size is negative.

    Example:
        >>> [int(i) for i in unravel_index(5, (2, 3))]
        [1, 2]
    """
    flat = array_of("unravel_index", indices)
    element_type("unravel_index", flat, INTEGERS, "integers")
    one_of("unravel_index", "order", order, ("C", "F"))
    step = 1 if order == "C" else -1
    sizes = a_shape("unravel_index", shape)[::step]
    return tuple(apply(_coordinate, (flat,), sizes, axis) for axis in range(len(sizes)))[::step]


def _coordinate(flat: UOp, shape: Shape, axis: int) -> UOp:
    dtype = build.index_dtype(build.count(shape), flat.dtype)
    step = build.count(shape[axis + 1 :])
    total = max(build.count(shape), 1)
    kind = dtype if dtype.itemsize > 4 else flat.dtype  # places that int32 does not hold
    flat = cast(flat, dtype)
    low, high = build.full_like(flat, -total), build.full_like(flat, total - 1)
    flat = build.minimum(build.maximum(flat, low), high)
    return cast((flat // max(step, 1)) % max(shape[axis], 1), kind)


def ravel_multi_index(
    multi_index: object,
    dims: object,
    mode: str = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The flat indices of coordinates in an array of a shape.

    Args:
        multi_index: one index array for each axis.
        dims: the sizes of the axes.
        mode: coordinates outside: "raise", an error, for values that are known, "clip" the border,
            "wrap" counts around.
        order: "C", the last axis varies first, or "F", the first one.
        dtype: dtype of the result; None takes int32, or that of the indices if it is wider.

    Returns:
        An integer array of the broadcast shape of the indices.

    Raises:
        ArgumentError: unless there is one index array for each axis, and for another mode or order.
        OutOfBoundsError: for coordinates outside, with "raise".
        DTypeError: unless the indices are integers.
        ShapeError: if a size is negative.

    Example:
        >>> import tfn.numpy as tnp
        >>> ravel_multi_index((tnp.array([1, 0]), tnp.array([2, 1])), (2, 3))
        Array([5, 1], dtype=int32)
    """
    sizes = a_shape("ravel_multi_index", dims)
    parts = several("ravel_multi_index", "multi_index", multi_index, "index arrays")
    lines = [array_of("ravel_multi_index", line) for line in parts]
    for line in lines:
        element_type("ravel_multi_index", line, INTEGERS, "integers")
    if len(lines) != len(sizes) or not lines:
        raise ArgumentError(
            "ravel_multi_index needs one index array for each axis",
            got=f"{len(lines)} index arrays, dims={sizes}",
            hint="pass a tuple of them, in the order of the axes",
        )
    one_of("ravel_multi_index", "mode", mode, ("raise", "clip", "wrap"))
    one_of("ravel_multi_index", "order", order, ("C", "F"))
    kind = build.index_dtype(build.count(sizes), *[line.dtype for line in lines])
    lines = [
        within("ravel_multi_index", line.astype(kind), n, mode) for line, n in zip(lines, sizes)
    ]
    if order == "F":
        lines, sizes = lines[::-1], sizes[::-1]
    flat = lines[0]
    for line, n in zip(lines[1:], sizes[1:]):
        flat = flat * n + line
    return flat if dtype is None else flat.astype(dtype)


def within(name: str, line: Array, size: int, mode: str) -> Array:
    """Indices within an axis by a mode; "raise" leaves those of a trace, which are not known.

    Raises:
        OutOfBoundsError: for indices outside, if they raise.

    Example:
        >>> import tfn.numpy as tnp
        >>> within("choose", tnp.array([0, 5]), 2, "clip").tolist()
        [0, 1]
    """
    if mode == "wrap":
        return line % size
    if mode == "clip":
        return line.clip(0, size - 1)
    if line.owner is None:  # in a trace, no value is known
        values = np.asarray(line)
        if values.size and not 0 <= values.min() <= values.max() < size:
            raise OutOfBoundsError(
                f"{name} needs indices within the axis",
                got=f"{values.min()} to {values.max()}, an axis of size {size}",
                hint='mode="clip" or "wrap" brings them inside',
            )
    return line


def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """The coordinate arrays of the grid that vectors span.

    Args:
        *xi: vectors, or numbers.
        copy: accepted as in NumPy: the results are new arrays.
        sparse: whether to leave size 1 along the axes of the other vectors.
        indexing: "xy" for the second vector along the first axis, "ij" for the vectors in the order
            of the axes.

    Returns:
        A list of one array for each vector, of its dtype and the shape of the grid; a Python float
        has the dtype that it would have beside the vectors.

    Raises:
        ArgumentError: unless `indexing` is "xy" or "ij".
        ShapeError: for arrays of two and more axes.

    Example:
        >>> import tfn.numpy as tnp
        >>> x, y = meshgrid(tnp.arange(3), tnp.arange(2))
        >>> x.tolist(), y.tolist()
        ([[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]])
    """
    one_of("meshgrid", "indexing", indexing, ("xy", "ij"))
    lines = [
        operands_of("meshgrid", *xi)[i] if type(x) in (float, complex) else array_of("meshgrid", x)
        for i, x in enumerate(xi)
    ]
    for x in lines:
        rank("meshgrid", x, 0, 1)
    order = [1, 0, *range(2, len(lines))] if indexing == "xy" and len(lines) > 1 else None
    axes = order or list(range(len(lines)))
    sizes = [x.size for x in lines]
    shape = tuple(sizes[axis] for axis in axes)
    grids = []
    for x, axis in zip(lines, axes):
        line_shape = tuple(x.size if i == axis else 1 for i in range(len(lines)))
        grids.append(apply(_grid, (x,), line_shape, line_shape if sparse else shape))
    return grids


def _grid(x: UOp, line_shape: Shape, shape: Shape) -> UOp:
    return build.expand(reshape(x, line_shape), shape)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Row and column indices of the elements at or below the k-th diagonal of a matrix.

    Raises:
        ShapeError: unless `arr` is a matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> tril_indices_from(tnp.ones((2, 2)), -1)
        (Array([1], dtype=int32), Array([0], dtype=int32))
    """
    x = array_of("tril_indices_from", arr)
    rank("tril_indices_from", x, 2, 2)
    return tril_indices(x.shape[0], k, x.shape[1])


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Row and column indices of the elements at or above the k-th diagonal of a matrix.

    Raises:
        ShapeError: unless `arr` is a matrix.

    Example:
        >>> import tfn.numpy as tnp
        >>> triu_indices_from(tnp.ones((2, 2)), 1)
        (Array([0], dtype=int32), Array([1], dtype=int32))
    """
    x = array_of("triu_indices_from", arr)
    rank("triu_indices_from", x, 2, 2)
    return triu_indices(x.shape[0], k, x.shape[1])


class IndexExpression:
    """The index between brackets, as it is: ``s_[1:3, ...]``.

    Attributes:
        always_tuple: whether a single index becomes a tuple, too.
    """

    __slots__ = ("always_tuple",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, always_tuple: bool) -> None:
        self.always_tuple = always_tuple

    def __getitem__(self, index: object) -> Any:
        return index if isinstance(index, tuple) or not self.always_tuple else (index,)


def _line_of(part: object) -> Array:
    """The numbers of a slice; a complex step is their number, and both ends are included."""
    if not isinstance(part, slice):
        raise ArgumentError(
            "mgrid and ogrid take slices", got=shown(part), hint="write mgrid[0:4, 0:1:5j]"
        )
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        line: Array = linspace(start, part.stop, int(abs(part.step)))
        return line
    return arange(start, part.stop, part.step)


class Grid:
    """The coordinates of a grid by slices: ``mgrid[0:3, 0:1:5j]``.

    Attributes:
        sparse: whether to leave size 1 along other axes.
    """

    __slots__ = ("sparse",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, slice):
            return _line_of(index)
        parts = index if isinstance(index, tuple) else (index,)
        lines = [*map(_line_of, parts)]
        kind, _ = promote(tuple(dict.fromkeys((line.dtype, False) for line in lines)))
        lines = [line.astype(kind) for line in lines]
        lines = meshgrid(*lines, indexing="ij", sparse=self.sparse)
        return tuple(lines) if self.sparse else stack(lines)


class Joiner:
    """The concatenation of arrays, numbers and slices: ``r_[0:3, x, 7]`` and ``c_[x, y]``.

    Attributes:
        columns: whether vectors become columns.
    """

    __slots__ = ("columns",)
    __iter__ = None  # with `__getitem__` alone iteration would never end

    def __init__(self, columns: bool) -> None:
        self.columns = columns

    def __getitem__(self, index: object) -> Array:
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, str) for part in items):
            raise ArgumentError(
                "r_ and c_ take no strings", got=shown(items), hint="use stack or concatenate"
            )
        parts = operands_of("r_", *[_line_of(p) if isinstance(p, slice) else p for p in items])
        if not self.columns:
            return concatenate([part.reshape(1) if part.ndim == 0 else part for part in parts])
        parts = [part.reshape(-1, 1) if part.ndim < 2 else part for part in parts]
        return concatenate(parts, -1)


s_, index_exp = IndexExpression(False), IndexExpression(True)
mgrid, ogrid = Grid(False), Grid(True)
r_, c_ = Joiner(False), Joiner(True)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """The vectors in shapes by which together they index a grid.

    Raises:
        ShapeError: if one has not exactly one axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> tnp.arange(6).reshape(2, 3)[ix_(tnp.array([0, 1]), tnp.array([0, 2]))].tolist()
        [[0, 2], [3, 5]]
    """
    vectors = [array_of("ix_", line) for line in args]
    for v in vectors:
        rank("ix_", v, 1, 1)
    return tuple(
        v.reshape((1,) * i + (v.size,) + (1,) * (len(vectors) - i - 1))
        for i, v in enumerate(vectors)
    )
