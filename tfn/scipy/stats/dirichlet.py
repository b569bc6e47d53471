"""The Dirichlet distribution, of vectors that add up to 1.

The density is ``prod(x**(alpha - 1)) Gamma(sum(alpha)) / prod(Gamma(alpha))``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.normal import real
from tfn.scipy.special import gammaln, xlogy
from tfn.scipy.stats.distribution import density


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """The logarithm of the density at x; -inf unless its elements are positive and add up to 1.

    Args:
        x: vectors, along the first axis; the last element may be left out, since the others
            determine it.
        alpha: vector of positive parameters.

    Returns:
        A floating array without the first axis of `x`.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy.stats import dirichlet
        >>> x, alpha = tnp.array([0.2, 0.3, 0.5]), tnp.array([1.0, 2.0, 3.0])
        >>> round(float(dirichlet.logpdf(x, alpha)), 3)
        1.504
    """
    point, shape = real("dirichlet.logpdf", x), real("dirichlet.logpdf", alpha)
    if point.shape[0] == shape.shape[0] - 1:
        point = jnp.concatenate([point, 1 - point.sum(0, keepdims=True)])
    column = shape.reshape(shape.shape + (1,) * (point.ndim - 1))
    log_normalization = gammaln(shape.sum()) - gammaln(shape).sum()
    inside = (point >= 0).all(0) & (abs(point.sum(0) - 1) < 1e-6)
    return jnp.where(
        inside, log_normalization + xlogy(column - 1, jnp.maximum(point, 0)).sum(0), -jnp.inf
    )


pdf = density(logpdf, 4.5)
