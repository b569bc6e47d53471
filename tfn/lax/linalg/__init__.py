"""Matrix factorisations and solves under JAX's names; the code is that of `tfn.numpy.linalg`.

Beyond it, in reading order:

reflections  Householder reflections: the packed form of Q
tridiagonal_systems  systems with three diagonals
spectral     decompositions with JAX's options; the forms of Schur and Hessenberg
jacobi       eigenvalues and singular values without LAPACK
lapack_programs  routines of LAPACK as programs of the language
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.lax.linalg.reflections import geqrf as geqrf
    from tfn.lax.linalg.reflections import householder_product as householder_product
    from tfn.lax.linalg.reflections import ormqr as ormqr
    from tfn.lax.linalg.spectral import EighImplementation as EighImplementation
    from tfn.lax.linalg.spectral import EigImplementation as EigImplementation
    from tfn.lax.linalg.spectral import SvdAlgorithm as SvdAlgorithm
    from tfn.lax.linalg.spectral import cholesky_update as cholesky_update
    from tfn.lax.linalg.spectral import eig as eig
    from tfn.lax.linalg.spectral import eigh as eigh
    from tfn.lax.linalg.spectral import hessenberg as hessenberg
    from tfn.lax.linalg.spectral import qdwh as qdwh
    from tfn.lax.linalg.spectral import qr as qr
    from tfn.lax.linalg.spectral import schur as schur
    from tfn.lax.linalg.spectral import svd as svd
    from tfn.lax.linalg.spectral import symmetric_product as symmetric_product
    from tfn.lax.linalg.spectral import tridiagonal as tridiagonal
    from tfn.lax.linalg.tridiagonal_systems import tridiagonal_solve as tridiagonal_solve
    from tfn.numpy.linalg.determinants import adjugate as adjugate
    from tfn.numpy.linalg.determinants import det as det
    from tfn.numpy.linalg.determinants import slogdet as slogdet
    from tfn.numpy.linalg.eigen import eigvals as eigvals
    from tfn.numpy.linalg.eigen import eigvalsh as eigvalsh
    from tfn.numpy.linalg.eigen import svdvals as svdvals
    from tfn.numpy.linalg.triangular import cholesky as cholesky
    from tfn.numpy.linalg.triangular import lu as lu
    from tfn.numpy.linalg.triangular import lu_pivots_to_permutation as lu_pivots_to_permutation
    from tfn.numpy.linalg.triangular import lu_solve as lu_solve
    from tfn.numpy.linalg.triangular import solve as solve
    from tfn.numpy.linalg.triangular import triangular_solve as triangular_solve
