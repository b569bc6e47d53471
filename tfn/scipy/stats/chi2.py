"""The chi-squared distribution: sums of squares of standard normal numbers.

With ``z = (x - loc) / scale`` the density is ``(z / 2)**(df / 2 - 1) exp(-z / 2) / (2 Gamma(df / 2)
scale)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf below `loc`.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.logpdf(1.0, 2.0)), 3)
        -1.193
    """
    z, df, scale = standardize("chi2.logpdf", x, df, loc, scale)
    half, inside = df / 2, jnp.maximum(z, 0) / 2
    log_density = xlogy(half - 1, inside) - inside - gammaln(half) - jnp.log(2 * scale)
    return jnp.where(z < 0, -jnp.inf, log_density)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x; 0 below `loc`.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.pdf(1.0, 2.0)), 3)
        0.303
    """
    return jnp.exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.cdf(1.0, 2.0)), 3)
        0.393
    """
    z, df, _ = standardize("chi2.cdf", x, df, loc, scale)
    return gammainc(df / 2, jnp.maximum(z, 0) / 2)


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.logcdf(1.0, 2.0)), 3)
        -0.933
    """
    return jnp.log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.sf(1.0, 2.0)), 3)
        0.607
    """
    z, df, _ = standardize("chi2.sf", x, df, loc, scale)
    return gammaincc(df / 2, jnp.maximum(z, 0) / 2)


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        df: degrees of freedom, positive.
        loc: smallest value; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import chi2
        >>> round(float(chi2.logsf(1.0, 2.0)), 3)
        -0.5
    """
    return jnp.log(sf(x, df, loc, scale))
