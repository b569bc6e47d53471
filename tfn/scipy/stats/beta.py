"""The beta distribution, of numbers from 0 to 1.

With ``z = (x - loc) / scale`` the density is ``z**(a - 1) (1 - z)**(b - 1) / (B(a, b) scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betainc, betaln, xlog1py, xlogy
from tfn.scipy.stats.location_scale import standardize


def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of the probability density at x; -inf outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.logpdf(0.25, 2.0, 3.0)), 3)
        0.523
    """
    z, a, b, scale = standardize("beta.logpdf", x, a, b, loc, scale)
    inside = jnp.clip(z, 0, 1)
    log_density = xlogy(a - 1, inside) + xlog1py(b - 1, -inside) - betaln(a, b) - jnp.log(scale)
    return jnp.where((z < 0) | (z > 1), -jnp.inf, log_density)


def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability density at x; 0 outside of `loc` to ``loc + scale``.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.pdf(0.25, 2.0, 3.0)), 3)
        1.688
    """
    return jnp.exp(logpdf(x, a, b, loc, scale))


def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.cdf(0.25, 2.0, 3.0)), 3)
        0.262
    """
    z, a, b, _ = standardize("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, jnp.clip(z, 0, 1))


def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.logcdf(0.25, 2.0, 3.0)), 3)
        -1.34
    """
    return jnp.log(cdf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.sf(0.25, 2.0, 3.0)), 3)
        0.738
    """
    z, a, b, _ = standardize("beta.sf", x, a, b, loc, scale)
    return betainc(b, a, 1 - jnp.clip(z, 0, 1))


def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        a: first shape parameter, positive.
        b: second shape parameter, positive.
        loc: smallest value; 0 by default.
        scale: width of the interval, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import beta
        >>> round(float(beta.logsf(0.25, 2.0, 3.0)), 3)
        -0.303
    """
    return jnp.log(sf(x, a, b, loc, scale))
