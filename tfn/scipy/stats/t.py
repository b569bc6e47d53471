"""The distribution of Student."""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, gammaln
from tfn.scipy.stats.places import placed


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the density at x."""
    z, df, scale = placed("t.logpdf", x, df, loc, scale)
    half = df / 2
    normal = gammaln(half + 0.5) - gammaln(half) - jnp.log(df * math.pi) / 2
    return normal - (half + 0.5) * jnp.log1p(z * z / df) - jnp.log(scale)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The density at x."""
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be at most x."""
    z, df, _ = placed("t.cdf", x, df, loc, scale)
    part = betainc(df / 2, 0.5, df / (df + z * z)) / 2
    return jnp.where(z > 0, 1 - part, part)


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`."""
    return jnp.log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """How probable it is to be more than x."""
    z, df, _ = placed("t.sf", x, df, loc, scale)
    part = betainc(df / 2, 0.5, df / (df + z * z)) / 2
    return jnp.where(z > 0, part, 1 - part)


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`."""
    return jnp.log(sf(x, df, loc, scale))
