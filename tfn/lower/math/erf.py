"""Error functions: erf, erfc, and the inverse of erf, by piecewise minimax polynomials.

All coefficients but those of `erf_inv` are our own (Remez in 40 digits).
"""

from __future__ import annotations

from collections.abc import Callable

from tfn.dtypes import FLOAT32, FLOAT64
from tfn.lower.math.exponential import (
    EXP,
    Scaled,
    exp_scaled,
    reduce_by_log2,
    to_float,
    to_normal_float,
)
from tfn.lower.math.floats import (
    INFINITY,
    NAN,
    Coefficients,
    at_most,
    divide,
    equal,
    fma,
    horner,
    magnitude,
    sqrt_of,
    where,
    with_sign,
)
from tfn.lower.math.logarithm import add_exponent, log1p_in_domain, split_exponent, tail
from tfn.trace.build import cast
from tfn.trace.uop import UOp, const

# fmt: off
ERF: Coefficients = {  # erf(x) / x - 1 in x**2, |x| < 1: 1e-9, 7e-18
    FLOAT32: (
        7.88899e-05, -0.00080208067, 0.0051895324, -0.026854444, 0.112836, -0.37612626,
        0.12837915,
    ),
    FLOAT64: (
        -7.801122020614332e-10, 1.3722938289082693e-08, -1.6209166580376314e-07,
        1.6447516378601043e-06, -1.4924744550515005e-05, 0.00012055295314159326,
        -0.0008548325989466099, 0.005223977607418162, -0.026866170643275494,
        0.11283791670945248, -0.3761263890318355, 0.12837916709551257,
    ),
}
LOG_ERFC: Coefficients = {  # log(erfc(x)) on [0.9, 4] and [0.95, 6]: 6e-11, 2e-18 of erf
    FLOAT32: (
        -2.0828747e-05, 0.00043139505, -0.004156262, 0.025080636, -0.10822041, -0.6334008,
        -1.1294885, 0.00016920788,
    ),
    FLOAT64: (
        1.2046320078194757e-12, -5.4435135786523714e-11, 1.1515986953035181e-09,
        -1.5140784720023378e-08, 1.3832456030954627e-07, -9.279824764494304e-07,
        4.68917836463229e-06, -1.783510098067453e-05, 4.884779409944261e-05,
        -7.9119886709503e-05, -2.876789898083347e-05, 0.000617716244209639,
        -0.0017419007044047177, 0.00025606330204965884, 0.019094954581163046,
        -0.10275576085188776, -0.6366254998246094, -1.128377979327944,
        -1.1373728500795855e-07,
    ),
}
ERF_IS_ONE_ABOVE = {FLOAT32: 4.0, FLOAT64: 6.0}
# (1 + x) exp(x**2) erfc(x) in q = (x - k) / (x + k): 2e-8 with k = 2, 2e-17 with k = 4
ERFC: Coefficients = {
    FLOAT32: (
        -0.0001488817503215776, -0.0005856492045350683, 0.00019604505373560524,
        0.003891028696385718, -0.000541887299698654, -0.025235594792009524,
        0.04253989039296834, 0.03781335685203356, -0.25997497249461826, 0.7661870359127586,
    ),
    FLOAT64: (
        -4.129693456968666e-09, -5.761143824135842e-09, 4.508149983765394e-08,
        4.237527467559847e-08, -3.6383068428869635e-07, 1.2134168588380216e-08,
        2.6511191390738113e-06, -4.142982861000268e-06, -1.3151954601389164e-05,
        6.403439604485947e-05, -6.013642236396792e-05, -0.00038976788081322017,
        0.0021164215013317043, -0.006068735160753996, 0.0121617847639648,
        -0.017515654651710906, 0.015312509678535787, 0.003962055681526314,
        -0.04808038122128414, 0.11704966551043824, -0.1993445828003673, 0.6849972881253069,
    ),
}
ERFC_MIDDLE = {FLOAT32: 2.0, FLOAT64: 4.0}  # the k of ERFC
ERFC_IS_ZERO_ABOVE = {FLOAT32: 10.2, FLOAT64: 27.3}

ERFINV_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)
ERFINV_EDGE = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)
ERFINV64_CENTRE = (
    -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
    1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
    6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
    2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
    4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
    0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
    0.24015818242558961693, 1.6536545626831027356,
)
ERFINV64_MIDDLE = (
    2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
    1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
    2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
    6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
    0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
    -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
    3.0838856104922207635,
)
ERFINV64_EDGE = (
    -2.7109920616438573243e-11, -2.5556418169652525055e-10, 1.5076572693500548083e-09,
    -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
    2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
    -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
    7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
    1.0103004648645343977, 4.8499064014085844221,
)
# fmt: on


def erf(x: UOp) -> UOp:
    """The error function: a polynomial near zero, ``1 - exp(log erfc)`` beyond."""
    positive = magnitude(x)
    small = fma(positive, horner(positive * positive, ERF[x.dtype]), positive)
    clamped = at_most(positive, ERF_IS_ONE_ABOVE[x.dtype])
    large = 1.0 - to_normal_float(exp_scaled(horner(clamped, LOG_ERFC[x.dtype])))
    return with_sign(where(positive < 1.0, small, large), x)


def erfc(x: UOp) -> UOp:
    """``1 - erf(x)`` with a small relative error down to the smallest denormal.

    With 1 + x as factor the polynomial stays between 1/2 and 1.  In float64, x**2 is kept in two
    parts, and q and exp are arranged for few roundings.

    Source: M. M. Shepherd, J. G. Laframboise 1981, "Chebyshev approximation of
    (1 + 2x) exp(x**2) erfc x", for the form.
    """
    return from_tail(x, _tail32 if x.dtype == FLOAT32 else _tail64)


def from_tail(x: UOp, tail: Callable[[UOp], UOp]) -> UOp:
    """`erfc` by its values where x is not negative."""
    y = tail(at_most(magnitude(x), ERFC_IS_ZERO_ABOVE[x.dtype]))
    return where(x < 0.0, 2.0 - y, y)


def _tail32(x: UOp) -> UOp:
    """erfc of float32, in float64: errors do not count, x**2 is exact, and 2**n is normal."""
    wide = cast(x, FLOAT64)
    middle = ERFC_MIDDLE[FLOAT32]
    q = (wide - middle) / (wide + middle)
    n, r = reduce_by_log2(-(wide * wide))
    exponential = to_normal_float(Scaled(n, horner(r, (*EXP[FLOAT32], 1.0, 1.0))))
    return cast(horner(q, ERFC[FLOAT32]) * exponential / (wide + 1.0), FLOAT32)


def _tail64(x: UOp) -> UOp:
    """erfc of float64, with the rounding errors of q and x**2 corrected by FMA."""
    middle = ERFC_MIDDLE[FLOAT64]
    inverse = divide(1.0, x + middle)
    q = (x - middle) * inverse
    q = fma(inverse, fma(-x, q, fma(q + 1.0, -middle, x)), q)  # as if rounded once
    square = x * x
    n, r = reduce_by_log2(-square)
    r = r - fma(x, x, -square)
    less_one = r * horner(r, (*EXP[FLOAT64], 1.0))
    factor = horner(q, ERFC[FLOAT64]) / (x + 1.0)
    return to_float(Scaled(n, fma(factor, less_one, factor)))


def erf_inv(x: UOp) -> UOp:
    """The inverse of `erf`; infinite at -1 and 1, NaN beyond.

    float32 rounds x**2 first, as XLA does, and so agrees with JAX's in 99 of 100 bit patterns;
    float64 does not round it, and is more accurate near the ends.

    Source: M. Giles 2010, "Approximating the erfinv function", coefficients included.
    """
    if x.dtype == FLOAT32:
        p = _giles32(-log1p_in_domain(-(x * x)))
    else:
        k, _, m = split_exponent(fma(-x, x, 1.0))
        f = m - 1.0
        p = _giles64(-add_exponent(cast(k, x.dtype), f + tail(f)))
    positive = magnitude(x)
    return where(positive < 1.0, p * x, where(equal(positive, 1.0), x * INFINITY, NAN))


def _giles32(w: UOp) -> UOp:
    centre = w < 5.0
    argument = where(centre, w - 2.5, sqrt_of(w) - 3.0)
    pairs = zip(ERFINV_CENTRE, ERFINV_EDGE, strict=True)
    return horner(argument, [where(centre, _like(w, a), b) for a, b in pairs])


def _giles64(w: UOp) -> UOp:
    centre, middle = w < 6.25, w < 16.0
    argument = where(centre, w - 3.125, sqrt_of(w) - where(middle, _like(w, 3.25), 5.0))
    length = len(ERFINV64_CENTRE)
    tables = (ERFINV64_CENTRE, ERFINV64_MIDDLE, ERFINV64_EDGE)
    padded = [(0.0,) * (length - len(table)) + table for table in tables]
    return horner(
        argument,
        [where(centre, _like(w, a), where(middle, _like(w, b), c)) for a, b, c in zip(*padded)],
    )


def _like(w: UOp, value: float) -> UOp:
    return const(value, w.dtype, w.shape)
