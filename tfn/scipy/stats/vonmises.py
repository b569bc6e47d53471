"""The von Mises distribution, of angles.

With ``z = (x - loc) / scale`` the density is ``exp(kappa cos(z)) / (2 pi I0(kappa) scale)``.
"""

from __future__ import annotations

import math

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import i0e
from tfn.scipy.stats.distribution import density
from tfn.scipy.stats.location_scale import standardize


def logpdf(x: ArrayLike, kappa: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: points, an array or a number.
        kappa: concentration, not negative; 0 is uniform.
        loc: mean angle, in radians for scale 1; 0 by default.
        scale: unit of x, positive; 1 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import vonmises
        >>> round(float(vonmises.logpdf(0.5, 2.0)), 3)
        -0.907
    """
    z, kappa, scale = standardize("vonmises.logpdf", x, kappa, loc, scale)
    kappa = jnp.where(kappa >= 0, kappa, jnp.nan)
    return kappa * (jnp.cos(z) - 1) - jnp.log(2 * math.pi * i0e(kappa) * scale)


pdf = density(logpdf, 0.404)
