"""The negative binomial distribution: failures until n successes."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, gammaln, xlog1py, xlogy
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, n, p, _ = placed("nbinom.logpmf", k, n, p, loc, 1)
    inside = jnp.maximum(z, 0)
    ways = gammaln(n + inside) - gammaln(n) - gammaln(inside + 1)
    found = ways + xlogy(n, p) + xlog1py(inside, -p)
    return jnp.where((z < 0) | (jnp.floor(z) != z), -jnp.inf, found)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, n, p, loc))


def cdf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable it is to be at most k."""
    z, n, p, _ = placed("nbinom.cdf", k, n, p, loc, 1)
    return jnp.where(z < 0, 0, betainc(n, jnp.floor(jnp.maximum(z, 0)) + 1, p))
