"""The distribution of Pareto."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.places import moved, placed


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, b, scale = placed("pareto.logpdf", x, b, loc, scale)
    found = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(z, 1))
    return jnp.where(z < 1, -jnp.inf, found)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, b, _ = placed("pareto.cdf", x, b, loc, scale)
    return -jnp.expm1(-b * jnp.log(jnp.maximum(z, 1)))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, b, loc, scale))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, b, _ = placed("pareto.sf", x, b, loc, scale)
    return jnp.maximum(z, 1) ** -b


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    z, b, _ = placed("pareto.logsf", x, b, loc, scale)
    return -b * jnp.log(jnp.maximum(z, 1))


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: inverts `cdf`."""
    z, b, _ = placed("pareto.ppf", q, b, 0, 1)
    return moved((1 - z) ** (-1 / b), loc, scale)


def isf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: inverts `sf`."""
    z, b, _ = placed("pareto.isf", q, b, 0, 1)
    return moved(z ** (-1 / b), loc, scale)
