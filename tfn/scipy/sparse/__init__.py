"""Linear systems of matrices given as functions, solved by iteration, as in `jax.scipy.sparse`.

Files in reading order:
    krylov  the iterations, on vectors
    linalg  cg, bicgstab, gmres, on trees of arrays, with derivatives
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy.sparse import linalg as linalg
