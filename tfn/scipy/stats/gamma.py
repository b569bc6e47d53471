"""The gamma distribution: sums of waiting times.

With ``z = (x - loc) / scale`` the density is ``z**(a - 1) exp(-z) / (Gamma(a) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.logpdf(1.0, 2.0)), 3)
        -1.0
    """
    z, a, scale = standardize("gamma.logpdf", x, a, loc, scale)
    inside = jnp.maximum(z, 0)
    log_density = xlogy(a - 1, inside) - inside - gammaln(a) - jnp.log(scale)
    return jnp.where(z < 0, -jnp.inf, log_density)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x; 0 below `loc`.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.pdf(1.0, 2.0)), 3)
        0.368
    """
    return jnp.exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.cdf(1.0, 2.0)), 3)
        0.264
    """
    z, a, _ = standardize("gamma.cdf", x, a, loc, scale)
    return gammainc(a, jnp.maximum(z, 0))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.logcdf(1.0, 2.0)), 3)
        -1.331
    """
    return jnp.log(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.sf(1.0, 2.0)), 3)
        0.736
    """
    z, a, _ = standardize("gamma.sf", x, a, loc, scale)
    return gammaincc(a, jnp.maximum(z, 0))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        a: shape, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import gamma
        >>> round(float(gamma.logsf(1.0, 2.0)), 3)
        -0.307
    """
    return jnp.log(sf(x, a, loc, scale))
