"""The distribution of Gumbel, of smallest values."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.places import moved, placed


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, scale = placed("gumbel_l.logpdf", x, loc, scale)
    return z - jnp.exp(z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, _ = placed("gumbel_l.cdf", x, loc, scale)
    return -jnp.expm1(-jnp.exp(z))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, _ = placed("gumbel_l.sf", x, loc, scale)
    return jnp.exp(-jnp.exp(z))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    z, _ = placed("gumbel_l.logsf", x, loc, scale)
    return -jnp.exp(z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: inverts `cdf`."""
    z, _ = placed("gumbel_l.ppf", q, 0, 1)
    return moved(jnp.log(-jnp.log1p(-z)), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: inverts `sf`."""
    z, _ = placed("gumbel_l.isf", q, 0, 1)
    return moved(jnp.log(-jnp.log(z)), loc, scale)
