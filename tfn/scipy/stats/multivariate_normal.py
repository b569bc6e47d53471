"""The normal distribution of vectors of n elements.

The density is ``exp(-(x - mean)^T cov^-1 (x - mean) / 2) / sqrt((2 pi)**n det(cov))``.
"""

from __future__ import annotations

import math

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.normal import real
from tfn.scipy.stats.distribution import density


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The logarithm of the probability density at x.

    Args:
        x: vectors, along the last axis.
        mean: vectors of means, or a number, broadcast with `x`.
        cov: positive definite covariance matrices, the last two axes; or a number, by which the
            identity is multiplied.

    Returns:
        A floating array without the last axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy.stats import multivariate_normal
        >>> round(float(multivariate_normal.logpdf(tnp.array([1.0, 2.0]), 0.0, 2.0)), 3)
        -3.781
    """
    point, center, covariance = (real("multivariate_normal.logpdf", v) for v in (x, mean, cov))
    deviation = point - center
    if not covariance.ndim:
        size = deviation.shape[-1] if deviation.ndim else 1
        square = deviation * deviation if not deviation.ndim else (deviation * deviation).sum(-1)
        return -(square / covariance + size * jnp.log(2 * math.pi * covariance)) / 2
    factor = jnp.linalg.cholesky(covariance)
    whitened = lax.linalg.triangular_solve(factor, deviation[..., None], left_side=True, lower=True)
    log_root = jnp.log(jnp.diagonal(factor, 0, -2, -1)).sum(-1)
    square = (whitened[..., 0] ** 2).sum(-1)
    return -square / 2 - log_root - deviation.shape[-1] / 2 * math.log(2 * math.pi)


pdf = density(logpdf, 0.023)
