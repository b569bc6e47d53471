"""New sparse arrays by the name of a format: empty ones, identities, random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tfn import numpy as tnp
from tfn import random, vmap
from tfn.array import Array
from tfn.experimental.sparse.bcoo import BCOO
from tfn.experimental.sparse.bcsr import BCSR
from tfn.experimental.sparse.coordinates import number_of_axes, unraveled
from tfn.experimental.sparse.derivatives import JAXSparse, is_sparse
from tfn.experimental.sparse.matrices import COO, CSC, CSR
from tfn.extend import one_of

FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def todense(arr: Any) -> Array:
    """The dense array of a sparse one; a dense one as it is.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> todense(sparse.eye(2)).tolist(), todense(1)
        ([[1.0, 0.0], [0.0, 1.0]], Array(1, dtype=int32, weak_type=True))
    """
    return arr.todense() if is_sparse(arr) else tnp.asarray(arr)


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """A sparse array of zeros, of which none is stored.

    Args:
        shape: of the array.
        dtype, index_dtype: of the elements and of the indices.
        sparse_format: bcoo, bcsr, coo, csr or csc.
        kwds: ``n_batch`` and ``n_dense`` of a bcoo or bcsr, ``nse`` for room.

    Raises:
        ArgumentError: for another format.

    Example:
        >>> empty((2, 3))
        BCOO(float32[2, 3], nse=0)
    """
    one_of("empty", "sparse_format", sparse_format, tuple(FORMATS))
    made: JAXSparse = FORMATS[sparse_format]._empty(
        shape, dtype=dtype, index_dtype=index_dtype, **kwds
    )
    return made


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """A matrix with ones on a diagonal.

    Args:
        N, M: the numbers of rows and columns; M is N if None.
        k: the diagonal: above the main one if positive.
        dtype, index_dtype: of the elements and of the indices.
        sparse_format: bcoo, bcsr, coo, csr or csc.
        kwds: ``n_batch`` and ``n_dense`` of a bcoo or bcsr.

    Raises:
        ArgumentError: for another format.

    Example:
        >>> eye(2, 3, k=1).todense().tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    one_of("eye", "sparse_format", sparse_format, tuple(FORMATS))
    made: JAXSparse = FORMATS[sparse_format]._eye(
        N, N if M is None else M, k, dtype=dtype, index_dtype=index_dtype, **kwds
    )
    return made


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = "float32",
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A sparse array with elements at random places.

    Args:
        key: a random key.
        shape: of the array.
        dtype, indices_dtype: of the elements and of the indices.
        nse: how many elements each batch has; below one, the share of all.
        n_batch, n_dense: the numbers of batch and dense axes.
        unique_indices: whether no place is taken twice.
        sorted_indices: whether elements are in order.
        generator: ``generator(key, shape=shape, dtype=dtype, **kwds)`` makes the elements.
        kwds: for the generator.

    Raises:
        ArgumentError: for axes that do not add up.

    Example:
        >>> import tfn
        >>> random_bcoo(tfn.random.key(0), (10, 10))
        BCOO(float32[10, 10], nse=20)
    """
    n_sparse = number_of_axes("random_bcoo", shape, n_batch, n_dense)
    batch, sparse = tuple(shape[:n_batch]), tuple(shape[n_batch : n_batch + n_sparse])
    dense = tuple(shape[n_batch + n_sparse :])
    size = prod(sparse)
    count = int(-(-nse * size // 1)) if nse < 1 else int(nse)
    count = min(count, size) if unique_indices else count
    for_data, for_places = random.split(key)
    index_dtype = indices_dtype or "int32"

    def places(key: Any) -> Any:
        if unique_indices:
            flat = random.choice(key, size, shape=(count,), replace=False)
        else:
            flat = random.randint(key, (count,), 0, size)
        rows = tnp.sort(flat) if sorted_indices else flat
        return unraveled(rows, sparse, index_dtype)

    keys = random.split(for_places, prod(batch))
    indices = vmap(places)(keys).reshape(*batch, count, n_sparse) if batch else places(keys[0])
    data = generator(for_data, shape=(*batch, count, *dense), dtype=dtype, **kwds)
    mat = BCOO(
        (data, indices),
        shape=shape,
        indices_sorted=sorted_indices,
        unique_indices=unique_indices,
    )
    return mat
