"""The distribution of Poisson."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaincc, gammaln, xlogy
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, mu, _ = placed("poisson.logpmf", k, mu, loc, 1)
    found = xlogy(z, mu) - mu - gammaln(z + 1)
    return jnp.where((z < 0) | (jnp.floor(z) != z), -jnp.inf, found)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable it is to be at most k."""
    z, mu, _ = placed("poisson.cdf", k, mu, loc, 1)
    return jnp.where(z < 0, 0, gammaincc(jnp.floor(jnp.maximum(z, 0)) + 1, mu))
