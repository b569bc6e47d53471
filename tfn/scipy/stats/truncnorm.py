"""The normal distribution between two bounds, in units of scale from loc.

With ``z = (x - loc) / scale`` the density is ``phi(z) / ((Phi(b) - Phi(a)) scale)`` for z from a to
b.  phi and Phi are the density and the distribution function of standard normal numbers.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import log_ndtr
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import standardize, unless_nan


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability density at x; -inf outside of the two bounds.

    Args:
        x: points, an array or a number.
        a: lower bound of z.
        b: upper bound of z, above `a`.
        loc: mean before truncation; 0 by default.
        scale: standard deviation before truncation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import truncnorm
        >>> round(float(truncnorm.logpdf(0.5, -1.0, 2.0)), 3)
        -0.844
    """
    z, a, b, scale = standardize("truncnorm.logpdf", x, a, b, loc, scale)
    log_probability = _log_probability(a, b)
    log_density = -z * z / 2 - math.log(2 * math.pi) / 2 - jnp.log(scale) - log_probability
    outside = (z < a) | (z > b)
    return unless_nan(log_probability, jnp.where(outside, -jnp.inf, log_density))


def _log_probability(a: Array, b: Array) -> Array:
    """The logarithm of the probability of a standard normal number from a to b."""
    upper = a > 0  # both probabilities are near 1 there; those of the mirrored interval are exact
    a = jnp.where(b < a, jnp.nan, a)
    low, high = jnp.where(upper, -b, a), jnp.where(upper, -a, b)
    return log_ndtr(high) + jnp.log1p(-jnp.exp(log_ndtr(low) - log_ndtr(high)))


def _logcdf(z: Array, a: Array, b: Array) -> Array:
    """The logarithm of the probability of a value of at most z."""
    return _log_probability(a, jnp.clip(z, a, b)) - _log_probability(a, b)


def _logsf(z: Array, a: Array, b: Array) -> Array:
    """The logarithm of the probability of a value above z."""
    return _log_probability(jnp.clip(z, a, b), b) - _log_probability(a, b)


pdf = density(logpdf, 0.43)
cdf = of_point(logpdf, "cdf", lambda *args: jnp.exp(_logcdf(*args)), 0.651)
logcdf = of_point(logpdf, "logcdf", _logcdf, -0.429)
sf = of_point(logpdf, "sf", lambda *args: jnp.exp(_logsf(*args)), 0.349)
logsf = of_point(logpdf, "logsf", _logsf, -1.052)
