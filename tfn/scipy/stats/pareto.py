"""The Pareto distribution: a power law.

With ``z = (x - loc) / scale`` the density is ``b z**(-b - 1) / scale`` for z from 1 on.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density, logarithm, of_point, of_probability
from tfn.scipy.stats.location_scale import positive, probability, standardize


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below ``loc + scale``.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.logpdf(2.0, 3.0)), 3)
        -1.674
    """
    z, b, scale = standardize("pareto.logpdf", x, b, loc, scale)
    log_density = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(z, 1))
    return jnp.where(z < 1, -jnp.inf, log_density)


def _logsf(z: Array, b: Array) -> Array:
    """The logarithm of the probability of a value above z."""
    return -b * jnp.log(jnp.maximum(z, 1))


def _above(q: Array, b: Array) -> Array:
    """The point that is exceeded with probability q."""
    return probability(q) ** (-1 / positive(b))


pdf = density(logpdf, 0.188)
cdf = of_point(logpdf, "cdf", lambda z, b: -jnp.expm1(_logsf(z, b)), 0.875)
sf = of_point(logpdf, "sf", lambda z, b: jnp.maximum(z, 1) ** -b, 0.125)
logcdf = logarithm(cdf, sf, -0.134)
logsf = of_point(logpdf, "logsf", _logsf, -2.079)
ppf = of_probability(logpdf, "ppf", lambda q, b: _above(1 - q, b), 2.154)
isf = of_probability(logpdf, "isf", _above, 1.036)
