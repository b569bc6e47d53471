"""Linear algebra over stacks of matrices, the last two axes.  Files in reading order:

norms     norms, condition, rank
solving   solve, inverses, determinants, least squares
spectra   eigenvalues, singular values, Cholesky, QR
products  powers, chains, traces
"""

# ruff: noqa: I001  (reading order)
# fmt: off
from tfn.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.numpy.contraction import matmul as matmul, tensordot as tensordot, vecdot as vecdot
    from tfn.numpy.manipulation import matrix_transpose as matrix_transpose
    from tfn.numpy.linalg.norms import (
        cond as cond, matrix_norm as matrix_norm, matrix_rank as matrix_rank, norm as norm,
        vector_norm as vector_norm,
    )
    from tfn.numpy.linalg.solving import (
        det as det, inv as inv, lstsq as lstsq, pinv as pinv, slogdet as slogdet, solve as solve,
        tensorinv as tensorinv, tensorsolve as tensorsolve,
    )
    from tfn.numpy.linalg.spectra import (
        cholesky as cholesky, eig as eig, eigh as eigh, eigvals as eigvals, eigvalsh as eigvalsh,
        qr as qr, svd as svd, svdvals as svdvals,
    )
    from tfn.numpy.linalg.products import (
        cross as cross, diagonal as diagonal, matrix_power as matrix_power, multi_dot as multi_dot,
        outer as outer, trace as trace,
    )
