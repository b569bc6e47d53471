"""The normal distribution between a and b, in units of scale from loc."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import log_ndtr
from tfn.scipy.stats.places import placed


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the density at x."""
    z, a, b, scale = placed("truncnorm.logpdf", x, a, b, loc, scale)
    mass = between(a, b)
    found = -z * z / 2 - math.log(2 * math.pi) / 2 - jnp.log(scale) - mass
    return jnp.where((z < a) | (z > b), -jnp.inf, found)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """How probable it is to be at most x."""
    z, a, b, _ = placed("truncnorm.cdf", x, a, b, loc, scale)
    return jnp.exp(between(a, jnp.clip(z, a, b)) - between(a, b))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf`."""
    z, a, b, _ = placed("truncnorm.logcdf", x, a, b, loc, scale)
    return between(a, jnp.clip(z, a, b)) - between(a, b)


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, a, b, _ = placed("truncnorm.sf", x, a, b, loc, scale)
    return jnp.exp(between(jnp.clip(z, a, b), b) - between(a, b))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf`."""
    z, a, b, _ = placed("truncnorm.logsf", x, a, b, loc, scale)
    return between(jnp.clip(z, a, b), b) - between(a, b)


def between(a: Array, b: Array) -> Array:
    """The logarithm of how probable a standard normal number from a to b is."""
    turned = a > 0  # in the upper tail both probabilities are near 1: take those of the lower
    low, high = jnp.where(turned, -b, a), jnp.where(turned, -a, b)
    return log_ndtr(high) + jnp.log1p(-jnp.exp(log_ndtr(low) - log_ndtr(high)))
