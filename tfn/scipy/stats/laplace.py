"""The Laplace distribution: exponential on both sides.

With ``z = (x - loc) / scale`` the density is ``exp(-|z|) / (2 scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, of_point, of_probability
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.logpdf(1.0)), 3)
        -1.693
    """
    z, scale = standardize("laplace.logpdf", x, loc, scale)
    return -abs(z) - jnp.log(2 * scale)


def _cdf(z: Array) -> Array:
    """The probability of a value of at most z, without a difference in either tail."""
    return jnp.where(z < 0, jnp.exp(jnp.minimum(z, 0)) / 2, 1 - jnp.exp(-jnp.maximum(z, 0)) / 2)


def _logcdf(z: Array) -> Array:
    """Its logarithm."""
    return jnp.where(z < 0, z - math.log(2), jnp.log1p(-jnp.exp(-jnp.maximum(z, 0)) / 2))


def _quantile(q: Array) -> Array:
    """The inverse of `cdf`."""
    return jnp.where(q < 0.5, jnp.log(2 * q), -jnp.log(2 * (1 - q)))


pdf = density(logpdf, 0.184)
cdf = of_point(logpdf, "cdf", _cdf, 0.816)
logcdf = of_point(logpdf, "logcdf", _logcdf, -0.203)
sf = of_point(logpdf, "sf", lambda z: _cdf(-z), 0.184)
logsf = of_point(logpdf, "logsf", lambda z: _logcdf(-z), -1.693)
ppf = of_probability(logpdf, "ppf", _quantile, 1.609)
isf = of_probability(logpdf, "isf", lambda q: -_quantile(q), -1.609)
