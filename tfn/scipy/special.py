"""Special functions, one element at a time, for statistics and machine learning."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tfn import jvp, lax
from tfn import numpy as jnp
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import COMPLEXES
from tfn.extend import by_forward_mode, custom_jvp, integer, one_of, operands
from tfn.lax.bessel import i1_over_x, i1e_over_x
from tfn.lax.logbeta import log1p_rest, log_beta, log_rise, whole
from tfn.lax.special import riemann_zeta
from tfn.nn import functions
from tfn.nn import logsumexp as logsumexp
from tfn.scipy.definite_integrals import expn as expn
from tfn.scipy.definite_integrals import owens_t as owens_t
from tfn.scipy.definite_integrals import sici as sici
from tfn.scipy.definite_integrals import spence as spence
from tfn.scipy.exponential_integrals import exp1 as exp1
from tfn.scipy.exponential_integrals import expi as expi
from tfn.scipy.faddeeva import dawsn as dawsn
from tfn.scipy.faddeeva import erfcx as erfcx
from tfn.scipy.faddeeva import fresnel as fresnel
from tfn.scipy.faddeeva import wofz as wofz
from tfn.scipy.hypergeometric import hyp1f1 as hyp1f1
from tfn.scipy.hypergeometric import hyp2f1 as hyp2f1
from tfn.scipy.log_gamma import bernoulli as bernoulli
from tfn.scipy.log_gamma import loggamma as loggamma
from tfn.scipy.normal import inexact, real
from tfn.scipy.normal import log_ndtr as log_ndtr
from tfn.scipy.normal import ndtr as ndtr
from tfn.scipy.normal import ndtri as ndtri
from tfn.scipy.spherical import bessel_jn as bessel_jn
from tfn.scipy.spherical import sph_harm_y as sph_harm_y

Pair = tuple[Array, Array]


def softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """The numbers ``exp(x)`` divided by their sum over axes, all of them by default.

    Example:
        >>> import tfn.numpy as tnp
        >>> softmax(tnp.zeros((2, 2))).tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    return functions.softmax(jnp.asarray(x), axis)


def log_softmax(x: ArrayLike, /, *, axis: Axes = None) -> Array:
    """The logarithm of `softmax`, without its rounding to 0.

    Example:
        >>> import tfn.numpy as tnp
        >>> log_softmax(tnp.array([0.0, -200.0])).tolist()
        [0.0, -200.0]
    """
    return functions.log_softmax(jnp.asarray(x), axis)


def reals(name: str, *values: ArrayLike) -> list[Array]:
    """Arguments as arrays of one floating dtype and one shape.

    Example:
        >>> import tfn.numpy as tnp
        >>> [x.shape for x in reals("example", tnp.ones(3), 2)]
        [(3,), (3,)]
    """
    listed, dtype, _ = operands.together(name, *values, floating=True)
    return jnp.broadcast_arrays(*[x.astype(dtype) for x in listed])


# Products with logarithms, zero where the factor is.


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """The product ``x * log(y)``, and 0 where x is 0.

    Example:
        >>> xlogy(0.0, 0.0).tolist()
        0.0
    """
    result: Array = _xlogy(*reals("xlogy", x, y))
    return result


def _xlogy_of(x: Array, y: Array) -> Array:
    return jnp.where((x == 0) & (y == y), 0, x * jnp.log(y))


_xlogy = custom_jvp(_xlogy_of)


_xlogy.defjvps(
    lambda dx, out, x, y: dx * jnp.log(y),
    # Where x alone is 0, the slope has a derivative.
    lambda dy, out, x, y: dy * (x / jnp.where((x == 0) & (y == 0), 1, y)),
)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """The product ``x * log(1 + y)``, and 0 where x is 0.

    Example:
        >>> xlog1py(0.0, -1.0).tolist()
        0.0
    """
    result: Array = _xlog1py(*reals("xlog1py", x, y))
    return result


def _xlog1py_of(x: Array, y: Array) -> Array:
    return jnp.where((x == 0) & (y == y), 0, x * jnp.log1p(y))


_xlog1py = custom_jvp(_xlog1py_of)


_xlog1py.defjvps(
    lambda dx, out, x, y: dx * jnp.log1p(y),
    lambda dy, out, x, y: dy * (x / jnp.where((x == 0) & (y == -1), 1, 1 + y)),
)


def entr(x: ArrayLike) -> Array:
    """The contribution ``-x * log(x)`` of a probability to the entropy; -inf below 0.

    Example:
        >>> import tfn.numpy as tnp
        >>> entr(tnp.array([0.0, 1.0, -1.0])).tolist()
        [-0.0, -0.0, -inf]
    """
    x = real("entr", x)
    return jnp.where(x < 0, -jnp.inf, -xlogy(x, jnp.where(x < 0, 1, x)))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """The term ``p * log(p / q)`` of the relative entropy; inf where not defined.

    Example:
        >>> rel_entr(1.0, 1.0).tolist()
        0.0
    """
    p, q = reals("rel_entr", p, q)
    return _relative(p, q, less=False)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """The term ``p * log(p / q) - p + q`` of the Kullback-Leibler divergence, or inf.

    Example:
        >>> kl_div(1.0, 1.0).tolist()
        0.0
    """
    p, q = reals("kl_div", p, q)
    return _relative(p, q, less=True)


def _relative(p: Array, q: Array, less: bool) -> Array:
    """``p * log(p / q)``, and ``- p + q`` if `less`, without cancellation where p is near q."""
    both = (p > 0) & (q > 0)
    a, b = jnp.where(both, p, 1), jnp.where(both, q, 1)
    near = (a < 2 * b) & (b < 2 * a)
    u, v = jnp.where(near, a, 1), jnp.where(near, b, 1)
    change = (v - u) / u
    close = u * (log1p_rest(change) if less else 0 - jnp.log1p(change))
    u, v = jnp.where(near, 1, a), jnp.where(near, 1, b)
    far = u * (jnp.log(u) - jnp.log(v))
    value = jnp.where(near, close, far - u + v if less else far)
    known = jnp.where((p == 0) & (q >= 0), q if less else 0, jnp.inf)
    return jnp.where(both, value, jnp.where((p != p) | (q != q), jnp.nan, known))


# Sigmoids.


def expit(x: ArrayLike) -> Array:
    """The logistic function ``1 / (1 + exp(-x))``.

    Example:
        >>> expit(0.0).tolist()
        0.5
    """
    return lax.logistic(inexact("expit", x, weak=True))


def logit(x: ArrayLike) -> Array:
    """The log-odds ``log(x / (1 - x))``: the inverse of `expit`.

    Example:
        >>> logit(0.5).tolist()
        0.0
    """
    x = inexact("logit", x)
    return jnp.log(x) - jnp.log1p(-x)


def erf(x: ArrayLike) -> Array:
    """The error function.

    Example:
        >>> import tfn.numpy as tnp
        >>> erf(tnp.array([0.0, 10.0])).tolist()
        [0.0, 1.0]
    """
    return lax.erf(real("erf", x, weak=True))


def erfc(x: ArrayLike) -> Array:
    """The complementary error function ``1 - erf(x)``, accurate where it is small.

    Example:
        >>> erfc(0.0).tolist()
        1.0
    """
    return lax.erfc(real("erfc", x, weak=True))


def erfinv(x: ArrayLike) -> Array:
    """The inverse of `erf`.

    Example:
        >>> erfinv(0.0).tolist()
        0.0
    """
    return lax.erf_inv(real("erfinv", x, weak=True))


# The gamma function.


def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function.

    Example:
        >>> gammaln(1.0).tolist()
        0.0
    """
    return lax.lgamma(real("gammaln", x, weak=True))


def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function, NaN at negative whole numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> gammasgn(tnp.array([0.5, -0.5])).tolist()
        [1.0, -1.0]
    """
    x = real("gammasgn", x)
    floor = jnp.floor(x)
    sign = jnp.where(floor % 2 == 0, 1, -1).astype(x.dtype)
    below = jnp.where(x == floor, jnp.nan, sign)
    return jnp.where((x > 0) | (x != x), jnp.where(x != x, x, 1), jnp.where(x == 0, _one(x), below))


def _one(x: Array) -> Array:
    return jnp.copysign(jnp.ones_like(x), x)


def gamma(x: ArrayLike) -> Array:
    """The gamma function: ``(x - 1)!`` of whole numbers; of complex numbers too.

    Example:
        >>> gamma(5.0).round(3).tolist()
        24.0
    """
    x = inexact("gamma", x)
    result: Array = jnp.exp(loggamma(x)) if x.dtype in COMPLEXES else _gamma(x)
    return result


@custom_jvp
def _gamma(x: Array) -> Array:
    return gammasgn(x) * jnp.exp(lax.lgamma(x))


# At infinity the slope of digamma is 0, and its product with gamma would be NaN.
_gamma.defjvps(
    lambda dx, out, x: dx * (_gamma(x) * lax.digamma(jnp.where(x == jnp.inf, jnp.inf, x)))
)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """The factorial ``1 * 2 * ... * n``, as a float; 0 below zero.

    Raises:
        ArgumentError: if `exact` is True.

    Example:
        >>> factorial(5).round(3).tolist()
        120.0
    """
    one_of("factorial", "exact", exact, (False,))
    n = real("factorial", n)
    return jnp.where(n < 0, 0, jnp.exp(lax.lgamma(jnp.where(n < 0, 0, n) + 1)))


def digamma(x: ArrayLike) -> Array:
    """The derivative of `gammaln`.

    Example:
        >>> digamma(1.0).round(4).tolist()
        -0.5771999955177307
    """
    return lax.digamma(real("digamma", x, weak=True))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of `digamma`.

    Example:
        >>> polygamma(1, 1.0).round(4).tolist()
        1.6448999643325806
    """
    result: Array = lax.polygamma(*reals("polygamma", n, x))
    return result


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """The Hurwitz zeta function: the sum of ``(q + k) ** -x`` over k = 0, 1, 2, ...

    Args:
        x: exponent, array or number; above 1 unless `q` is omitted.
        q: first base, array or number; None for the Riemann zeta function of any real x.

    Example:
        >>> zeta(2.0, 1.0).round(4).tolist()
        1.6448999643325806
    """
    if q is None:
        return riemann_zeta(real("zeta", x))
    result: Array = lax.zeta(*reals("zeta", x, q))
    return result


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised lower incomplete gamma function.

    Example:
        >>> gammainc(1.0, 0.0).tolist()
        0.0
    """
    result: Array = lax.igamma(*reals("gammainc", a, x))
    return result


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularised upper incomplete gamma function, ``1 - gammainc(a, x)``.

    Example:
        >>> gammaincc(1.0, 0.0).tolist()
        1.0
    """
    result: Array = lax.igammac(*reals("gammaincc", a, x))
    return result


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the multivariate gamma function, of matrices of size d.

    Raises:
        ArgumentError: unless `d` is an integer from 1 on.

    Example:
        >>> multigammaln(2.0, 1).round(4).tolist()
        0.0
    """
    a, d = real("multigammaln", a), integer("multigammaln", "d", d, 1)
    total = jnp.full_like(a, d * (d - 1) / 4 * math.log(math.pi))
    for i in range(d):
        total = total + lax.lgamma(a - i / 2)
    return total


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial ``gamma(z + m) / gamma(z)``.

    Example:
        >>> poch(3.0, 2.0).round(3).tolist()
        12.0
    """
    return _poch(*reals("poch", z, m))


def _poch_of(z: Array, m: Array) -> Array:
    end = z + m
    zero = whole(z) & (z <= 0) & ~(whole(end) & (end <= 0))
    passing = _through_zero(zero, z, end)
    z, m, end = (jnp.where(zero, 1, x) for x in (z, m, end))
    steps = whole(m) & (end < 1) & ((z < 1) | ~whole(z))  # the factors are those of 1 - z, negated
    sign = jnp.where(steps, _alternating(m) * _sign(1 - z), _sign(end) * _sign(z))
    return jnp.where(zero, passing, sign * jnp.exp(log_rise(z, m)))


_poch = by_forward_mode(_poch_of, 2)


def _through_zero(zero: Array, pole: Array, *others: Array) -> Array:
    """The product of gamma functions of others over that of a pole: 0, with its derivatives there.

    By the reflection formula: 1 / gamma(-n + d) is gamma(1 + n - d) sin(pi d) / pi, for even n.
    """
    pole = jnp.where(zero, pole, 0)
    n = -lax.stop_gradient(pole)
    slope = _alternating(n) * gamma(1 - pole)
    for other in others:
        slope = slope * gamma(jnp.where(zero, other, 1))
    most = jnp.finfo(slope.dtype).max  # NaN: of a product beyond the largest number
    slope = jnp.clip(jnp.where(slope == slope, slope, 0), -most, most)
    return slope * jnp.sin(math.pi * (pole + n)) / math.pi


def _alternating(n: Array) -> Array:
    """(-1)**n."""
    return lax.stop_gradient(1 - 2 * (abs(n) % 2))


def _sign(x: Array) -> Array:
    """`gammasgn`, and 1 at poles."""
    sign = gammasgn(x)
    return jnp.where((sign != sign) & (x == x), 1, sign)


# The beta function.


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the absolute value of the beta function.

    Example:
        >>> betaln(1.0, 1.0).tolist()
        0.0
    """
    return _betaln(*reals("betaln", a, b))


_betaln = by_forward_mode(log_beta, 2)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function ``gamma(a) * gamma(b) / gamma(a + b)``.

    Example:
        >>> import tfn.numpy as tnp
        >>> beta(2.0, 3.0).round(5).item() == tnp.round(1 / 12, 5).item()
        True
    """
    return _beta(*reals("beta", a, b))


def _beta_of(a: Array, b: Array) -> Array:
    zero = whole(a + b) & (a + b <= 0) & ~whole(a) & ~whole(b)
    passing = _through_zero(zero, a + b, a, b)
    a, b = (jnp.where(zero, 1, x) for x in (a, b))
    pole_a, pole_b = (whole(x) & (x <= 0) for x in (a, b))
    other = jnp.where(whole(a) & whole(b) & (a + b < 1), jnp.where(pole_a, b, a), 0)
    poles = pole_a | pole_b | (a == -jnp.inf) | (b == -jnp.inf)
    sign = jnp.where(poles, _alternating(other), _sign(a) * _sign(b) * _sign(a + b))
    return jnp.where(zero, passing, sign * jnp.exp(log_beta(a, b)))


_beta = by_forward_mode(_beta_of, 2)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularised incomplete beta function, of x from 0 to 1.

    Args:
        a: first parameter, positive; array or number.
        b: second parameter, positive; array or number.
        x: upper limit of the integral; all three are broadcast.

    Returns:
        A floating array of the broadcast shape.

    Example:
        >>> betainc(1.0, 1.0, 0.25).round(5).tolist()
        0.25
    """
    result: Array = lax.betainc(*reals("betainc", a, b, x))
    return result


def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Array:
    """The number of ways to choose k of N things, as a float; gamma functions interpolate.

    Args:
        N: number of things, array or number.
        k: number of those chosen, array or number, broadcast with `N`.
        exact: must be False: there are no integers of any size.
        repetition: whether a thing can be chosen several times.

    Returns:
        A floating array of the broadcast shape, 0 where k is negative or above the number of
        things.

    Raises:
        ArgumentError: if `exact` is True.

    Example:
        >>> comb(5, 2).round(3).tolist()
        10.0
    """
    one_of("comb", "exact", exact, (False,))
    n, k = reals("comb", N, k)
    return _comb(n + k - 1 if repetition else n, k)


def _comb_of(n: Array, k: Array) -> Array:
    inside = (k >= 0) & (k <= n)
    n, k = jnp.where(inside, n, 0), jnp.where(inside, k, 0)
    least = jnp.minimum(k, n - k)
    count = jnp.exp(log_rise(n - least + 1, least) - lax.lgamma(least + 1))
    whole = (n == jnp.floor(n)) & (k == jnp.floor(k))
    rounded = count + lax.stop_gradient(jnp.round(count) - count)  # the derivative is count's
    return jnp.where(inside, jnp.where(whole & jnp.isfinite(count), rounded, count), 0)


_comb = by_forward_mode(_comb_of, 2)


# Bessel functions.


def i0e(x: ArrayLike) -> Array:
    """The scaled modified Bessel function ``exp(-|x|) * i0(x)``.

    Example:
        >>> i0e(0.0).tolist()
        1.0
    """
    result: Array = lax.bessel_i0e(real("i0e", x))
    return result


def i1e(x: ArrayLike) -> Array:
    """The scaled modified Bessel function ``exp(-|x|) * i1(x)``.

    Example:
        >>> i1e(0.0).tolist()
        0.0
    """
    result: Array = lax.bessel_i1e(real("i1e", x))
    return result


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    Example:
        >>> i0(0.0).tolist()
        1.0
    """
    result: Array = _i0(real("i0", x))
    return result


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    Example:
        >>> i1(0.0).tolist()
        0.0
    """
    result: Array = _i1(real("i1", x))
    return result


def _grown(scaled: Array, x: Array) -> Array:
    """The product ``scaled * exp(|x|)``, in two factors, since exp(|x|) overflows before it."""
    half = jnp.exp(abs(x) * 0.5)
    return scaled * half * half


@custom_jvp
def _i0(x: Array) -> Array:
    return _grown(lax.bessel_i0e(x), x)


@custom_jvp
def _i1(x: Array) -> Array:
    return _grown(lax.bessel_i1e(x), x)


_i0.defjvps(lambda dx, out, x: dx * _i1(x))


def _i1_slope(x: Array) -> Array:
    near = abs(x) < 8  # elsewhere both terms may overflow alone
    inside = jnp.where(near, x, 0)
    far = _grown(lax.bessel_i0e(x) - i1e_over_x(x), jnp.where(near, 0, x))
    return jnp.where(near, _i0(inside) - i1_over_x(inside), far)


_i1_by_x = by_forward_mode(_i1_slope)
_i1.defjvps(lambda dx, out, x: dx * _i1_by_x(x))


# Box-Cox transformations.


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box-Cox transformation ``(x**lmbda - 1) / lmbda``, and ``log(x)`` where lmbda is 0.

    Example:
        >>> boxcox(2.0, 1.0).tolist()
        1.0
    """
    x, power = reals("boxcox", x, lmbda)
    if x.dtype in COMPLEXES:
        return _complex_boxcox(jnp.log(x), power)
    return _boxcox(jnp.log, x, power)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The Box-Cox transformation of 1 + x, accurate near 0.

    Example:
        >>> boxcox1p(2.0, 1.0).tolist()
        2.0
    """
    x, power = reals("boxcox1p", x, lmbda)
    if x.dtype in COMPLEXES:
        return _complex_boxcox(jnp.log1p(x), power)
    return _boxcox(jnp.log1p, x, power)


def _complex_boxcox(line: Array, power: Array) -> Array:
    safe = jnp.where(power == 0, 1, power)
    return jnp.where(power == 0, line, jnp.expm1(safe * line) / safe)


def _boxcox(log: Callable[[Array], Array], x: Array, power: Array) -> Array:
    """The transformation of ``exp(log(x))``."""

    def by_power(x: Array, power: Array) -> Array:
        line = log(x)
        end = jnp.isinf(line)  # there exp(power * line) is 0 or infinite
        known = partial(_power_ratio, jnp.where(end, 0, line))
        slope: Array = jvp(known, (power,), (jnp.ones_like(power),))[1]
        return jnp.where(end, jnp.where(line * power < 0, 1 / (power * power), jnp.inf), slope)

    offset = 0 if log is jnp.log else 1
    function = custom_jvp(lambda x, power: _power_ratio(log(x), power))
    function.defjvps(
        lambda dx, out, x, power: (
            dx * ((x + offset) ** (power - 1) * jnp.where(out == out, 1, out))
        ),
        lambda dp, y, x, power: dp * by_forward_mode(by_power, 2)(x, power),
    )
    result: Array = function(x, power)
    return result


def _power_ratio(line: Array, power: Array) -> Array:
    """``expm1(power * line) / power``, by its series where the product is small."""
    steep = jnp.where(jnp.isinf(line), jnp.copysign(1e30, line), line)
    product = power * steep
    near, far, flat = abs(product) < 0.5, product > 80, (power == 0) & jnp.isinf(line)
    low = product < -800  # of which the exponential is 0
    flat_line = jnp.where(flat, line, 0)
    inside = jnp.where(near, product, 0)
    series = jnp.zeros_like(product)
    for k in range(15, 0, -1):
        series = (series * inside + 1) / k
    power, line = (jnp.where(near, x, y) for x, y in ((1, power), (line, 0)))
    outside = jnp.where(near | far | low, 1, product)
    beyond = jnp.sign(power) * jnp.exp(jnp.where(far, product, 1) - jnp.log(abs(power)))
    change = jnp.where(low, -1, jnp.expm1(outside))
    value = jnp.where(far, beyond, change / jnp.where(power == 0, 1, power))
    return jnp.where(near, line * series, jnp.where(flat, flat_line, value))
