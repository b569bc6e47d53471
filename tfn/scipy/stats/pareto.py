"""The Pareto distribution: a power law.

With ``z = (x - loc) / scale`` the density is ``b z**(-b - 1) / scale`` for z from 1 on.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import positive, probability, rescale, standardize


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below ``loc + scale``.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.logpdf(2.0, 3.0)), 3)
        -1.674
    """
    z, b, scale = standardize("pareto.logpdf", x, b, loc, scale)
    log_density = jnp.log(b / scale) - (b + 1) * jnp.log(jnp.maximum(z, 1))
    return jnp.where(z < 1, -jnp.inf, log_density)


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x; 0 below ``loc + scale``.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.pdf(2.0, 3.0)), 3)
        0.188
    """
    return jnp.exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.cdf(2.0, 3.0)), 3)
        0.875
    """
    z, b, _ = standardize("pareto.cdf", x, b, loc, scale)
    return -jnp.expm1(-b * jnp.log(jnp.maximum(z, 1)))


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.logcdf(2.0, 3.0)), 3)
        -0.134
    """
    return jnp.log(cdf(x, b, loc, scale))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.sf(2.0, 3.0)), 3)
        0.125
    """
    z, b, _ = standardize("pareto.sf", x, b, loc, scale)
    return jnp.maximum(z, 1) ** -b


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.logsf(2.0, 3.0)), 3)
        -2.079
    """
    z, b, _ = standardize("pareto.logsf", x, b, loc, scale)
    return -b * jnp.log(jnp.maximum(z, 1))


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.ppf(0.9, 3.0)), 3)
        2.154
    """
    z, b, _ = standardize("pareto.ppf", q, b, 0, 1)
    return rescale((1 - probability(z)) ** (-1 / positive(b)), loc, scale)


def isf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        b: exponent of the tail, positive.
        loc: shift of x; 0 by default.
        scale: smallest value of ``x - loc``, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import pareto
        >>> round(float(pareto.isf(0.9, 3.0)), 3)
        1.036
    """
    z, b, _ = standardize("pareto.isf", q, b, 0, 1)
    return rescale(probability(z) ** (-1 / positive(b)), loc, scale)
