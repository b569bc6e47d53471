"""Distributions against SciPy: densities, probabilities, quantiles, and their derivatives."""

import numpy as np
import pytest
import scipy.stats

import tfn
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


@pytest.mark.parametrize("name", CONTINUOUS)
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


def test_python_numbers_give_32_bits():
    assert stats.norm.logpdf(1).dtype == np.float32
    assert stats.gamma.pdf(np.float32(1), 2).dtype == np.float32
    assert tfn.jit(stats.norm.cdf)(0.0) == 0.5
