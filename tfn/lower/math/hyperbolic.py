"""Hyperbolic functions, their inverses, and the logistic function, from exp and log1p.

Near zero, where exponentials cancel, they are odd minimax polynomials (Remez in 40 digits).
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.exponential import EXP_RANGE, LOG_2, exp_scaled, to_float, to_normal_float
from tfn.lower.math.floats import (
    Coefficients,
    at_most,
    divide,
    fma,
    horner,
    magnitude,
    sqrt_of,
    where,
    with_sign,
)
from tfn.lower.math.logarithm import log1p
from tfn.trace.uop import UOp, const

# fmt: off
TANH: Coefficients = {  # (tanh x - x) / x**3 in x**2, |x| < TANH_POLYNOMIAL_BELOW: 4e-9, 2e-18
    FLOAT32: (-0.0057171034, 0.020650696, -0.053743556, 0.13331492, -0.33333284),
    FLOAT64: (
        -0.00017466198881642032, 0.0005696082161795262, -0.0014521490484034393,
        0.0035917222989017062, -0.008863207845701217, 0.021869487391568267,
        -0.05396825394143317, 0.13333333333302486, -0.3333333333333321,
    ),
}
TANH_POLYNOMIAL_BELOW = {FLOAT32: 0.625, FLOAT64: 0.4}
TANH_IS_ONE_ABOVE = {FLOAT32: 10.0, FLOAT64: 22.0}
SINH: Coefficients = {  # (sinh x - x) / x**3 in x**2, |x| < 1: 6e-11, 9e-20
    FLOAT32: (2.817439e-06, 0.00019836066, 0.0083333505, 0.16666667),
    FLOAT64: (
        7.759312002659495e-13, 1.605724034709558e-10, 2.5052123398492068e-08,
        2.755731915533718e-06, 0.0001984126984143768, 0.008333333333333139,
        0.16666666666666669,
    ),
}
# fmt: on
ROOT_IS_X_ABOVE = {FLOAT32: 2.0**30, FLOAT64: 2.0**60}
"""From here on sqrt(x**2 + 1) rounds to x; for much larger x the square would overflow."""


def odd_polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    """``x + x**3 * P(x**2)``."""
    square = x * x
    return fma(x, square * horner(square, coefficients), x)


def half_exp(x: UOp) -> UOp:
    """``exp(|x|) / 2``, which overflows only where sinh and cosh do."""
    high = EXP_RANGE[x.dtype][1] + 1.0
    return to_float(exp_scaled(at_most(magnitude(x), high), 0.5))


def sinh(x: UOp) -> UOp:
    """The hyperbolic sine."""
    half = half_exp(x)
    positive = magnitude(x)
    small = odd_polynomial(positive, SINH[x.dtype])
    return with_sign(where(positive < 1.0, small, half - divide(0.25, half)), x)


def cosh(x: UOp) -> UOp:
    """The hyperbolic cosine."""
    half = half_exp(x)
    return half + divide(0.25, half)


def tanh(x: UOp) -> UOp:
    """The hyperbolic tangent: ``1 - 2 / (exp(2 |x|) + 1)``, a polynomial where that cancels."""
    positive = magnitude(x)
    clamped = at_most(positive, TANH_IS_ONE_ABOVE[x.dtype])
    exponential = to_normal_float(exp_scaled(clamped + clamped))
    large = 1.0 - divide(2.0, exponential + 1.0)
    small = odd_polynomial(positive, TANH[x.dtype])
    return with_sign(where(positive < TANH_POLYNOMIAL_BELOW[x.dtype], small, large), x)


def logistic(x: UOp) -> UOp:
    """``1 / (1 + exp(-x))``, by exp(-|x|), so that small results keep their digits."""
    negative = -magnitude(x)
    decay = where(negative < EXP_RANGE[x.dtype][0], 0.0, to_float(exp_scaled(negative)))
    return where(x < 0.0, decay, 1.0) / (decay + 1.0)


def asinh(x: UOp) -> UOp:
    """``log(x + sqrt(x**2 + 1))`` as log1p of ``x + x**2 / (1 + sqrt(x**2 + 1))``."""
    positive = magnitude(x)
    large = const(ROOT_IS_X_ABOVE[x.dtype], x.dtype, x.shape) < positive
    square = positive * positive
    excess = positive + square / (sqrt_of(square + 1.0) + 1.0)
    y = log1p(where(large, positive, excess))
    return with_sign(y + where(large, const(LOG_2[x.dtype][0], x.dtype, x.shape), 0.0), x)


def acosh(x: UOp) -> UOp:
    """``log(x + sqrt(x**2 - 1))`` as log1p of ``t + sqrt(t) sqrt(t + 2)``, t = x - 1."""
    t = x - 1.0
    large = const(ROOT_IS_X_ABOVE[x.dtype], x.dtype, x.shape) < t
    y = log1p(where(large, t, t + sqrt_of(t) * sqrt_of(t + 2.0)))
    return y + where(large, const(LOG_2[x.dtype][0], x.dtype, x.shape), 0.0)


def atanh(x: UOp) -> UOp:
    """``log1p(2 x / (1 - x)) / 2``; infinite at -1 and 1, NaN beyond."""
    positive = magnitude(x)
    return with_sign(0.5 * log1p((positive + positive) / (1.0 - positive)), x)
