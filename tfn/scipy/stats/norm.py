"""The normal distribution.

With ``z = (x - loc) / scale`` the density is ``exp(-z**2 / 2) / (sqrt(2 pi) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import log_ndtr, ndtr, ndtri
from tfn.scipy.stats.distribution import density, of_point, of_probability
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.logpdf(1.0)), 3)
        -1.419
    """
    z, scale = standardize("norm.logpdf", x, loc, scale)
    return -z * z / 2 - math.log(2 * math.pi) / 2 - jnp.log(scale)


pdf = density(logpdf, 0.242)
cdf = of_point(logpdf, "cdf", ndtr, 0.841)
logcdf = of_point(logpdf, "logcdf", log_ndtr, -0.173)
sf = of_point(logpdf, "sf", lambda z: ndtr(-z), 0.159)
logsf = of_point(logpdf, "logsf", lambda z: log_ndtr(-z), -1.841)
ppf = of_probability(logpdf, "ppf", ndtri, 1.282)
isf = of_probability(logpdf, "isf", lambda q: -ndtri(q), -1.282)
