"""The geometric distribution: how often to try until the first success."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import xlog1py
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, p, _ = placed("geom.logpmf", k, p, loc, 1)
    found = xlog1py(z - 1, -p) + jnp.log(p)
    return jnp.where((z < 1) | (jnp.floor(z) != z), -jnp.inf, found)


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable it is to be at most k."""
    z, p, _ = placed("geom.cdf", k, p, loc, 1)
    return jnp.where(z < 1, 0, -jnp.expm1(jnp.floor(z) * jnp.log1p(-p)))
