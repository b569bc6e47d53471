"""The distribution of von Mises, on the circle."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import i0e
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, kappa, scale = placed("vonmises.logpdf", x, kappa, loc, scale)
    return kappa * (jnp.cos(z) - 1) - jnp.log(2 * math.pi * i0e(kappa) * scale)


def pdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, kappa, loc, scale))
