"""The binomial distribution: successes among n."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, betaln, xlog1py, xlogy
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, n, p, _ = placed("binom.logpmf", k, n, p, loc, 1)
    inside = jnp.clip(z, 0, n)
    ways = -betaln(inside + 1, n - inside + 1) - jnp.log(n + 1)
    found = ways + xlogy(inside, p) + xlog1py(n - inside, -p)
    return jnp.where((z == inside) & (jnp.floor(z) == z), found, -jnp.inf)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, n, p, loc))


def cdf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """How probable it is to be at most k."""
    z, n, p, _ = placed("binom.cdf", k, n, p, loc, 1)
    inside = jnp.clip(jnp.floor(z), 0, n - 1)
    found = betainc(n - inside, inside + 1, 1 - p)
    return jnp.where(z < 0, 0, jnp.where(z >= n, 1, found))
