"""The uniform distribution from loc to loc + scale.

With ``z = (x - loc) / scale`` the density is ``1 / scale`` for z from 0 to 1.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import probability, rescale, standardize, unless_nan


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.logpdf(0.25, scale=2.0)), 3)
        -0.693
    """
    z, scale = standardize("uniform.logpdf", x, loc, scale)
    return jnp.where((z < 0) | (z > 1), -jnp.inf, unless_nan(z, -jnp.log(scale)))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x; 0 outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.pdf(0.25)), 3)
        1.0
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.cdf(0.25)), 3)
        0.25
    """
    z, _ = standardize("uniform.cdf", x, loc, scale)
    return jnp.clip(z, 0, 1)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.logcdf(0.25)), 3)
        -1.386
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.sf(0.25)), 3)
        0.75
    """
    z, _ = standardize("uniform.sf", x, loc, scale)
    return 1 - jnp.clip(z, 0, 1)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.logsf(0.25)), 3)
        -0.288
    """
    return jnp.log(sf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.ppf(0.9)), 3)
        0.9
    """
    z, _ = standardize("uniform.ppf", q, 0, 1)
    return rescale(probability(z), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import uniform
        >>> round(float(uniform.isf(0.9)), 3)
        0.1
    """
    return ppf(jnp.subtract(1, q), loc, scale)
