"""The Gumbel distribution of largest values.

With ``z = (x - loc) / scale`` the density is ``exp(-z - exp(-z)) / scale``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, logarithm, of_point, of_probability
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_r
        >>> round(float(gumbel_r.logpdf(0.5)), 3)
        -1.107
    """
    z, scale = standardize("gumbel_r.logpdf", x, loc, scale)
    return -z - jnp.exp(-z) - jnp.log(scale)


pdf = density(logpdf, 0.331)
cdf = of_point(logpdf, "cdf", lambda z: jnp.exp(-jnp.exp(-z)), 0.545)
sf = of_point(logpdf, "sf", lambda z: -jnp.expm1(-jnp.exp(-z)), 0.455)
logcdf = of_point(logpdf, "logcdf", lambda z: -jnp.exp(-z), -0.607)
logsf = logarithm(sf, cdf, -0.788)
ppf = of_probability(logpdf, "ppf", lambda p: -jnp.log(-jnp.log(p)), 2.25, parameter="p")
isf = of_probability(logpdf, "isf", lambda q: -jnp.log(-jnp.log1p(-q)), -0.834)
