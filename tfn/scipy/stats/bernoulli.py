"""The distribution of Bernoulli: 1 with probability p, else 0."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import xlog1py, xlogy
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, p, _ = placed("bernoulli.logpmf", k, p, loc, 1)
    found = xlogy(z, p) + xlog1py(1 - z, -p)
    return jnp.where((z == 0) | (z == 1), found, -jnp.inf)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable it is to be at most k."""
    z, p, _ = placed("bernoulli.cdf", k, p, loc, 1)
    return jnp.where(z < 0, 0, jnp.where(z < 1, 1 - p, 1))
