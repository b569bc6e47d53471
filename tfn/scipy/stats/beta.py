"""The beta distribution."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, betaln, xlog1py, xlogy
from tfn.scipy.stats.places import placed


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density at x."""
    z, a, b, scale = placed("beta.logpdf", x, a, b, loc, scale)
    inside = jnp.clip(z, 0, 1)
    found = xlogy(a - 1, inside) + xlog1py(b - 1, -inside) - betaln(a, b) - jnp.log(scale)
    return jnp.where((z < 0) | (z > 1), -jnp.inf, found)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """How probable it is to be at most x."""
    z, a, b, _ = placed("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, jnp.clip(z, 0, 1))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, a, b, _ = placed("beta.sf", x, a, b, loc, scale)
    return betainc(b, a, 1 - jnp.clip(z, 0, 1))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf`."""
    return jnp.log(sf(x, a, b, loc, scale))
