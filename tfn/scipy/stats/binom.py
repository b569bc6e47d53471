"""The binomial distribution: the number of successes in n trials.

The probability of k is ``C(n, k) p**k (1 - p)**(n - k)``, for ``loc = 0``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, betaln, xlog1py, xlogy
from tfn.scipy.stats.distribution import density, of_point
from tfn.scipy.stats.location_scale import probability, standardize, unless_nan


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is a whole number from 0 to n.

    Args:
        k: counts, an array or a number.
        n: number of trials, not negative.
        p: probability of success, from 0 to 1.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import binom
        >>> round(float(binom.logpmf(2, 5, 0.3)), 3)
        -1.175
    """
    z, n, p, _ = standardize("binom.logpmf", k, n, p, loc, 1)
    n, p = _count(n), probability(p)
    inside = jnp.clip(z, 0, n)
    log_combinations = -betaln(inside + 1, n - inside + 1) - jnp.log(n + 1)
    log_mass = log_combinations + xlogy(inside, p) + xlog1py(n - inside, -p)
    outside = (z != inside) | (jnp.floor(z) != z)
    return unless_nan(z + n + p, jnp.where(outside, -jnp.inf, log_mass))


def _cdf(z: Array, n: Array, p: Array) -> Array:
    """The probability of a value of at most z."""
    n, p = _count(n), probability(p)
    inside = jnp.clip(jnp.floor(z), 0, n - 1)
    total = betainc(n - inside, inside + 1, 1 - p)
    return unless_nan(z + n + p, jnp.where(z < 0, 0, jnp.where(z >= n, 1, total)))


def _count(n: Array) -> Array:
    return jnp.where((n >= 0) & (jnp.floor(n) == n), n, jnp.nan)


pmf = density(logpmf, 0.309)
cdf = of_point(logpmf, "cdf", _cdf, 0.837)
