"""The generalised normal distribution, with Laplace (beta 1) and normal (beta 2) as cases.

With ``z = (x - loc) / scale`` the density is ``beta exp(-|z|**beta) / (2 Gamma(1 / beta) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaincc, gammaln
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.logpdf(1.0, 1.5)), 3)
        -1.591
    """
    z, beta, scale = standardize("gennorm.logpdf", x, beta, loc, scale)
    return jnp.log(beta / 2) - gammaln(1 / beta) - abs(z) ** beta - jnp.log(scale)


def pdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.pdf(1.0, 1.5)), 3)
        0.204
    """
    return jnp.exp(logpdf(x, beta, loc, scale))


def cdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.cdf(1.0, 1.5)), 3)
        0.888
    """
    return _tail("gennorm.cdf", -1, x, beta, loc, scale)


def logcdf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.logcdf(1.0, 1.5)), 3)
        -0.119
    """
    return jnp.log(cdf(x, beta, loc, scale))


def sf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.sf(1.0, 1.5)), 3)
        0.112
    """
    return _tail("gennorm.sf", 1, x, beta, loc, scale)


def logsf(x: ArrayLike, beta: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        beta: exponent, positive.
        loc: mean; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gennorm
        >>> round(float(gennorm.logsf(1.0, 1.5)), 3)
        -2.186
    """
    return jnp.log(sf(x, beta, loc, scale))


def _tail(
    name: str, sign: int, x: ArrayLike, beta: ArrayLike, loc: ArrayLike, scale: ArrayLike
) -> Array:
    """The probability above x, or below it for a sign of -1."""
    z, beta, _ = standardize(name, x, beta, loc, scale)
    beyond = gammaincc(1 / beta, abs(z) ** beta) / 2
    return jnp.where(sign * z > 0, beyond, 1 - beyond)
