"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import xlog1py, xlogy
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import probability, standardize, unless_nan


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is 0 or 1.

    Args:
        k: counts, an array or a number.
        p: probability of 1, from 0 to 1.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import bernoulli
        >>> round(float(bernoulli.logpmf(1, 0.3)), 3)
        -1.204
    """
    z, p, _ = standardize("bernoulli.logpmf", k, p, loc, 1)
    p = probability(p)
    log_mass = xlogy(z, p) + xlog1py(1 - z, -p)
    return jnp.where((z == z) & (p == p) & (z != 0) & (z != 1), -jnp.inf, log_mass)


def _cdf(z: Array, p: Array) -> Array:
    """The probability of a value of at most z."""
    p = probability(p)
    return unless_nan(z + p, jnp.where(z < 0, 0, jnp.where(z < 1, 1 - p, 1)))


pmf = density(logpmf, 0.3)
cdf = of_point(logpmf, "cdf", _cdf, 1.0)


def ppf(q: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The inverse of `cdf`: the least count whose distribution function is q at least.

    Args:
        q: probabilities, an array or a number; NaN where one is not from 0 to 1.
        p: probability of 1, from 0 to 1.
        loc: shift of counts; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import bernoulli
        >>> bernoulli.ppf(0.9, 0.3).item()
        1.0
    """
    z, p, _ = standardize("bernoulli.ppf", q, p, 0, 1)
    count = jnp.where(z == 0, -1, jnp.where(z <= 1 - p, 0, 1)).astype(z.dtype)
    valid = (z >= 0) & (z <= 1) & (p >= 0) & (p <= 1)
    return jnp.where(valid, count, jnp.nan) + loc
