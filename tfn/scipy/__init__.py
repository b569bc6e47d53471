"""Functions in the manner of SciPy, as `jax.scipy` has them.  Files in reading order:

special  special functions: error, gamma, beta and Bessel functions
exponential_integrals  `expi`, `exp1`, under `special`
normal   the normal distribution function, its logarithm and its inverse
linalg   factorisations, solutions by them, matrix exponentials
matrix_functions  square roots, Sylvester's equation, polar factors, under `linalg`
structured_matrices  Hankel, Hadamard, Pascal matrices and others, under `linalg`
sparse   Krylov methods for linear systems
stats    probability distributions
fft      discrete cosine transforms
signal   convolution, detrending, windows, spectra
ndimage  interpolation between elements
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy import fft as fft
    from tfn.scipy import linalg as linalg
    from tfn.scipy import ndimage as ndimage
    from tfn.scipy import signal as signal
    from tfn.scipy import sparse as sparse
    from tfn.scipy import special as special
    from tfn.scipy import stats as stats
