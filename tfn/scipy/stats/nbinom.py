"""The negative binomial distribution: the number of failures before n successes.

The probability of k is ``C(k + n - 1, k) p**n (1 - p)**k``, for ``loc = 0``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, gammaln, xlog1py, xlogy
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import positive, probability, standardize, unless_nan


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is a whole number from 0 on.

    Args:
        k: counts, an array or a number.
        n: number of successes, positive.
        p: probability of success, above 0 and up to 1.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import nbinom
        >>> round(float(nbinom.logpmf(2, 5, 0.7)), 3)
        -1.483
    """
    z, n, p, _ = standardize("nbinom.logpmf", k, n, p, loc, 1)
    n, p = positive(n), probability(jnp.where(p == 0, jnp.nan, p))
    inside = jnp.maximum(z, 0)
    log_combinations = gammaln(n + inside) - gammaln(n) - gammaln(inside + 1)
    log_mass = log_combinations + xlogy(n, p) + xlog1py(inside, -p)
    outside = (z < 0) | (jnp.floor(z) != z)
    return unless_nan(z + n + p, jnp.where(outside, -jnp.inf, log_mass))


def _cdf(z: Array, n: Array, p: Array) -> Array:
    """The probability of a value of at most z."""
    n, p = positive(n), probability(jnp.where(p == 0, jnp.nan, p))
    large = z > 1e15  # where z + 1 is z, and the distribution has ended
    total = betainc(n, jnp.floor(jnp.where(large, 0, jnp.maximum(z, 0))) + 1, p)
    return unless_nan(z + n + p, jnp.where(z < 0, 0, jnp.where(large, 1, total)))


pmf = density(logpmf, 0.227)
cdf = of_point(logpmf, "cdf", _cdf, 0.647)
