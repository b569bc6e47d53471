"""The distribution of Cauchy, wrapped around the circle."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, c: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, c, scale = placed("wrapcauchy.logpdf", x, c, loc, scale)
    found = jnp.log((1 - c * c) / (2 * math.pi * (1 + c * c - 2 * c * jnp.cos(z)))) - jnp.log(scale)
    return jnp.where((z < 0) | (z > 2 * math.pi), -jnp.inf, found)


def pdf(x: ArrayLike, c: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, c, loc, scale))
