"""The exponential distribution: waiting times without memory.

With ``z = (x - loc) / scale`` the density is ``exp(-z) / scale``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import probability, rescale, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.logpdf(1.0)), 3)
        -1.0
    """
    z, scale = standardize("expon.logpdf", x, loc, scale)
    return jnp.where(z < 0, -jnp.inf, -z - jnp.log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x; 0 below `loc`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.pdf(1.0)), 3)
        0.368
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.cdf(1.0)), 3)
        0.632
    """
    z, _ = standardize("expon.cdf", x, loc, scale)
    return jnp.where(z < 0, 0, -jnp.expm1(-z))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.logcdf(1.0)), 3)
        -0.459
    """
    z, _ = standardize("expon.logcdf", x, loc, scale)
    return jnp.log(-jnp.expm1(-jnp.maximum(z, 0)))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.sf(1.0)), 3)
        0.368
    """
    z, _ = standardize("expon.sf", x, loc, scale)
    return jnp.where(z < 0, 1, jnp.exp(-z))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.logsf(1.0)), 3)
        -1.0
    """
    z, _ = standardize("expon.logsf", x, loc, scale)
    return jnp.where(z < 0, 0, -z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.ppf(0.9)), 3)
        2.303
    """
    z, _ = standardize("expon.ppf", q, 0, 1)
    return rescale(-jnp.log1p(-probability(z)), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: smallest value; 0 by default.
        scale: mean distance from `loc`, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import expon
        >>> round(float(expon.isf(0.9)), 3)
        0.105
    """
    z, _ = standardize("expon.isf", q, 0, 1)
    return rescale(-jnp.log(probability(z)), loc, scale)
