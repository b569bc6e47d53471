"""The Poisson distribution: the number of independent events at a rate.

The probability of k is ``mu**k exp(-mu) / k!``, for ``loc = 0``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaincc, gammaln, xlogy
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import standardize, unless_nan


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is a whole number from 0 on.

    Args:
        k: counts, an array or a number.
        mu: mean number of events, not negative.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import poisson
        >>> round(float(poisson.logpmf(2, 3.0)), 3)
        -1.496
    """
    z, mu, _ = standardize("poisson.logpmf", k, mu, loc, 1)
    mu = jnp.where(mu >= 0, mu, jnp.nan)
    log_mass = xlogy(z, mu) - mu - gammaln(z + 1)
    outside = (z < 0) | (jnp.floor(z) != z) | (jnp.isinf(z))
    return unless_nan(z + mu, jnp.where(outside, -jnp.inf, log_mass))


def _cdf(z: Array, mu: Array) -> Array:
    """The probability of a value of at most z."""
    mu = jnp.where(mu >= 0, mu, jnp.nan)
    total = gammaincc(jnp.floor(jnp.where(jnp.isinf(z), 0, jnp.maximum(z, 0))) + 1, mu)
    end = jnp.where(z == jnp.inf, 1, total)
    return unless_nan(z + mu, jnp.where(z < 0, 0, end))


pmf = density(logpmf, 0.224)
cdf = of_point(logpmf, "cdf", _cdf, 0.423)


TERMS_OF_ENTROPY = 260
"""Counts that are summed for means up to 100, 16 deviations beyond."""


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats: the mean of the negative logarithm of the probability.

    Up to a mean of 100 by a sum, beyond by an asymptotic series, to 1e-9 of the result.

    Args:
        mu: mean number of events, not negative.
        loc: shift of counts, which changes nothing.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Source: R. J. Evans, J. Boersma, N. M. Blachman and A. A. Jagers, "The entropy of a Poisson
    distribution", SIAM Review, 1988.

    Example:
        >>> from tfn.scipy.stats import poisson
        >>> round(float(poisson.entropy(1.0)), 4)
        1.3048
    """
    _, mean, _ = standardize("poisson.entropy", 0.0, mu, loc, 1)
    near = mean <= 100
    small = jnp.where(near, mean, 1)
    counts = jnp.arange(TERMS_OF_ENTROPY).reshape(-1, *[1] * mean.ndim).astype(mean.dtype)
    logs = xlogy(counts, small) - gammaln(counts + 1) - small
    total = -(jnp.exp(logs) * jnp.where(logs > -700, logs, 0)).sum(0)
    large = jnp.where(near, 100, mean)
    tail = (((3 / 16) / large + 9 / 80) / large + 19 / 360) / large + 1 / 24
    series = 0.5 * jnp.log(2 * math.pi * math.e * large) - (tail / large + 1 / 12) / large
    value = jnp.where(near, total, series)
    return jnp.where(mean == 0, 0, jnp.where(mean < 0, jnp.nan, value))
