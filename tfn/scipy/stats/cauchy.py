"""The Cauchy distribution, which has no mean.

With ``z = (x - loc) / scale`` the density is ``1 / (pi (1 + z**2) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.location_scale import (
    log_one_plus_square,
    probability,
    rescale,
    standardize,
)


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.logpdf(1.0)), 3)
        -1.838
    """
    z, scale = standardize("cauchy.logpdf", x, loc, scale)
    return -jnp.log(math.pi * scale) - log_one_plus_square(z)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability density at x.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.pdf(1.0)), 3)
        0.159
    """
    return jnp.exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value of at most x.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.cdf(1.0)), 3)
        0.75
    """
    z, _ = standardize("cauchy.cdf", x, loc, scale)
    return 0.5 + jnp.arctan(z) / math.pi


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `cdf`.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.logcdf(1.0)), 3)
        -0.288
    """
    return jnp.log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The probability of a value above x.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.sf(1.0)), 3)
        0.25
    """
    z, _ = standardize("cauchy.sf", x, loc, scale)
    return 0.5 - jnp.arctan(z) / math.pi


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of `sf`.

    Args:
        x: points, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.logsf(1.0)), 3)
        -1.386
    """
    return jnp.log(sf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q: the inverse of `cdf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.ppf(0.9)), 3)
        3.078
    """
    z, _ = standardize("cauchy.ppf", q, 0, 1)
    return rescale(_quantile(z), loc, scale)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q: the inverse of `sf`.

    Args:
        q: probabilities from 0 to 1, an array or a number.
        loc: median; 0 by default.
        scale: half the width at half the height, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import cauchy
        >>> round(float(cauchy.isf(0.9)), 3)
        -3.078
    """
    z, _ = standardize("cauchy.isf", q, 0, 1)
    return rescale(-_quantile(z), loc, scale)


def _quantile(z: Array) -> Array:
    """``-1 / tan(pi z)``, of the nearer end: at the ends ``tan`` has lost its digits."""
    z = probability(z)
    upper = z > 0.5
    size = 1 / jnp.tan(math.pi * jnp.where(upper, 1 - z, z))
    return jnp.where(z == 0.5, 0, jnp.where(upper, size, -size))
