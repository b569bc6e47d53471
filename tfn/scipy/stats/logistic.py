"""The logistic distribution.

With ``z = (x - loc) / scale`` the density is ``exp(-z) / ((1 + exp(-z))**2 scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import expit, logit
from tfn.scipy.stats.distribution import density, of_point, of_probability
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.logpdf(1.0)), 3)
        -1.627
    """
    z, scale = standardize("logistic.logpdf", x, loc, scale)
    z = abs(z)  # the density is even, and -inf + inf would be NaN
    return -z - 2 * jnp.log1p(jnp.exp(-z)) - jnp.log(scale)


pdf = density(logpdf, 0.197)
cdf = of_point(logpdf, "cdf", expit, 0.731)
logcdf = of_point(logpdf, "logcdf", lambda z: -jnp.logaddexp(0, -z), -0.313)
sf = of_point(logpdf, "sf", lambda z: expit(-z), 0.269)
logsf = of_point(logpdf, "logsf", lambda z: -jnp.logaddexp(0, z), -1.313)
ppf = of_probability(logpdf, "ppf", logit, 2.197, parameter="x")
isf = of_probability(logpdf, "isf", lambda q: -logit(q), -2.197, parameter="x")
