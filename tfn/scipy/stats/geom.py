"""The geometric distribution: the number of trials until the first success.

The probability of k is ``p (1 - p)**(k - 1)``, for ``loc = 0``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import xlog1py
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import probability, standardize, unless_nan


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is a whole number from 1 on.

    Args:
        k: counts, an array or a number.
        p: probability of success, above 0 and up to 1.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import geom
        >>> round(float(geom.logpmf(2, 0.3)), 3)
        -1.561
    """
    z, p, _ = standardize("geom.logpmf", k, p, loc, 1)
    p = probability(jnp.where(p == 0, jnp.nan, p))
    log_mass = xlog1py(z - 1, -p) + jnp.log(p)
    outside = (z < 1) | (jnp.floor(z) != z)
    return unless_nan(z + p, jnp.where(outside, -jnp.inf, log_mass))


def _cdf(z: Array, p: Array) -> Array:
    """The probability of a value of at most z."""
    p = probability(jnp.where(p == 0, jnp.nan, p))
    return unless_nan(z + p, jnp.where(z < 1, 0, -jnp.expm1(jnp.floor(z) * jnp.log1p(-p))))


pmf = density(logpmf, 0.21)
cdf = of_point(logpmf, "cdf", _cdf, 0.51)
