"""The normal distribution."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import log_ndtr, ndtr, ndtri
from tfn.scipy.stats.places import moved, placed


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, scale = placed("norm.logpdf", x, loc, scale)
    return -z * z / 2 - math.log(2 * math.pi) / 2 - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, _ = placed("norm.cdf", x, loc, scale)
    return ndtr(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    z, _ = placed("norm.logcdf", x, loc, scale)
    return log_ndtr(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, _ = placed("norm.sf", x, loc, scale)
    return ndtr(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    z, _ = placed("norm.logsf", x, loc, scale)
    return log_ndtr(-z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: inverts `cdf`."""
    z, _ = placed("norm.ppf", q, 0, 1)
    return moved(ndtri(z), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: inverts `sf`."""
    z, _ = placed("norm.isf", q, 0, 1)
    return moved(-ndtri(z), loc, scale)
