"""The normal distribution function, its logarithm and its inverse.

Sources: M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988
(ndtri); M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 26.2.12 (far tails).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfn import lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike
from tfn.dtypes import FLOAT64, FLOATS
from tfn.eager.arrays import weaken
from tfn.extend import custom_jvp, element_type, operands

SQRT_2_PI = math.sqrt(2 * math.pi)
HALF_LOG_2_PI = math.log(2 * math.pi) / 2
ASYMPTOTIC_BELOW = {True: -20.0, False: -10.0}
"""Below, for float64 or not, the series is exact in six terms; above, `ndtr` does not underflow."""


def real(name: str, x: ArrayLike, weak: bool = False) -> Array:
    """An argument as an array of real numbers, which with `weak` is weak if that of `x` is.

    Raises:
        DTypeError: for complex numbers, for which its formulas do not hold.
    """
    x = inexact(name, x, weak)
    element_type(name, x, FLOATS, "real numbers")
    return x


def inexact(name: str, x: ArrayLike, weak: bool = False) -> Array:
    """As `real`, of complex numbers too."""
    x = operands.array_of(name, x)
    return weaken(x.astype(operands.inexact((x.dtype, False))[0]), weak and x.weak_type)


def ndtr(x: ArrayLike) -> Array:
    """The probability of a standard normal number of at most x.

    Example:
        >>> ndtr(0.0).tolist()
        0.5
    """
    x = real("ndtr", x)
    return lax.erfc(x * -math.sqrt(0.5)) / 2


def log_ndtr(x: ArrayLike) -> Array:
    """The logarithm of `ndtr`, also where that is too small to be a float.

    Example:
        >>> log_ndtr(-20.0)
        Array(-203.91716, dtype=float32)
    """
    result: Array = _log_ndtr(real("log_ndtr", x))
    return result


def _log_ndtr_of(x: Array) -> Array:
    far = ASYMPTOTIC_BELOW[x.dtype == FLOAT64]
    middle = jnp.clip(x, far, 0)
    above = jnp.log1p(-ndtr(-jnp.maximum(x, 0)))
    below = jnp.minimum(x, far)
    terms, total, square = 1.0, jnp.ones_like(x), below * below
    for i in range(1, 12, 2):  # 1 - 1 / x^2 + 1 3 / x^4 - ...
        terms = -terms * i
        total = total + terms / square ** ((i + 1) // 2)
    tail = -square / 2 - jnp.log(-below) - HALF_LOG_2_PI + jnp.log(total)
    return jnp.where(x < far, tail, jnp.where(x > 0, above, jnp.log(ndtr(middle))))


_log_ndtr = custom_jvp(_log_ndtr_of)


def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (dx,) = primals, tangents
    y = _log_ndtr(x)
    far = ASYMPTOTIC_BELOW[x.dtype == FLOAT64]
    # Far out the slope is -x plus a small series, whose derivatives cancel nothing.
    below = jnp.minimum(x, far)
    inverse, term, rest = 1 / below, 1.0, jnp.zeros_like(x)
    square = inverse * inverse
    for power, i in enumerate(range(1, 12, 2)):  # 1 - 3 / x^2 + 15 / x^4 - ...
        term = term * i
        rest = rest + (-1) ** power * term * square**power
    near = jnp.where(x < far, 0, x)
    middle = jnp.exp(-near * near / 2 - HALF_LOG_2_PI - _log_ndtr(near))
    return y, dx * jnp.where(x < far, -below - inverse * rest / (1 - square * rest), middle)


_log_ndtr.defjvp(_log_ndtr_jvp)


def ndtri(p: ArrayLike) -> Array:
    """The quantile function: a standard normal number does not exceed it with probability p.

    Example:
        >>> round(float(ndtri(0.975)), 4)
        1.96
    """
    result: Array = _ndtri(real("ndtri", p))
    return result


# Coefficients of the numerators and denominators of AS 241, the highest power first, for p within
# 0.425 of 0.5, and for r = sqrt(-log(min(p, 1 - p))) up to 5 and above.
# fmt: off
_MIDDLE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
     4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
     1.3314166789178437745e2, 3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
     2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
     4.2313330701600911252e1, 1.0),
)
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
     4.63033784615654529590e0, 1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
     2.05319162663775882187e0, 1.0),
)
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
     5.46378491116411436990e0, 6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)
# fmt: on


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    above, below = (jnp.full_like(x, line[0]) for line in coefficients)
    for a, b in zip(*(line[1:] for line in coefficients), strict=True):
        above, below = above * x + a, below * x + b
    return above / below


def _ndtri_of(p: Array) -> Array:
    middle = p - 0.5
    inside = jnp.clip(0.180625 - middle * middle, 0, 1)
    center = middle * _ratio(_MIDDLE, inside)
    less = jnp.minimum(p, 1 - p)
    root = jnp.sqrt(-jnp.log(jnp.where(less > 0, less, 1)))
    tail = jnp.where(root <= 5, _ratio(_NEAR, root - 1.6), _ratio(_FAR, root - 5))
    tail = jnp.where(less > 0, tail, jnp.where(less == 0, jnp.inf, jnp.nan))
    return jnp.where(abs(middle) <= 0.425, center, jnp.copysign(tail, middle))


_ndtri = custom_jvp(_ndtri_of)


def _ndtri_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    x = _ndtri(primals[0])
    return x, tangents[0] * SQRT_2_PI * jnp.exp(x * x / 2)


_ndtri.defjvp(_ndtri_jvp)
