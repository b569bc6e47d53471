"""Linear algebra over stacks of matrices: the last two axes are rows and columns.

16-bit floats are computed, and returned, in 32 bits.  Where LAPACK fails (a matrix is singular, not
positive definite, not finite) results are NaN.  Files in reading order:

lapack          LAPACK routines on stacks of matrices, called from native code
host_calls      functions of NumPy, called on the host
stacks          checks of arguments: stacks of matrices, their shapes and dtypes
elimination     systems of small matrices, along the stack
block_triangular systems of triangles by blocks, for grids
triangular      triangular_solve, lu, solve, cholesky, qr, with derivatives
eigen           eigh, eig, svd and their values alone, with derivatives
determinants    det, slogdet, adjugate, with derivatives
norms           norms, condition number, rank
systems         solve, inv, pinv, lstsq
factorizations  the same factorisations under NumPy's names and result types
products        powers, chains, traces
"""

# ruff: noqa: I001  (reading order)
# fmt: off
from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.numpy.contraction import matmul as matmul, tensordot as tensordot, vecdot as vecdot
    from tfn.numpy.manipulation import matrix_transpose as matrix_transpose
    from tfn.numpy.linalg.norms import (
        cond as cond, matrix_norm as matrix_norm, matrix_rank as matrix_rank, norm as norm,
        vector_norm as vector_norm,
    )
    from tfn.numpy.linalg.systems import (
        det as det, inv as inv, lstsq as lstsq, pinv as pinv, slogdet as slogdet, solve as solve,
        tensorinv as tensorinv, tensorsolve as tensorsolve,
    )
    from tfn.numpy.linalg.factorizations import (
        cholesky as cholesky, eig as eig, eigh as eigh, eigvals as eigvals, eigvalsh as eigvalsh,
        qr as qr, svd as svd, svdvals as svdvals,
    )
    from tfn.numpy.linalg.products import (
        cross as cross, diagonal as diagonal, matrix_power as matrix_power, multi_dot as multi_dot,
        outer as outer, trace as trace,
    )
