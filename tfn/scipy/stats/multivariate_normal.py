"""The normal distribution of vectors."""

from __future__ import annotations

import math

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.normal import real


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The logarithm of the density at vectors x, the last axis.

    `cov` holds covariance matrices, or is a number, by which the identity is multiplied.
    """
    place, center, spread = (real("multivariate_normal.logpdf", v) for v in (x, mean, cov))
    away = place - center
    if not spread.ndim:
        size = away.shape[-1] if away.ndim else 1
        square = away * away if not away.ndim else (away * away).sum(-1)
        return -(square / spread + size * jnp.log(2 * math.pi * spread)) / 2
    factor = jnp.linalg.cholesky(spread)
    line = lax.linalg.triangular_solve(factor, away[..., None], left_side=True, lower=True)
    logs = jnp.log(jnp.diagonal(factor, 0, -2, -1)).sum(-1)
    square = (line[..., 0] ** 2).sum(-1)
    return -square / 2 - logs - away.shape[-1] / 2 * math.log(2 * math.pi)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """The density at vectors x, the last axis; see `logpdf`."""
    return jnp.exp(logpdf(x, mean, cov))
