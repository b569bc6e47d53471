"""Logarithms: log, log2, log1p, by x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).

    log(x) = k log 2 + f + tail(f)

float32: the tail is a minimax polynomial in f.  float64: with s = f / (2 + f), log(1 + f) is
2 atanh(s), an odd function whose series in s**2 converges fast; the arrangement
``f - (f**2/2 - s (f**2/2 + R))`` keeps f exact.

Source: P. T. P. Tang 1990 and the comments of fdlibm's e_log.c, for the arrangement; the
coefficients are our own (Remez in 40 digits).
"""

from __future__ import annotations

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.exponential import LOG2_E, LOG_2
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    Coefficients,
    bits,
    equal,
    fma,
    format_of,
    from_bits,
    horner,
    keep_negligible,
    where,
)
from tfn.trace.build import cast
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

# fmt: off
TAIL: Coefficients = {
    FLOAT32: (  # (log(1 + f) - f + f**2/2) / f**3, then the -1/2: 6e-9
        -0.076345876, 0.12761627, -0.1316017, 0.1420175, -0.16623358, 0.20001227, -0.2500082,
        0.3333333, -0.5,
    ),
    FLOAT64: (  # (2 atanh(s) - 2 s) / s**3 in s**2: 2e-18
        0.14796100828472122, 0.15314036283765317, 0.18183564849664635, 0.22222198563800757,
        0.2857142874247197, 0.3999999999941433, 0.6666666666666734,
    ),
}
SQRT_HALF_BITS = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E667F3BCD}
# fmt: on


def split_exponent(x: UOp) -> tuple[UOp, UOp, UOp]:
    """k as an integer, k shifted to the exponent's bits, and m in [sqrt(1/2), sqrt(2)): x = 2**k m.

    x must be positive and normal.
    """
    fraction = format_of(x).fraction
    k = (bits(x) - SQRT_HALF_BITS[x.dtype]) >> fraction
    exponent = k << fraction
    return k, exponent, from_bits(bits(x) - exponent)


def tail(f: UOp) -> UOp:
    """``log(1 + f) - f``."""
    if f.dtype == FLOAT32:
        return f * f * horner(f, TAIL[FLOAT32])
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * (f * f)
    return fma(s, fma(z, horner(z, TAIL[FLOAT64]), half_square), -half_square)


def fix_special_values(u: UOp, y: UOp) -> UOp:
    """The logarithm `y` of `u`, corrected where u is inf, zero, negative, or NaN."""
    y = where(equal(u, INFINITY), INFINITY, y)
    outside = where(equal(u, 0.0), const(-INFINITY, u.dtype, u.shape), NAN)
    return where(const(0.0, u.dtype, u.shape) < u, y, outside)


def normalized(x: UOp) -> tuple[UOp, UOp]:
    """k as a float, and f; denormal x is scaled up first."""
    layout = format_of(x)
    denormal = x < layout.tiny
    up = float(layout.fraction + 2)
    k, _, m = split_exponent(where(denormal, x * 2.0**up, x))
    return cast(k, x.dtype) - where(denormal, const(up, x.dtype, x.shape), 0.0), m - 1.0


def add_exponent(k: UOp, y: UOp) -> UOp:
    """``k log 2 + y``."""
    high, low = LOG_2[y.dtype]
    return fma(k, high, fma(k, low, y))


def log(x: UOp) -> UOp:
    """The natural logarithm; -inf at zero, NaN below."""
    k, f = normalized(x)
    return fix_special_values(x, add_exponent(k, f + tail(f)))


def log2(x: UOp) -> UOp:
    """The logarithm to base 2, exact at powers of two."""
    k, f = normalized(x)
    return fix_special_values(x, k + fma(f, LOG2_E, tail(f) * LOG2_E))


def log1p(x: UOp) -> UOp:
    """``log(1 + x)``; -inf at -1, NaN below."""
    return keep_negligible(x, fix_special_values(x + 1.0, log1p_in_domain(x)))


def log1p_in_domain(x: UOp) -> UOp:
    """`log1p` of a finite x above -1: the rounding error of 1 + x is added to f."""
    u = x + 1.0
    k, exponent, m = split_exponent(u)
    error = x - (u - 1.0)
    inverse = const(format_of(x).one, k.dtype, k.shape) - exponent  # the bits of 2**-k
    inverse = UOp(Op.MAX, (inverse, const(0, k.dtype, k.shape)))
    f = fma(error, from_bits(inverse), m - 1.0)
    return add_exponent(cast(k, x.dtype), f + tail(f))
