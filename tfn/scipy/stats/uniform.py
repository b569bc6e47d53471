"""The uniform distribution from loc to loc + scale.

With ``z = (x - loc) / scale`` the density is ``1 / scale`` for z from 0 to 1.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, logarithm, of_point, of_probability
from tfn.scipy.stats.location_scale import probability, standardize, unless_nan


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.logpdf(0.25, scale=2.0)), 3)
        -0.693
    """
    z, scale = standardize("uniform.logpdf", x, loc, scale)
    return jnp.where((z < 0) | (z > 1), -jnp.inf, unless_nan(z, -jnp.log(scale)))


pdf = density(logpdf, 0.5)
cdf = of_point(logpdf, "cdf", lambda z: jnp.clip(z, 0, 1), 0.125)
sf = of_point(logpdf, "sf", lambda z: 1 - jnp.clip(z, 0, 1), 0.875)
logcdf = logarithm(cdf, sf, -2.079)
logsf = logarithm(sf, cdf, -0.134)
ppf = of_probability(logpdf, "ppf", probability, 1.8)
isf = of_probability(logpdf, "isf", lambda q: probability(1 - q), 0.2)
