"""Functions in the manner of SciPy, as `jax.scipy` has them.  Files in reading order:

special  the error, gamma and beta functions and their like, for statistics
normal   the normal distribution function, its logarithm and its inverse
linalg   factorisations to be kept and used, matrix exponentials, matrices of a pattern
sparse   linear systems by iteration
stats    densities and distribution functions
signal   convolutions, and the frequencies of parts of a signal
ndimage  values between the elements of an array
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy import linalg as linalg
    from tfn.scipy import ndimage as ndimage
    from tfn.scipy import signal as signal
    from tfn.scipy import sparse as sparse
    from tfn.scipy import special as special
    from tfn.scipy import stats as stats
