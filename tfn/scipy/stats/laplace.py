"""The Laplace distribution: exponential on both sides.

With ``z = (x - loc) / scale`` the density is ``exp(-|z|) / (2 scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import rescale, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.logpdf(1.0)), 3)
        -1.693
    """
    z, scale = standardize("laplace.logpdf", x, loc, scale)
    return -abs(z) - jnp.log(2 * scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.pdf(1.0)), 3)
        0.184
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.cdf(1.0)), 3)
        0.816
    """
    z, _ = standardize("laplace.cdf", x, loc, scale)
    return jnp.where(z < 0, jnp.exp(jnp.minimum(z, 0)) / 2, 1 - jnp.exp(-jnp.maximum(z, 0)) / 2)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.logcdf(1.0)), 3)
        -0.203
    """
    z, _ = standardize("laplace.logcdf", x, loc, scale)
    return jnp.where(z < 0, z - math.log(2), jnp.log1p(-jnp.exp(-jnp.maximum(z, 0)) / 2))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.sf(1.0)), 3)
        0.184
    """
    z, _ = standardize("laplace.sf", x, loc, scale)
    return jnp.where(z > 0, jnp.exp(-jnp.maximum(z, 0)) / 2, 1 - jnp.exp(jnp.minimum(z, 0)) / 2)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.logsf(1.0)), 3)
        -1.693
    """
    z, _ = standardize("laplace.logsf", x, loc, scale)
    return jnp.where(z > 0, -z - math.log(2), jnp.log1p(-jnp.exp(jnp.minimum(z, 0)) / 2))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.ppf(0.9)), 3)
        1.609
    """
    z, _ = standardize("laplace.ppf", q, 0, 1)
    return rescale(jnp.where(z < 0.5, jnp.log(2 * z), -jnp.log(2 * (1 - z))), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import laplace
        >>> round(float(laplace.isf(0.9)), 3)
        -1.609
    """
    z, _ = standardize("laplace.isf", q, 0, 1)
    return rescale(jnp.where(z < 0.5, -jnp.log(2 * z), jnp.log(2 * (1 - z))), loc, scale)
