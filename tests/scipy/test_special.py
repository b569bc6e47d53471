"""Special functions against SciPy, and their derivatives against differences."""

import mpmath
import numpy as np
import pytest
import scipy.special

import tfn
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy import special

REAL = np.float64([-7.3, -2.5, -1.25, -0.3, 0.1, 0.5, 0.9, 1.0, 2.75, 6.5, 30.0])
POSITIVE = np.float64([1e-3, 0.1, 0.5, 0.9, 1.0, 2.75, 6.5, 30.0])
UNIT = np.float64([1e-6, 0.01, 0.3, 0.5, 0.6, 0.97, 0.9999])
CASES = {
    "xlogy": [REAL, 2.5],
    "xlog1py": [REAL, 0.5],
    "entr": [POSITIVE],
    "expit": [REAL],
    "rel_entr": [POSITIVE, POSITIVE[::-1]],
    "kl_div": [POSITIVE, POSITIVE[::-1]],
    "logit": [UNIT],
    "erf": [REAL],
    "erfc": [REAL],
    "erfinv": [UNIT],
    "gammaln": [REAL],
    "gamma": [REAL[REAL < 20]],
    "digamma": [POSITIVE],
    "factorial": [POSITIVE[:-1]],
    "zeta": [2.5, POSITIVE],
    "gammainc": [POSITIVE, 2.0],
    "gammaincc": [POSITIVE, 2.0],
    "betaln": [POSITIVE, 2.5],
    "beta": [POSITIVE, 2.5],
    "betainc": [2.5, 1.5, UNIT],
    "i0": [REAL[:-1]],
    "i0e": [REAL],
    "i1": [REAL[:-1]],
    "i1e": [REAL],
    "ndtr": [REAL],
    "ndtri": [UNIT],
    "log_ndtr": [np.append(REAL, [-25.0, -100.0])],
    "poch": [POSITIVE[:-1], 2.5],
    "boxcox": [POSITIVE, 0.5],
    "boxcox1p": [POSITIVE, 0.0],
}


@pytest.mark.parametrize("name", in_turn(2, CASES))
def test_values_and_derivatives(name):
    xs = [np.asarray(x) for x in CASES[name]]
    f = getattr(special, name)
    np.testing.assert_allclose(f(*xs), getattr(scipy.special, name)(*xs), rtol=2e-10, atol=1e-13)
    small = [x.astype("float32") for x in xs]
    got = f(*small)
    assert got.dtype == np.float32
    want = getattr(scipy.special, name)(*[x.astype("float64") for x in small])
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-6)

    i = max(range(len(xs)), key=lambda i: xs[i].size)  # the argument that varies
    step = 1e-6 * np.minimum(np.abs(xs[i]), 1) * (1 - xs[i] if xs[i] is UNIT else 1)
    after, before = ([*xs[:i], xs[i] + h, *xs[i + 1 :]] for h in (step, -step))
    slope = (np.asarray(f(*after)) - np.asarray(f(*before))) / (2 * step)
    found = tfn.grad(lambda x: f(*xs[:i], x, *xs[i + 1 :]).sum())(xs[i])
    np.testing.assert_allclose(found, slope, rtol=2e-4, atol=1e-7)


def test_borders():
    assert special.xlogy(0.0, 0.0) == 0 and np.isnan(special.xlogy(0.0, np.nan))
    assert special.xlog1py(0.0, -1.0) == 0 and special.entr(0.0) == 0
    assert tfn.grad(special.xlogy)(0.0, 2.0) == np.log(np.float32(2))
    assert tfn.grad(special.xlogy, 1)(0.0, 0.0) == 0
    assert special.ndtri(0.0) == -np.inf and special.ndtri(1.0) == np.inf
    assert np.isnan(special.ndtri(-0.1)) and special.log_ndtr(-np.inf) == -np.inf
    assert special.rel_entr(0.0, 0.0) == 0 and special.rel_entr(1.0, 0.0) == np.inf
    assert special.gammaln(1).dtype == np.float32 and special.expit(0).dtype == np.float32
    assert tfn.jit(special.log_ndtr)(-1e4) < -4e7
    with pytest.raises(TfnError, match="betainc needs arrays"):
        special.betainc([1.0], 2.0, 3.0)


def test_float32_is_accurate_where_terms_cancel():
    """Functions of logarithms of gamma functions, and small differences."""

    def check(name, *xs, rtol):
        xs = [np.asarray(x, np.float32) for x in np.broadcast_arrays(*xs)]
        want = getattr(scipy.special, name)(*[x.astype(np.float64) for x in xs])
        got = getattr(special, name)(*xs)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-37, err_msg=name)

    large = [8, 20, 1000, 1e6, 1e20]
    check("betaln", large, [[0.5], [1], [3], [9], [1e6]], rtol=2e-6)
    check("poch", large[:-1], [[0.5], [1], [3]], rtol=2e-5)
    check("comb", [60, 1000, 1e5], [[1], [2], [3]], rtol=1e-5)
    check("betainc", [50, 500], [[60], [550]], [[[0.45]], [[0.5]]], rtol=2e-4)
    check("gammainc", [100, 1000, 32767], [[1], [100], [1000], [32768]], rtol=5e-4)
    check("rel_entr", [127, 1000, 1 + 2**-20], [126, 1001, 1], rtol=1e-6)
    check("i0", [88.5, 90, 91], rtol=1e-5)
    check("i1", [88.5, 90, -91], rtol=1e-5)
    np.testing.assert_allclose(tfn.numpy.i0(np.float32(91)), scipy.special.i0(91), rtol=2e-5)


def test_borders_of_incomplete_gamma_functions():
    a, x = np.float64([0, 0, 0, 3, 3, np.inf]), np.float64([2, 1e30, np.inf, 1e30, 0, 5])
    for name in ("gammainc", "gammaincc"):
        want = getattr(scipy.special, name)(a, x)[:-1]
        np.testing.assert_array_equal(getattr(special, name)(a, x)[:-1], want)
        assert np.isnan(getattr(special, name)(0.0, 0.0))
    assert tfn.grad(special.gammainc)(1.0, 1e30) == 0
    slopes = [float(tfn.grad(special.gammainc, 1)(a, 0.0)) for a in (0.5, 1.0, 2.0)]
    assert slopes == [np.inf, 1, 0]


def test_counts():
    n, k = np.float64([5, 5, 5, 10, 3]), np.float64([0, 2, 6, 5, -1])
    np.testing.assert_allclose(special.comb(n, k), scipy.special.comb(n, k))
    np.testing.assert_allclose(
        special.comb(n, k, repetition=True)[:4], scipy.special.comb(n, k, repetition=True)[:4]
    )
    np.testing.assert_allclose(
        special.multigammaln(POSITIVE + 2, 3), scipy.special.multigammaln(POSITIVE + 2, 3)
    )
    np.testing.assert_allclose(special.polygamma(1, POSITIVE), scipy.special.polygamma(1, POSITIVE))
    np.testing.assert_array_equal(special.gammasgn(REAL), scipy.special.gammasgn(REAL))


def test_softmax_and_its_like():
    x = np.stack([REAL, REAL[::-1] / 2])
    np.testing.assert_allclose(special.logsumexp(x, axis=1), scipy.special.logsumexp(x, axis=1))
    np.testing.assert_allclose(special.softmax(x), scipy.special.softmax(x))
    np.testing.assert_allclose(special.log_softmax(x), scipy.special.log_softmax(x), atol=1e-14)


def test_limits_are_those_of_scipy():
    x = np.float64([0, 0.5, 1, 50, 1e300])
    for name in ("gammainc", "gammaincc"):
        got = getattr(special, name)(np.full(5, np.inf), x)
        np.testing.assert_array_equal(got, getattr(scipy.special, name)(np.full(5, np.inf), x))
    x = np.float64([-np.inf, -50.5, -3, -2, -0.5, -1e-300, 0, 2, np.inf])
    for got, want in zip(special.sici(x), scipy.special.sici(x), strict=True):
        np.testing.assert_allclose(got, want, 1e-12)


@pytest.mark.parametrize(
    ("name", "at", "want"),
    [  # slopes by each argument, by mpmath where there are both limits and one value
        ("poch", (0.0, 2.0), (1, 0)),
        ("poch", (-1.0, 2.0), (-1, 0)),
        ("poch", (-2.0, 3.0), (2, 0)),
        ("poch", (-3.0, 0.5), (5.671852322897651, 0)),
        ("beta", (-1.5, 0.5), (-4.188790204786391,) * 2),
        ("beta", (-0.5, -0.5), (-12.566370614359172,) * 2),
        ("beta", (-2.5, 0.5), (-3.351032163829113,) * 2),
        ("gammainc", (0.0, 0.5), (-0.5597735947761608, 0)),
        ("gammaincc", (0.0, 2.0), (0.04890051070806112, 0)),
        ("gammainc", (0.0, np.inf), (0, 0)),
    ],
)
def test_slopes_where_values_are_limits(name, at, want):
    function = getattr(special, name)
    slopes = tfn.grad(function, (0, 1))(*np.float64(at))
    np.testing.assert_allclose(slopes, want, rtol=1e-6)
    if name in ("poch", "beta"):
        assert function(*at) == 0


@pytest.mark.parametrize(
    ("name", "at"), [("poch", (-2.0, 3.0)), ("poch", (-3.0, 0.5)), ("beta", (-2.5, 0.5))]
)
def test_higher_derivatives_where_values_are_limits(name, at):
    own, exact = getattr(special, name), {"poch": mpmath.rf, "beta": mpmath.beta}[name]
    with mpmath.workdps(60):
        for orders in ((2, 0), (1, 1), (3, 0)):
            function = own
            for i in (0,) * orders[0] + (1,) * orders[1]:
                function = tfn.grad(function, i)
            want = float(mpmath.diff(exact, at, orders))
            np.testing.assert_allclose(function(*np.float64(at)), want, rtol=1e-6)


def test_slopes_of_the_sine_and_cosine_integrals_end_at_0():
    for x in (np.inf, -np.inf):
        for i in (0, 1):
            assert tfn.grad(lambda x, i=i: special.sici(x)[i])(x) == 0


def test_complex_numbers_have_a_gamma_function_and_transformations():
    z = np.complex128([0.7 + 0.4j, -2.3 + 1j, 3 - 2j, 5])
    for name in ("gamma", "erfcx"):
        expected = getattr(scipy.special, name)(z)
        np.testing.assert_allclose(getattr(special, name)(z), expected, rtol=1e-12)
    power = np.complex128([0.5, 2j, 0, 1 - 1j])
    ratio = (z**power - 1) / np.where(power == 0, 1, power)
    expected = np.where(power == 0, np.log(z), ratio)
    np.testing.assert_allclose(special.boxcox(z, power), expected, rtol=1e-12)
    np.testing.assert_allclose(special.boxcox1p(z - 1, power), expected, rtol=1e-12)
