"""Functions in the manner of SciPy, as `jax.scipy` has them.  Files in reading order:

special  the error, gamma and beta functions and their like, for statistics
normal   the normal distribution function, its logarithm and its inverse
linalg   factorisations to be kept and used, matrix exponentials, matrices of a pattern
stats    densities and distribution functions
"""

import tfn.scipy.stats as stats  # noqa: F401
from tfn.scipy import linalg as linalg
from tfn.scipy import special as special
