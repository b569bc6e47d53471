"""The Poisson distribution: the number of independent events at a rate.

The probability of k is ``mu**k exp(-mu) / k!``, for ``loc = 0``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaincc, gammaln, xlogy
from tfn.scipy.stats.location_scale import standardize


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
    log_mass = xlogy(z, mu) - mu - gammaln(z + 1)
    return jnp.where((z < 0) | (jnp.floor(z) != z), -jnp.inf, log_mass)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k; 0 unless ``k - loc`` is a whole number from 0 on.

    Args:
        k: counts, an array or a number.
        mu: mean number of events, not negative.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import poisson
        >>> round(float(poisson.pmf(2, 3.0)), 3)
        0.224
    """
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of a value of at most k.

    Args:
        k: counts, an array or a number.
        mu: mean number of events, not negative.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import poisson
        >>> round(float(poisson.cdf(2, 3.0)), 3)
        0.423
    """
    z, mu, _ = standardize("poisson.cdf", k, mu, loc, 1)
    return jnp.where(z < 0, 0, gammaincc(jnp.floor(jnp.maximum(z, 0)) + 1, mu))
