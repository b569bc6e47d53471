"""The logistic distribution."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import expit, logit
from tfn.scipy.stats.places import moved, placed


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, scale = placed("logistic.logpdf", x, loc, scale)
    return -z - 2 * jnp.logaddexp(0, -z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, _ = placed("logistic.cdf", x, loc, scale)
    return expit(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    z, _ = placed("logistic.logcdf", x, loc, scale)
    return -jnp.logaddexp(0, -z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, _ = placed("logistic.sf", x, loc, scale)
    return expit(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    z, _ = placed("logistic.logsf", x, loc, scale)
    return -jnp.logaddexp(0, z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: inverts `cdf`."""
    z, _ = placed("logistic.ppf", q, 0, 1)
    return moved(logit(z), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: inverts `sf`."""
    z, _ = placed("logistic.isf", q, 0, 1)
    return moved(-logit(z), loc, scale)
