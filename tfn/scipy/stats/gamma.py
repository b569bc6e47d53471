"""The gamma distribution: sums of waiting times.

With ``z = (x - loc) / scale`` the density is ``z**(a - 1) exp(-z) / (Gamma(a) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.distribution import density, logarithm, of_point
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.logpdf(1.0, 2.0)), 3)
        -1.0
    """
    z, a, scale = standardize("gamma.logpdf", x, a, loc, scale)
    inside = jnp.maximum(z, 0)
    log_density = xlogy(a - 1, inside) - inside - gammaln(a) - jnp.log(scale)
    return jnp.where(z < 0, -jnp.inf, log_density)


pdf = density(logpdf, 0.368)
cdf = of_point(logpdf, "cdf", lambda z, a: gammainc(a, jnp.maximum(z, 0)), 0.264)
sf = of_point(logpdf, "sf", lambda z, a: gammaincc(a, jnp.maximum(z, 0)), 0.736)
logcdf = logarithm(cdf, sf, -1.331)
logsf = logarithm(sf, cdf, -0.307)
