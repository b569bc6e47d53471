"""The beta-binomial distribution: a binomial one whose probability is beta distributed.

The probability of k is ``C(n, k) B(k + a, n - k + b) / B(a, b)``, for ``loc = 0``.
"""

from __future__ import annotations

from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.scipy.special import betaln
from tfn.scipy.stats.distribution import density
from tfn.scipy.stats.location_scale import positive, standardize, unless_nan


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The logarithm of the probability of k; -inf unless ``k - loc`` is a whole number from 0 to n.

    Args:
        k: counts, an array or a number.
        n: number of trials, not negative.
        a: first parameter of the beta distribution, positive.
        b: second parameter of the beta distribution, positive.
        loc: shift of k; 0 by default.

    Returns:
        A floating array of the shape to which the arguments broadcast.

    Example:
        >>> from tfn.scipy.stats import betabinom
        >>> round(float(betabinom.logpmf(2, 5, 2.0, 3.0)), 3)
        -1.435
    """
    z, n, a, b, _ = standardize("betabinom.logpmf", k, n, a, b, loc, 1)
    n, a, b = jnp.where((n >= 0) & (jnp.floor(n) == n), n, jnp.nan), positive(a), positive(b)
    inside = jnp.clip(z, 0, n)
    log_combinations = -betaln(inside + 1, n - inside + 1) - jnp.log(n + 1)
    log_mass = log_combinations + betaln(inside + a, n - inside + b) - betaln(a, b)
    outside = (z != inside) | (jnp.floor(z) != z)
    return unless_nan(z + n + a + b, jnp.where(outside, -jnp.inf, log_mass))


pmf = density(logpmf, 0.238)
