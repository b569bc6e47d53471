"""The beta distribution, of numbers from 0 to 1.

With ``z = (x - loc) / scale`` the density is ``z**(a - 1) (1 - z)**(b - 1) / (B(a, b) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, betaln, xlog1py, xlogy
from tfn.scipy.stats.distribution import density, logarithm, of_point
from tfn.scipy.stats.location_scale import standardize


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability density at x; -inf outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.logpdf(0.25, 2.0, 3.0)), 3)
        0.523
    """
    z, a, b, scale = standardize("beta.logpdf", x, a, b, loc, scale)
    inside = jnp.clip(z, 0, 1)
    log_density = xlogy(a - 1, inside) + xlog1py(b - 1, -inside) - betaln(a, b) - jnp.log(scale)
    return jnp.where((z < 0) | (z > 1), -jnp.inf, log_density)


def _cdf(z: Array, a: Array, b: Array) -> Array:
    """The probability of a value of at most z."""
    return betainc(a, b, jnp.clip(z, 0, 1))


pdf = density(logpdf, 1.688)
cdf = of_point(logpdf, "cdf", _cdf, 0.262)
sf = of_point(logpdf, "sf", lambda z, a, b: _cdf(1 - z, b, a), 0.738)
logcdf = logarithm(cdf, sf, -1.34)
logsf = logarithm(sf, cdf, -0.303)
