"""The generalised normal distribution."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaln
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, beta, scale = placed("gennorm.logpdf", x, beta, loc, scale)
    return jnp.log(beta / 2) - gammaln(1 / beta) - abs(z) ** beta - jnp.log(scale)


def pdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, beta, loc, scale))


def cdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, beta, _ = placed("gennorm.cdf", x, beta, loc, scale)
    return 0.5 + jnp.sign(z) * gammainc(1 / beta, abs(z) ** beta) / 2


def logcdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, beta, loc, scale))


def sf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    return 1 - cdf(x, beta, loc, scale)


def logsf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    return jnp.log1p(-cdf(x, beta, loc, scale))
