"""The chi-squared distribution."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, df, scale = placed("chi2.logpdf", x, df, loc, scale)
    half, inside = df / 2, jnp.maximum(z, 0) / 2
    found = xlogy(half - 1, inside) - inside - gammaln(half) - jnp.log(2 * scale)
    return jnp.where(z < 0, -jnp.inf, found)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, df, _ = placed("chi2.cdf", x, df, loc, scale)
    return gammainc(df / 2, jnp.maximum(z, 0) / 2)


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, df, _ = placed("chi2.sf", x, df, loc, scale)
    return gammaincc(df / 2, jnp.maximum(z, 0) / 2)


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    return jnp.log(sf(x, df, loc, scale))
