"""Student's t distribution.

With ``z = (x - loc) / scale`` the density is ``(1 + z**2 / df)**(-(df + 1) / 2) / (sqrt(df) B(1 /
2, df / 2) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.lax.logbeta import log_rise
from tfn.scipy.special import betainc
from tfn.scipy.stats.distribution import density, logarithm, of_point
from tfn.scipy.stats.location_scale import log_one_plus_square, standardize


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: median; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import t
        >>> round(float(t.logpdf(1.0, 3.0)), 3)
        -1.576
    """
    z, df, scale = standardize("t.logpdf", x, df, loc, scale)
    half = df / 2
    normal = log_rise(half, jnp.full_like(half, 0.5)) - jnp.log(df * math.pi) / 2
    return normal - (half + 0.5) * log_one_plus_square(z / jnp.sqrt(df)) - jnp.log(scale)


def _cdf(z: Array, df: Array) -> Array:
    """The probability of a value of at most z, whose smaller part is exact."""
    part = betainc(df / 2, 0.5, df / (df + z * z)) / 2
    return jnp.where(z > 0, 1 - part, part)


pdf = density(logpdf, 0.207)
cdf = of_point(logpdf, "cdf", _cdf, 0.804)
sf = of_point(logpdf, "sf", lambda z, df: _cdf(-z, df), 0.196)
logcdf = logarithm(cdf, sf, -0.218)
logsf = logarithm(sf, cdf, -1.632)
