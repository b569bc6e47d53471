"""The logistic distribution.

With ``z = (x - loc) / scale`` the density is ``exp(-z) / ((1 + exp(-z))**2 scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import expit, logit
from tfn.scipy.stats.location_scale import rescale, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.logpdf(1.0)), 3)
        -1.627
    """
    z, scale = standardize("logistic.logpdf", x, loc, scale)
    z = abs(z)  # the density is even, and -inf + inf would be NaN
    return -z - 2 * jnp.log1p(jnp.exp(-z)) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.pdf(1.0)), 3)
        0.197
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.cdf(1.0)), 3)
        0.731
    """
    z, _ = standardize("logistic.cdf", x, loc, scale)
    return expit(z)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.logcdf(1.0)), 3)
        -0.313
    """
    z, _ = standardize("logistic.logcdf", x, loc, scale)
    return -jnp.logaddexp(0, -z)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.sf(1.0)), 3)
        0.269
    """
    z, _ = standardize("logistic.sf", x, loc, scale)
    return expit(-z)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.logsf(1.0)), 3)
        -1.313
    """
    z, _ = standardize("logistic.logsf", x, loc, scale)
    return -jnp.logaddexp(0, z)


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number that is not exceeded with probability `x`: the inverse of `cdf`.

    Args:
        x: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.ppf(0.9)), 3)
        2.197
    """
    z, _ = standardize("logistic.ppf", x, 0, 1)
    return rescale(logit(z), loc, scale)


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number that is exceeded with probability `x`: the inverse of `sf`.

    Args:
        x: probabilities from 0 to 1, an array or a number.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import logistic
        >>> round(float(logistic.isf(0.9)), 3)
        -2.197
    """
    z, _ = standardize("logistic.isf", x, 0, 1)
    return rescale(-logit(z), loc, scale)
