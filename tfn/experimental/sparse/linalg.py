"""Linear systems with a sparse matrix: `spsolve`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import numpy as tnp
from tfn import pure_callback, stop_gradient
from tfn.array import Array
from tfn.experimental.sparse.matrices import CSR
from tfn.extend import ShapeDtypeStruct
from tfn.lax import custom_linear_solve
from tfn.lower.graph.host_libraries import sparse_solve


def spsolve(
    data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
) -> Array:
    """The solution x of ``A x = b`` for a square sparse matrix, by a sparse LU decomposition.

    The host computes it, with SciPy's SuperLU.  Derivatives are those of the system, by the
    elements of the matrix and by b.

    Args:
        data, indices, indptr: the parts of A by compressed rows, as those of `CSR`.
        b: a vector.
        tol, reorder: accepted, for solvers on GPUs.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> mat = sparse.CSR.fromdense(tnp.asarray([[2.0, 0.0], [1.0, 4.0]]))
        >>> spsolve(mat.data, mat.indices, mat.indptr, tnp.asarray([2.0, 9.0])).tolist()
        [1.0, 2.0]
    """
    data, indices, indptr, b = map(tnp.asarray, (data, indices, indptr, b))
    n = b.shape[0]
    dtype = tnp.result_type(data, b)
    like = ShapeDtypeStruct((n,), dtype)

    def of_host(transposed: bool) -> Any:
        def solve(matvec: Any, y: Any) -> Any:
            def call(*parts: Any) -> Any:
                a, rows, begins, b = map(np.asarray, parts)
                return sparse_solve(a, rows, begins, b, transposed).astype(dtype)

            fixed = map(stop_gradient, (data, indices, indptr))
            return pure_callback(call, like, *fixed, y, vmap_method="sequential")

        return solve

    mat = CSR((data, indices, indptr), shape=(n, n))
    return custom_linear_solve(  # type: ignore[no-any-return]
        lambda x: mat @ x, b.astype(dtype), of_host(False), of_host(True)
    )
