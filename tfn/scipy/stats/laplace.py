"""The distribution of Laplace."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.places import moved, placed


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, scale = placed("laplace.logpdf", x, loc, scale)
    return -abs(z) - jnp.log(2 * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, _ = placed("laplace.cdf", x, loc, scale)
    return jnp.where(z < 0, jnp.exp(jnp.minimum(z, 0)) / 2, 1 - jnp.exp(-jnp.maximum(z, 0)) / 2)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    z, _ = placed("laplace.logcdf", x, loc, scale)
    return jnp.where(z < 0, z - math.log(2), jnp.log1p(-jnp.exp(-jnp.maximum(z, 0)) / 2))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, _ = placed("laplace.sf", x, loc, scale)
    return jnp.where(z > 0, jnp.exp(-jnp.maximum(z, 0)) / 2, 1 - jnp.exp(jnp.minimum(z, 0)) / 2)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    z, _ = placed("laplace.logsf", x, loc, scale)
    return jnp.where(z > 0, -z - math.log(2), jnp.log1p(-jnp.exp(jnp.minimum(z, 0)) / 2))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: inverts `cdf`."""
    z, _ = placed("laplace.ppf", q, 0, 1)
    return moved(jnp.where(z < 0.5, jnp.log(2 * z), -jnp.log(2 * (1 - z))), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: inverts `sf`."""
    return ppf(jnp.subtract(1, q), loc, scale)
