"""The normal distribution.

With ``z = (x - loc) / scale`` the density is ``exp(-z**2 / 2) / (sqrt(2 pi) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import log_ndtr, ndtr, ndtri
from tfn.scipy.stats.location_scale import rescale, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.logpdf(1.0)), 3)
        -1.419
    """
    z, scale = standardize("norm.logpdf", x, loc, scale)
    return -z * z / 2 - math.log(2 * math.pi) / 2 - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.pdf(1.0)), 3)
        0.242
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.cdf(1.0)), 3)
        0.841
    """
    z, _ = standardize("norm.cdf", x, loc, scale)
    return ndtr(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.logcdf(1.0)), 3)
        -0.173
    """
    z, _ = standardize("norm.logcdf", x, loc, scale)
    return log_ndtr(z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.sf(1.0)), 3)
        0.159
    """
    z, _ = standardize("norm.sf", x, loc, scale)
    return ndtr(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.logsf(1.0)), 3)
        -1.841
    """
    z, _ = standardize("norm.logsf", x, loc, scale)
    return log_ndtr(-z)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.ppf(0.9)), 3)
        1.282
    """
    z, _ = standardize("norm.ppf", q, 0, 1)
    return rescale(ndtri(z), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: standard deviation, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import norm
        >>> round(float(norm.isf(0.9)), 3)
        -1.282
    """
    z, _ = standardize("norm.isf", q, 0, 1)
    return rescale(-ndtri(z), loc, scale)
