"""The multinomial distribution: how often each of several things happens among n."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaln, reals, xlogy


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts x, the last axis."""
    counts, shares = reals("multinomial.logpmf", x, p)
    (total,) = reals("multinomial.logpmf", n)
    total = total.astype(counts.dtype)
    found = gammaln(total + 1) + (xlogy(counts, shares) - gammaln(counts + 1)).sum(-1)
    return jnp.where(counts.sum(-1) == total, found, -jnp.inf)


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of the counts x, the last axis."""
    return jnp.exp(logpmf(x, n, p))
