"""The Cauchy distribution, which has no mean.

With ``z = (x - loc) / scale`` the density is ``1 / (pi (1 + z**2) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, logarithm, of_point, of_probability
from tfn.scipy.stats.location_scale import log_one_plus_square, probability, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.logpdf(1.0)), 3)
        -1.838
    """
    z, scale = standardize("cauchy.logpdf", x, loc, scale)
    return -jnp.log(math.pi * scale) - log_one_plus_square(z)


def _quantile(q: Array) -> Array:
    """``-1 / tan(pi q)``, of the nearer end: at the ends ``tan`` has lost its digits."""
    q = probability(q)
    upper = q > 0.5
    size = 1 / jnp.tan(math.pi * jnp.where(upper, 1 - q, q))
    return jnp.where(q == 0.5, 0, jnp.where(upper, size, -size))


pdf = density(logpdf, 0.159)
cdf = of_point(logpdf, "cdf", lambda z: jnp.arctan2(1, -z) / math.pi, 0.75)
sf = of_point(logpdf, "sf", lambda z: jnp.arctan2(1, z) / math.pi, 0.25)
logcdf = logarithm(cdf, sf, -0.288)
logsf = logarithm(sf, cdf, -1.386)
ppf = of_probability(logpdf, "ppf", _quantile, 3.078)
isf = of_probability(logpdf, "isf", lambda q: -_quantile(q), -3.078)
