"""Distributions against SciPy: densities, probabilities, quantiles, and their derivatives."""

import numpy as np
import pytest
import scipy.stats

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy import stats

LINE = np.float64([-2.0, -0.4, 0.0, 0.3, 0.9, 1.7, 4.0])
CONTINUOUS = {
    "norm": (),
    "expon": (),
    "laplace": (),
    "logistic": (),
    "cauchy": (),
    "uniform": (),
    "gumbel_r": (),
    "gumbel_l": (),
    "t": (3.5,),
    "gamma": (2.5,),
    "chi2": (3.0,),
    "beta": (2.0, 1.5),
    "pareto": (2.5,),
    "gennorm": (1.5,),
    "truncnorm": (-0.5, 2.0),
    "vonmises": (1.5,),
    "wrapcauchy": (0.4,),
}
DISCRETE = {
    "bernoulli": (0.3,),
    "poisson": (2.5,),
    "geom": (0.3,),
    "binom": (4, 0.3),
    "nbinom": (3, 0.4),
    "betabinom": (4, 2.0, 1.5),
}


@pytest.mark.parametrize("name", in_turn(2, CONTINUOUS))
def test_continuous(name):
    ours, theirs, params = getattr(stats, name), getattr(scipy.stats, name), CONTINUOUS[name]
    for loc, scale in ((0, 1), (0.25, 1.5)):
        for kind in ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf"):
            if not hasattr(ours, kind):
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                want = getattr(theirs, kind)(LINE, *params, loc, scale)
            got = getattr(ours, kind)(LINE, *params, loc, scale)
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12, err_msg=kind)
        for kind in ("ppf", "isf"):
            if hasattr(ours, kind):
                q = np.float64([0.01, 0.3, 0.5, 0.99])
                got = getattr(ours, kind)(q, *params, loc, scale)
                want = getattr(theirs, kind)(q, *params, loc, scale)
                np.testing.assert_allclose(got, want, rtol=1e-9, err_msg=kind)
    if hasattr(ours, "cdf") and name != "uniform":
        slope = tfn.vmap(tfn.grad(lambda x: ours.cdf(x, *params)))(LINE[3:5])
        np.testing.assert_allclose(slope, ours.pdf(LINE[3:5], *params), rtol=1e-7)
    if params:  # by a parameter
        place = np.float64(1.6 if name == "pareto" else 0.6)
        got = tfn.grad(lambda p: ours.logpdf(place, p, *params[1:]))(np.float64(params[0]))
        step = np.float64(1e-6)
        above, below = (theirs.logpdf(place, params[0] + h, *params[1:]) for h in (step, -step))
        np.testing.assert_allclose(got, (above - below) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name):
    ours, theirs, params = getattr(stats, name), getattr(scipy.stats, name), DISCRETE[name]
    places = np.float64([-1, 0, 0.5, 1, 2, 3, 4, 5])
    for loc in (0, 1):
        for kind in ("logpmf", "pmf", "cdf"):
            if hasattr(ours, kind):
                with np.errstate(divide="ignore", invalid="ignore"):
                    want = getattr(theirs, kind)(places, *params, loc)
                got = getattr(ours, kind)(places, *params, loc)
                np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12, err_msg=kind)


def test_of_vectors():
    random = np.random.default_rng(0)
    a = random.standard_normal((3, 3))
    cov, mean, x = a @ a.T + np.eye(3), random.standard_normal(3), random.standard_normal((4, 3))
    normal = scipy.stats.multivariate_normal
    want = normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(stats.multivariate_normal.logpdf(x, mean, cov), want)
    np.testing.assert_allclose(
        stats.multivariate_normal.pdf(x, mean, 2.0), normal.pdf(x, mean, 2.0)
    )
    shares, alpha = np.float64([0.2, 0.3, 0.5]), np.float64([1.5, 0.5, 3])
    want = scipy.stats.dirichlet.logpdf(shares, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(shares, alpha), want)
    np.testing.assert_allclose(stats.dirichlet.pdf(shares[:2], alpha), np.exp(want))
    counts = np.float64([1, 0, 3])
    want = scipy.stats.multinomial.pmf(counts, 4, shares)
    np.testing.assert_allclose(stats.multinomial.pmf(counts, 4, shares), want)
    assert stats.multinomial.logpmf(counts, 5, shares) == -np.inf


@pytest.mark.parametrize(
    "name, df", [("cauchy", ()), ("t", (3.0,)), ("t", (0.5,)), ("t", (1e9,)), ("t", (1e200,))]
)
def test_far_points_do_not_overflow(name, df):
    n = df[0] if df else 1.0
    z = np.float64([-1e300, -1e160, -2, -1, -1e-9, 0, 1e-200, 0.5, 1, 1e9, 1e200])
    x = z * np.sqrt(n) if n < 9 else z[2:9]
    got, start = getattr(stats, name), getattr(scipy.stats, name).logpdf(0.0, *df)
    ratio = x / np.sqrt(n)
    size = np.hypot(1, ratio)
    want = start - (n + 1) * np.log(size) if n < 9 else start - x * x / 2
    np.testing.assert_allclose(got.logpdf(x, *df), want, 1e-13 if n < 9 else 1e-8)
    slope = tfn.vmap(tfn.grad(lambda x: got.logpdf(x, *df)))(x)
    want = -(n + 1) / np.sqrt(n) * (ratio / size) / size if n < 9 else -x
    np.testing.assert_allclose(slope, want, 1e-12 if n < 9 else 1e-8)
    assert got.logpdf(np.float64([np.inf]), *df) == -np.inf


def test_python_numbers_give_32_bits():
    assert stats.norm.logpdf(1).dtype == np.float32
    assert stats.gamma.pdf(np.float32(1), 2).dtype == np.float32
    assert tfn.jit(stats.norm.cdf)(0.0) == 0.5


@pytest.mark.parametrize("dtype", ["int32", "float64"])
@pytest.mark.parametrize("shape", [(11,), (5, 7), (3, 4, 2)])
def test_samples(shape, dtype):
    a = np.random.default_rng(2).integers(0, 4, shape).astype(dtype)
    for axis in (0, -1, None):
        for keepdims in (False, True):
            got = stats.mode(a, axis, keepdims=keepdims)
            want = scipy.stats.mode(a, axis, keepdims=keepdims)
            assert got.mode.shape == want.mode.shape
            np.testing.assert_array_equal(got.mode, want.mode)
            np.testing.assert_array_equal(got.count, want.count)
        for method in ("average", "min", "max", "dense", "ordinal"):
            want = scipy.stats.rankdata(a, method, axis=axis)
            np.testing.assert_array_equal(stats.rankdata(a, method, axis=axis), want)
        real = a.astype("float64")
        np.testing.assert_allclose(stats.sem(real, axis), scipy.stats.sem(real, axis))


def test_samples_with_nan():
    a = np.random.default_rng(0).standard_normal((4, 5))
    a[1, 2] = np.nan
    np.testing.assert_array_equal(stats.rankdata(a, axis=1), scipy.stats.rankdata(a, axis=1))
    for policy in ("omit", "propagate"):
        want = scipy.stats.sem(a, 1, nan_policy=policy)
        np.testing.assert_allclose(stats.sem(a, 1, nan_policy=policy), want)
    for call in (
        lambda: stats.mode(a, nan_policy="omit"),
        lambda: stats.rankdata(a, "other"),
        lambda: stats.sem(a, nan_policy="raise"),
    ):
        with pytest.raises(TfnError):
            call()


def test_quantiles_of_bernoulli_and_entropy_of_poisson():
    q = np.float64([0, 0.1, 0.69, 0.7, 0.71, 1, 1.5])
    for loc in (0, 2):
        want = scipy.stats.bernoulli.ppf(q, 0.3, loc)
        np.testing.assert_array_equal(stats.bernoulli.ppf(q, 0.3, loc), want)
    for mean in (0.01, 0.5, 3.0, 20.0, 99.9, 100.1, 500.0, 1e4):
        counts = np.arange(max(0, mean - 40 * mean**0.5 - 40) // 1, mean + 40 * mean**0.5 + 40)
        logs = scipy.stats.poisson.logpmf(counts, mean)
        want = -(np.exp(logs) * logs).sum()
        np.testing.assert_allclose(stats.poisson.entropy(np.array(mean)), want, rtol=1e-9)
    assert stats.poisson.entropy(0.0) == 0


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_kernel_densities(dimensions):
    random = np.random.default_rng(dimensions)
    x, y = random.standard_normal((dimensions, 30)), random.standard_normal((dimensions, 8))
    for options in (
        {},
        {"bw_method": "silverman"},
        {"bw_method": 0.3},
        {"weights": random.uniform(0.5, 1, 30)},
        {"bw_method": lambda d: d.neff**-0.2},
    ):
        ours, theirs = stats.gaussian_kde(x, **options), scipy.stats.gaussian_kde(x, **options)
        np.testing.assert_allclose(ours.neff, theirs.neff)
        np.testing.assert_allclose(ours.covariance, theirs.covariance)
        for f in ("pdf", "logpdf", "evaluate"):
            np.testing.assert_allclose(getattr(ours, f)(y), getattr(theirs, f)(y))
        mean, cov = np.zeros(dimensions), np.eye(dimensions)
        want = theirs.integrate_gaussian(mean, cov)
        np.testing.assert_allclose(ours.integrate_gaussian(mean, cov), want)
        np.testing.assert_allclose(ours.integrate_kde(ours), theirs.integrate_kde(theirs))
        if dimensions == 1:
            np.testing.assert_allclose(
                ours.integrate_box_1d(-1, 0.5), theirs.integrate_box_1d(-1, 0.5)
            )
    sample = np.asarray(ours.resample(tfn.random.key(0), (4000,)))
    want = np.cov(x) + np.asarray(ours.covariance).squeeze()
    np.testing.assert_allclose(np.cov(sample), want, atol=0.15)
    f = tfn.jit(lambda x: stats.gaussian_kde(x).logpdf(y).sum())
    step, along = 1e-6, random.standard_normal(x.shape)
    slope = (f(x + step * along) - f(x - step * along)) / (2 * step)
    np.testing.assert_allclose((tfn.grad(f)(x) * along).sum(), slope, rtol=1e-5)
    with pytest.raises(TfnError):
        stats.gaussian_kde(x, "other")
    with pytest.raises(TfnError):
        stats.gaussian_kde(x[:, :1])


POINTS = np.array([np.nan, -np.inf, np.inf, -500, -2.5, -1, 0, 1e-10, 0.5, 1, 1.5, 2, 3, 7, 500])
CHANCES = np.array([np.nan, -np.inf, -1, -1e-10, 0, 1e-300, 0.1, 0.5, 0.9, 1, 1.0000001, 2, np.inf])
SHAPES = {  # parameters that are allowed, and some that are not
    "beta": [(2, 3), (-1, 2), (0, 1), (np.nan, 2)],
    "chi2": [(2,), (3,), (0,), (-1,)],
    "gamma": [(2,), (1,), (0,), (-1,), (np.nan,)],
    "gennorm": [(2,), (-1,)],
    "pareto": [(2,), (-1,)],
    "t": [(2,), (-1,), (np.nan,)],
    "truncnorm": [(-1, 2), (2, 1)],
    "wrapcauchy": [(0.5,), (1.5,), (-1,)],
    "vonmises": [(1,), (-1,)],
    "bernoulli": [(0.3,), (0,), (1,), (1.5,), (np.nan,)],
    "binom": [(5, 0.3), (5, 1), (5, 1.5), (-1, 0.3), (5.5, 0.3), (5, np.nan)],
    "geom": [(0.3,), (1,), (0,), (1.5,)],
    "nbinom": [(5, 0.3), (5, 1), (-1, 0.3), (5, 0)],
    "betabinom": [(5, 2, 3), (5, -1, 3), (-1, 2, 3)],
    "poisson": [(2,), (0,), (-1,), (np.nan,)],
    **{n: [()] for n in ["cauchy", "expon", "gumbel_l", "gumbel_r", "laplace"]},
    **{n: [()] for n in ["logistic", "norm", "uniform"]},
}
METHODS = dict.fromkeys(["pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"], POINTS)
METHODS |= dict.fromkeys(["pmf", "logpmf"], np.delete(POINTS, 2))  # at inf SciPy gives NaN
METHODS |= {"ppf": CHANCES, "isf": CHANCES}


@pytest.mark.parametrize("name", in_turn(2, SHAPES))
def test_special_points_are_those_of_scipy(name):
    """NaN, ends and outside of the support, chances outside of 0 to 1, scales not positive."""
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    discrete = hasattr(ours, "pmf")
    scales = [(0,), (1,)] if discrete else [(0, 1), (1, 2), (0, 0), (0, -1), (np.nan, 1)]
    rows = [(*s, *scale) for s in SHAPES[name] for scale in scales]
    params = np.array(rows, float).T[..., None]
    for method, points in METHODS.items():
        if not hasattr(ours, method) or (name, method) == ("bernoulli", "ppf"):
            continue
        with np.errstate(all="ignore"):
            want = getattr(theirs, method)(points, *params)
        got = np.asarray(getattr(ours, method)(tnp.array(points), *map(tnp.array, params)))
        np.testing.assert_allclose(got, want, 1e-6, 1e-9, err_msg=method)
