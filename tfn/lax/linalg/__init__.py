"""Matrix factorisations and solves, by LAPACK on the host, with derivatives of their own.

All take stacks of matrices: the last two axes are rows and columns, the axes before them are
batches.  16-bit floats are computed, and returned, in 32 bits.  Where LAPACK fails - a matrix is
singular, not positive, not finite - results are NaN.

Files in reading order:
    routines routines of LAPACK on stacks of matrices, by native code
    lapack   functions of the host that NumPy has
    stacks   stacks of matrices: what is accepted, and small steps on them
    solving  triangular_solve, lu, solve, cholesky, qr
    spectra  eigh, eig, svd, and their values alone
    minors   det, slogdet, adjugate
"""

from tfn.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lax.linalg.minors import adjugate as adjugate
    from tfn.lax.linalg.minors import det as det
    from tfn.lax.linalg.minors import slogdet as slogdet
    from tfn.lax.linalg.solving import cholesky as cholesky
    from tfn.lax.linalg.solving import lu as lu
    from tfn.lax.linalg.solving import lu_pivots_to_permutation as lu_pivots_to_permutation
    from tfn.lax.linalg.solving import lu_solve as lu_solve
    from tfn.lax.linalg.solving import qr as qr
    from tfn.lax.linalg.solving import solve as solve
    from tfn.lax.linalg.solving import triangular_solve as triangular_solve
    from tfn.lax.linalg.spectra import eig as eig
    from tfn.lax.linalg.spectra import eigh as eigh
    from tfn.lax.linalg.spectra import eigvals as eigvals
    from tfn.lax.linalg.spectra import eigvalsh as eigvalsh
    from tfn.lax.linalg.spectra import svd as svd
    from tfn.lax.linalg.spectra import svdvals as svdvals
