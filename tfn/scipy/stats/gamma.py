"""The gamma distribution."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, a, scale = placed("gamma.logpdf", x, a, loc, scale)
    inside = jnp.maximum(z, 0)
    found = xlogy(a - 1, inside) - inside - gammaln(a) - jnp.log(scale)
    return jnp.where(z < 0, -jnp.inf, found)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, a, _ = placed("gamma.cdf", x, a, loc, scale)
    return gammainc(a, jnp.maximum(z, 0))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, a, _ = placed("gamma.sf", x, a, loc, scale)
    return gammaincc(a, jnp.maximum(z, 0))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    return jnp.log(sf(x, a, loc, scale))
