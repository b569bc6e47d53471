"""Special functions at zero, at poles, at tiny, huge and infinite arguments, against SciPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.scipy import special, stats

pytestmark = pytest.mark.usefixtures("compiled")
ONE = [
    "digamma", "dawsn", "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit",
    "factorial", "fresnel", "gamma", "gammaln", "gammasgn", "i0", "i0e", "i1", "i1e", "log_ndtr",
    "logit", "ndtr", "ndtri", "sici", "spence", "wofz",
]  # fmt: skip
TWO = [
    "beta", "betaln", "boxcox", "boxcox1p", "comb", "gammainc", "gammaincc", "kl_div", "owens_t",
    "poch", "rel_entr", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
FURTHER = {"betainc": 3, "expn": 2, "polygamma": 2}
ORDERS = [0, 1, 2, 5]
UNIT = [0, 1e-10, 0.25, 0.5, 0.75, 1 - 2**-20, 1, 1.5, -0.5]
WIDE = {"owens_t": 2e-7}  # SciPy has 7 digits of small ones
UNDEFINED_IN_SCIPY = {"beta", "betaln", "comb", "fresnel", "poch", "zeta"}
"""Where SciPy subtracts or divides infinities, these have their limits."""


def corners(dtype: Any, few: bool) -> np.ndarray:
    """Numbers of both signs."""
    limits = np.finfo(dtype)
    sizes = [0, limits.tiny, 1e-10, 0.5, 1, 1.5, 2, 10, 1e4, 1e10, limits.max / 1e8, np.inf]
    more = [limits.smallest_subnormal, 1e-30, 0.3, 2.5, 7, 33.5, 88, 170.5, 500, 1e6 + 0.5]
    sizes = sizes if few else sizes + more
    return np.array(sizes + [-x for x in sizes], dtype)


def operands(name: str, dtype: Any) -> list[np.ndarray]:
    """Every combination of the corners that the arguments have."""
    axes = [corners(dtype, few=name not in ONE)] * (1 if name in ONE else 2)
    if name == "betainc":
        axes = [np.delete(corners(dtype, few=True), [1, 13])[::2]] * 2 + [np.array(UNIT, dtype)]
    if name in ("expn", "polygamma"):
        axes[0] = np.array(ORDERS, dtype)
    return [x.ravel() for x in np.meshgrid(*axes)]


def parts(result: Any) -> Iterator[np.ndarray]:
    """Real arrays of a result, which may be a tuple and complex."""
    for x in result if isinstance(result, tuple) else (result,):
        x = np.asarray(x)
        yield from ([x.real, x.imag] if x.dtype.kind == "c" else [x])


def compare(name: str, xs: Sequence[np.ndarray], got: Any, want: Any) -> list[str]:
    """Points where a result is not SciPy's, rounded to the dtype."""
    limits = np.finfo(xs[0].dtype)
    rtol = 2e-5 if xs[0].dtype == np.float32 else WIDE.get(name, 1e-8)
    told = []
    for ours, theirs in zip(parts(got), parts(want), strict=True):
        with np.errstate(all="ignore"):
            ours, near = ours.astype(float), theirs.astype(limits.dtype).astype(float)
            same = (ours == near) | np.isnan(ours) & np.isnan(theirs)
            same |= abs(ours - theirs) <= rtol * abs(theirs) + float(limits.tiny)
            huge = float(limits.max) * (1 - rtol)
            same |= (abs(ours) >= huge) & (abs(near) >= huge) & (ours * near > 0)
        if name in UNDEFINED_IN_SCIPY:
            same |= np.isnan(theirs)
        if name == "wofz":  # a part that is nothing beside the other is not tested
            same |= abs(ours - theirs) <= rtol * abs(want)
        told += [
            f"{name}({', '.join(f'{x[i]:.6g}' for x in xs)}): {ours[i]:.9g}, not {theirs[i]:.9g}"
            for i in np.flatnonzero(~same)
        ]
    return told


@pytest.mark.parametrize(
    ("name", "dtype"), in_turn(2, product([*ONE, *TWO, *FURTHER], (np.float32, np.float64)))
)
def test_values_are_those_of_scipy(name: str, dtype: Any) -> None:
    xs = operands(name, dtype)
    wide = [x.astype(np.float64) for x in xs]
    ours = list(xs)
    if name in ("expn", "polygamma"):
        wide[0] = wide[0].astype(int)
        ours[0] = xs[0].astype(int) if name == "expn" else xs[0]
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(*wide)
    told = compare(name, xs, getattr(special, name)(*ours), want)
    assert not told, "\n".join([f"{len(told)} of {xs[0].size}", *told[:20]])


@pytest.mark.parametrize("name", in_turn(2, [name for name in TWO if name != "comb"]))
def test_nan_gives_nan(name: str) -> None:
    x = np.array([np.nan, np.nan, 0.5, 2.0])
    assert np.isnan(np.asarray(getattr(special, name)(x, x[::-1]))).all()


def test_riemann_zeta_function() -> None:
    x = np.array([-171.5, -20.5, -4, -3, -0.5, 0, 0.25, 0.99, 1, 1.01, 2, 60])
    np.testing.assert_allclose(special.zeta(x), scipy.special.zeta(x), rtol=1e-12, atol=1e-13)


SHARES = [  # a, x, and mpmath.gammainc(a, 0, x, regularized=True)
    (100, 75.0, 0.003352441498186992),
    (100, 130.0, 0.9972495916326935),
    (1000, 1003.1622776601683, 0.5439670835408074),
    (1e06, 996000.0, 3.100711821108297e-5),
    (1e06, 1000000.0, 0.5001329807608726),
    (1e06, 1002000.0, 0.9771959041012301),
    (1e08, 100010000.0, 0.8413447464717988),
]


def test_incomplete_gamma_functions_where_a_is_large() -> None:
    a, x, below = np.array(SHARES).T
    np.testing.assert_allclose(special.gammainc(a, x), below, rtol=1e-11)
    np.testing.assert_allclose(special.gammaincc(a, x), 1 - below, rtol=1e-11)
    a = np.array([1e10, 1e15, 1e30, 1e300])
    below = 0.5 + 1 / (3 * np.sqrt(2 * np.pi * a))
    np.testing.assert_allclose(special.gammainc(a, a), below, rtol=1e-12)
    np.testing.assert_allclose(special.gammaincc(a, a), 1 - below, rtol=1e-12)


def test_upper_incomplete_gamma_function_of_tiny_a() -> None:
    """Its quotient by a is the exponential integral."""
    a, x = np.meshgrid([1e-300, 1e-100, 1e-20], [0.01, 0.5, 1.0, 3.0])
    np.testing.assert_allclose(special.gammaincc(a, x) / a, scipy.special.exp1(x), rtol=1e-12)


DERIVATIVES = {  # name: function of mpmath, points, relative error of the second derivative
    "dawsn": (lambda x: mpmath.exp(-x * x) * mpmath.erfi(x) * mpmath.sqrt(mpmath.pi) / 2, 1e-8),
    "erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 1e-8),
    "i0": (lambda x: mpmath.besseli(0, x), 1e-13),
    "i0e": (lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), 1e-11),
    "i1": (lambda x: mpmath.besseli(1, x), 1e-13),
    "i1e": (lambda x: mpmath.exp(-x) * mpmath.besseli(1, x), 1e-11),
}


@pytest.mark.parametrize("name", in_turn(2, DERIVATIVES))
def test_derivatives_do_not_cancel(name: str) -> None:
    points = np.array([1e-10, 1e-3, 0.5, 3.0, 8.5, 25.0, 100.0])
    function, rtol = DERIVATIVES[name]
    mpmath.mp.dps = 50
    got = getattr(special, name)
    for order in (1, 2):
        got = tfn.grad(got)
        want = [float(mpmath.diff(function, mpmath.mpf(x), order)) for x in points]
        np.testing.assert_allclose(tfn.vmap(got)(points), want, rtol=rtol)


def test_derivatives_where_signs_and_factors_change() -> None:
    digamma = scipy.special.digamma
    z = np.array([0.5, 1.0, -0.5, -3.3, 10.0])
    by_m = tfn.vmap(tfn.grad(special.poch, 1), (0, None))
    np.testing.assert_allclose(by_m(z, np.float64(0)), digamma(z), rtol=1e-6)
    np.testing.assert_allclose(by_m(z, np.float64(2)), z * (z + 1) * digamma(z + 2), rtol=1e-6)
    by_a = tfn.vmap(tfn.grad(special.betaln), (None, 0))(np.float64(1), z)
    np.testing.assert_allclose(by_a, digamma(1) - digamma(1 + z), rtol=1e-6)
    by_k = float(tfn.grad(special.comb, 1)(np.float64(10), np.float64(2)))
    assert by_k == pytest.approx(45 * (digamma(9) - digamma(3)), rel=1e-6)
    power = np.float64(0)
    assert float(tfn.grad(special.boxcox, 1)(np.float64(3), power)) == pytest.approx(
        np.log(3) ** 2 / 2
    )


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_second_derivatives_of_determinants_of_any_scale(scale: float) -> None:
    a = np.array([[2, 1], [0.5, 3]], np.float32) * np.float32(scale)
    second = np.asarray(tfn.hessian(tnp.linalg.det)(a)).reshape(4, 4)
    np.testing.assert_allclose(second, np.fliplr(np.diag([1, -1, -1, 1])), atol=1e-5)


@pytest.mark.parametrize("name", ["beta", "cauchy", "gamma", "gennorm", "pareto", "t", "uniform"])
def test_logarithms_of_probabilities_near_one(name: str) -> None:
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    shapes = {"beta": (2.0, 3.0), "gamma": (2.5,), "gennorm": (1.5,), "pareto": (3.0,), "t": (4.0,)}
    args = shapes.get(name, ())
    q = np.array([1e-12, 1e-9, 1e-6, 0.3])
    for function, quantile in (("logcdf", theirs.isf), ("logsf", theirs.ppf)):
        if name == "uniform" and function == "logcdf":
            continue  # 1 - x has lost the digits
        x = quantile(q, *args)
        p = theirs.sf(x, *args) if function == "logcdf" else theirs.cdf(x, *args)
        got = getattr(ours, function)(x, *args)
        np.testing.assert_allclose(got, np.log1p(-p), rtol=1e-9, err_msg=function)
