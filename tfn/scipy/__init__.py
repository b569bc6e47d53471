"""Functions in the manner of SciPy, as `jax.scipy` has them.  Files in reading order:

special  special functions: error, gamma, beta and Bessel functions
exponential_integrals  `expi`, `exp1`, under `special`
definite_integrals  sine and cosine integrals, dilogarithm, `expn`, Owen's function, there too
faddeeva  the Faddeeva function, `erfcx`, Dawson's and Fresnel's integrals
hypergeometric  Kummer's and Gauss's functions
log_gamma  the logarithm of the gamma function of complex numbers, Bernoulli numbers
spherical  spherical harmonics, Bessel functions of integer order
normal   the normal distribution function, its logarithm and its inverse
linalg   factorisations, solutions by them, matrix exponentials
matrix_functions  square roots, Sylvester's equation, polar factors, under `linalg`
structured_matrices  Hankel, Hadamard, Pascal matrices and others, under `linalg`
sparse   Krylov methods for linear systems
stats    probability distributions
fft      discrete cosine transforms
signal   convolution, detrending, windows, spectra
ndimage  interpolation between elements
image_filters  linear filters, extremes and medians of windows, under `ndimage`
interpolate  interpolation on grids
integrate  integrals of samples
optimize  minima, roots and fits
on_host  algorithms of SciPy on the host
cluster  vector quantization
spatial  rotations, distances
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.scipy import cluster as cluster
    from tfn.scipy import fft as fft
    from tfn.scipy import integrate as integrate
    from tfn.scipy import interpolate as interpolate
    from tfn.scipy import linalg as linalg
    from tfn.scipy import ndimage as ndimage
    from tfn.scipy import optimize as optimize
    from tfn.scipy import signal as signal
    from tfn.scipy import sparse as sparse
    from tfn.scipy import spatial as spatial
    from tfn.scipy import special as special
    from tfn.scipy import stats as stats
