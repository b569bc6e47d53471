"""The Cauchy distribution wrapped around the circle.

With ``z = (x - loc) / scale`` the density is ``(1 - c**2) / (2 pi (1 + c**2 - 2 c cos(z)) scale)``
for z from 0 to 2 pi.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.stats.distribution import density
from tfn.scipy.stats.location_scale import standardize, unless_nan


def logpdf(x: ArrayLike, c: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x; -inf outside of `loc` to ``loc + 2 pi scale``.

    Args:
        x: points, an array or a number.
        c: concentration, above 0 and below 1.
        loc: angle of the mode, in radians for scale 1; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import wrapcauchy
        >>> round(float(wrapcauchy.logpdf(0.5, 0.5)), 3)
        -1.138
    """
    z, c, scale = standardize("wrapcauchy.logpdf", x, c, loc, scale)
    c = jnp.where((c > 0) & (c < 1), c, jnp.nan)
    log_density = jnp.log((1 - c * c) / (2 * math.pi * (1 + c * c - 2 * c * jnp.cos(z)))) - jnp.log(
        scale
    )
    outside = (z < 0) | (z > 2 * math.pi)
    return unless_nan(c + scale, jnp.where(outside, -jnp.inf, log_density))


pdf = density(logpdf, 0.321)
