"""The multinomial distribution: the counts of several outcomes among n trials.

The probability of the counts x is ``n! prod(p**x / x!)``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import gammaln, reals, xlogy
from tfn.scipy.stats.distribution import density


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The logarithm of the probability of the counts x; -inf unless they add up to n.

    Args:
        x: counts of the outcomes, along the last axis.
        n: number of trials, array or number, broadcast with the other axes of `x`.
        p: probabilities of the outcomes, along the last axis.

    Returns:
        A floating array without the last axis.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.scipy.stats import multinomial
        >>> round(float(multinomial.logpmf(tnp.array([1, 2]), 3, tnp.array([0.4, 0.6]))), 3)
        -0.839
    """
    counts, probabilities = reals("multinomial.logpmf", x, p)
    (total,) = reals("multinomial.logpmf", n)
    total = total.astype(counts.dtype)
    log_mass = gammaln(total + 1) + (xlogy(counts, probabilities) - gammaln(counts + 1)).sum(-1)
    return jnp.where(counts.sum(-1) == total, log_mass, -jnp.inf)


pmf = density(logpmf, 0.432)
