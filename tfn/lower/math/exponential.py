"""Exponentials: exp, exp2, expm1, by argument reduction modulo log 2 and a minimax polynomial.

    n = round(x / log 2),  r = x - n log 2,  |r| <= log(2) / 2,  exp(x) = 2**n * P(r)

2**n is applied so that denormal results are rounded once and overflow comes only where it must.
The coefficients are minimax: Remez in 40 digits, then rounded to the dtype.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.floats import (
    Coefficients,
    at_least,
    at_most,
    bits,
    fma,
    format_of,
    horner,
    keep_negligible,
    power_of_two,
    where,
)
from tfn.trace.op import NEAR_ONE, Op
from tfn.trace.uop import UOp

LOG2_E = 1.4426950408889634
# fmt: off
LOG_2 = {  # log 2 as a sum of two numbers of the dtype
    FLOAT32: (0.693147182464599609375, -1.904654323148236017e-09),
    FLOAT64: (0.6931471805599453094, 2.319046813846299558e-17),
}
EXP: Coefficients = {  # (exp(r) - 1 - r) / r**2, relative error of exp 3e-9 and 4e-18
    FLOAT32: (0.0013950715, 0.008369025, 0.041666202, 0.16666518, 0.5),
    FLOAT64: (
        2.5117856508299056e-08, 2.7631558398272195e-07, 2.755721635556005e-06,
        2.4801489213482057e-05, 0.0001984126991729118, 0.001388888894766425,
        0.008333333333307245, 0.04166666666651319, 0.166666666666667, 0.5000000000000013,
    ),
}
EXP2: Coefficients = {  # (2**r - 1) / r on [-1/2, 1/2]: 2e-9 and 3e-18
    FLOAT32: (0.00015476617, 0.001340054, 0.009618003, 0.05550327, 0.2402265, 0.6931472),
    FLOAT64: (
        4.457420404042372e-10, 7.073935644506213e-09, 1.0178046240850756e-07,
        1.3215434402530816e-06, 1.5252733868074554e-05, 0.00015403530458854182,
        0.001333355814637847, 0.009618129107592771, 0.05550410866482174, 0.24022650695910133,
        0.6931471805599453,
    ),
}
# Outside these ranges the result is 0 or inf.  Arguments below are masked and not multiplied:
# a product that underflows takes some processors hundreds of cycles.
EXP_RANGE = {FLOAT32: (-104.0, 89.0), FLOAT64: (-746.0, 710.0)}
EXP2_RANGE = {FLOAT32: (-151.0, 129.0), FLOAT64: (-1076.0, 1025.0)}
EXPM1_LOWEST = {FLOAT32: -18.0, FLOAT64: -38.0}  # below it expm1 is -1
# fmt: on


class Scaled(NamedTuple):
    """A value ``2**n * fraction``; `n` is the bits of n + magic, of which the low ones are n."""

    n: UOp
    fraction: UOp


def reduce_by_log2(x: UOp) -> tuple[UOp, UOp]:
    """n, in the form of `Scaled`, and r with ``x = n log 2 + r``."""
    shifted = fma(x, LOG2_E, format_of(x).magic)
    n = shifted - format_of(x).magic
    high, low = LOG_2[x.dtype]
    return bits(shifted), fma(n, -low, fma(n, -high, x))


def exp_scaled(x: UOp, factor: float = 1.0) -> Scaled:
    """``factor * exp(x)`` before scaling; x must be in `EXP_RANGE`, factor a power of two."""
    n, r = reduce_by_log2(x)
    return Scaled(n, horner(r, [factor * c for c in (*EXP[x.dtype], 1.0, 1.0)]))


def to_float(value: Scaled) -> UOp:
    """The value, also where it is denormal or infinite."""
    magic = np.array(format_of(value.fraction).magic, value.fraction.dtype)
    n = value.n - int(magic.view(value.n.dtype))
    return UOp(Op.LDEXP, (value.fraction, n), NEAR_ONE)


def to_normal_float(value: Scaled) -> UOp:
    """The value, if 2**n is known to be a normal number: one multiplication."""
    return value.fraction * power_of_two(value.n, value.fraction.dtype)


def exp(x: UOp) -> UOp:
    """e**x."""
    low, high = EXP_RANGE[x.dtype]
    return where(x < low, 0.0, to_float(exp_scaled(at_most(x, high))))


def exp2(x: UOp) -> UOp:
    """2**x, exact at integers."""
    low, high = EXP2_RANGE[x.dtype]
    near = at_most(x, high)
    shifted = near + format_of(x).magic
    r = near - (shifted - format_of(x).magic)
    scaled = Scaled(bits(shifted), horner(r, (*EXP2[x.dtype], 1.0)))
    return where(x < low, 0.0, to_float(scaled))


def expm1(x: UOp) -> UOp:
    """``exp(x) - 1`` without cancellation: 2**n * (exp(r) - 1) + (2**n - 1).

    Half of it is computed, so that 2**n cannot overflow before the result does.
    """
    n, r = reduce_by_log2(at_most(at_least(x, EXPM1_LOWEST[x.dtype]), EXP_RANGE[x.dtype][1]))
    q = fma(r * r, horner(r, EXP[x.dtype]), r)
    half = power_of_two(n - 1, x.dtype)
    y = fma(half, q, half - 0.5)
    return keep_negligible(x, y + y)
