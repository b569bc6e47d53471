"""The exponential distribution: waiting times without memory.

With ``z = (x - loc) / scale`` the density is ``exp(-z) / scale``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, logarithm, of_point, of_probability
from tfn.scipy.stats.location_scale import probability, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.logpdf(1.0)), 3)
        -1.0
    """
    z, scale = standardize("expon.logpdf", x, loc, scale)
    return jnp.where(z < 0, -jnp.inf, -z - jnp.log(scale))


pdf = density(logpdf, 0.368)
cdf = of_point(logpdf, "cdf", lambda z: jnp.where(z < 0, 0, -jnp.expm1(-z)), 0.632)
sf = of_point(logpdf, "sf", lambda z: jnp.where(z < 0, 1, jnp.exp(-z)), 0.368)
logcdf = logarithm(cdf, sf, -0.459)
logsf = of_point(logpdf, "logsf", lambda z: jnp.where(z < 0, 0, -z), -1.0)
ppf = of_probability(logpdf, "ppf", lambda q: -jnp.log1p(-probability(q)), 2.303)
isf = of_probability(logpdf, "isf", lambda q: -jnp.log(probability(q)), 0.105)
