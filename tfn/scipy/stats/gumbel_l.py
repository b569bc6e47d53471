"""The Gumbel distribution of smallest values.

With ``z = (x - loc) / scale`` the density is ``exp(z - exp(z)) / scale``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import rescale, standardize


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.logpdf(0.5)), 3)
        -1.149
    """
    z, scale = standardize("gumbel_l.logpdf", x, loc, scale)
    return z - jnp.exp(z) - jnp.log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.pdf(0.5)), 3)
        0.317
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.cdf(0.5)), 3)
        0.808
    """
    z, _ = standardize("gumbel_l.cdf", x, loc, scale)
    return -jnp.expm1(-jnp.exp(z))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.logcdf(0.5)), 3)
        -0.214
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.sf(0.5)), 3)
        0.192
    """
    z, _ = standardize("gumbel_l.sf", x, loc, scale)
    return jnp.exp(-jnp.exp(z))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.logsf(0.5)), 3)
        -1.649
    """
    z, _ = standardize("gumbel_l.logsf", x, loc, scale)
    return -jnp.exp(z)


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number that is not exceeded with probability `p`: the inverse of `cdf`.

    Args:
        p: probabilities from 0 to 1, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.ppf(0.9)), 3)
        0.834
    """
    z, _ = standardize("gumbel_l.ppf", p, 0, 1)
    return rescale(jnp.log(-jnp.log1p(-z)), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: mode; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gumbel_l
        >>> round(float(gumbel_l.isf(0.9)), 3)
        -2.25
    """
    z, _ = standardize("gumbel_l.isf", q, 0, 1)
    return rescale(jnp.log(-jnp.log(z)), loc, scale)
