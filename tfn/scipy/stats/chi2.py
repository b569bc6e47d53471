"""The chi-squared distribution: sums of squares of standard normal numbers.

With ``z = (x - loc) / scale`` the density is ``(z / 2)**(df / 2 - 1) exp(-z / 2) / (2 Gamma(df / 2)
scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.distribution import density, logarithm, of_point
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.logpdf(1.0, 2.0)), 3)
        -1.193
    """
    z, df, scale = standardize("chi2.logpdf", x, df, loc, scale)
    half, inside = df / 2, jnp.maximum(z, 0) / 2
    log_density = xlogy(half - 1, inside) - inside - gammaln(half) - jnp.log(2 * scale)
    return jnp.where(z < 0, -jnp.inf, log_density)


pdf = density(logpdf, 0.303)
cdf = of_point(logpdf, "cdf", lambda z, df: gammainc(df / 2, jnp.maximum(z, 0) / 2), 0.393)
sf = of_point(logpdf, "sf", lambda z, df: gammaincc(df / 2, jnp.maximum(z, 0) / 2), 0.607)
logcdf = logarithm(cdf, sf, -0.933)
logsf = logarithm(sf, cdf, -0.5)
