"""The binomial distribution whose probability is beta distributed."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betaln
from tfn.scipy.stats.places import placed


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k."""
    z, n, a, b, _ = placed("betabinom.logpmf", k, n, a, b, loc, 1)
    inside = jnp.clip(z, 0, n)
    ways = -betaln(inside + 1, n - inside + 1) - jnp.log(n + 1)
    found = ways + betaln(inside + a, n - inside + b) - betaln(a, b)
    return jnp.where((z == inside) & (jnp.floor(z) == z), found, -jnp.inf)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The probability of k."""
    return jnp.exp(logpmf(k, n, a, b, loc))
