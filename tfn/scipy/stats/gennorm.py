"""The generalised normal distribution, with Laplace (beta 1) and normal (beta 2) as cases.

With ``z = (x - loc) / scale`` the density is ``beta exp(-|z|**beta) / (2 Gamma(1 / beta) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaincc, gammaln
from tfn.scipy.stats.distribution import density, logarithm, of_point
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.logpdf(1.0, 1.5)), 3)
        -1.591
    """
    z, beta, scale = standardize("gennorm.logpdf", x, beta, loc, scale)
    return jnp.log(beta / 2) - gammaln(1 / beta) - abs(z) ** beta - jnp.log(scale)


def _sf(z: Array, beta: Array) -> Array:
    """The probability of a value above z, whose smaller part is exact."""
    beyond = gammaincc(1 / beta, abs(z) ** beta) / 2
    return jnp.where(z > 0, beyond, 1 - beyond)


pdf = density(logpdf, 0.204)
cdf = of_point(logpdf, "cdf", lambda z, beta: _sf(-z, beta), 0.888)
sf = of_point(logpdf, "sf", _sf, 0.112)
logcdf = logarithm(cdf, sf, -0.119)
logsf = logarithm(sf, cdf, -2.186)
