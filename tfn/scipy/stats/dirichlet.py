"""The distribution of Dirichlet, of vectors that add up to 1."""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.normal import real
from tfn.scipy.special import gammaln, xlogy


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at x, whose first axis are the vectors.

    `x` may leave out the last element, which the others determine.
    """
    place, shape = real("dirichlet.logpdf", x), real("dirichlet.logpdf", alpha)
    if place.shape[0] == shape.shape[0] - 1:
        place = jnp.concatenate([place, 1 - place.sum(0, keepdims=True)])
    thin = shape.reshape(shape.shape + (1,) * (place.ndim - 1))
    normal = gammaln(shape.sum()) - gammaln(shape).sum()
    inside = (place >= 0).all(0) & (abs(place.sum(0) - 1) < 1e-6)
    return jnp.where(inside, normal + xlogy(thin - 1, jnp.maximum(place, 0)).sum(0), -jnp.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The density at x; see `logpdf`."""
    return jnp.exp(logpdf(x, alpha))
