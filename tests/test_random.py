"""Distributions made of others: the values of JAX, moments, transforms, refusals.

``data/random.json`` and, with 64-bit defaults, ``data/random_x64.json`` hold what jax 0.10.2 gives;
`random/recorded.py` made them.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import tfn
import tfn.numpy as tnp
from tests.covering import cover, in_turn
from tests.random.recorded import cases
from tfn import random
from tfn.errors import ArgumentError, DTypeError, ShapeError

RECORDED = {
    name: json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text())
    for name in ("random", "random_x64")
}
CASES = dict(cases(random, tnp, tfn.grad))
KEY = random.key(3)


@pytest.mark.parametrize("name, record", in_turn(2, cover(CASES, RECORDED)))
def test_the_values_of_jax(name, record, monkeypatch):
    monkeypatch.setattr(tfn.config.config, "x64", record == "random_x64")
    monkeypatch.setattr(tfn.config.config, "key_reuse", True)
    shape, expected = RECORDED[record][name]
    actual = dict(cases(random, tnp, tfn.grad))[name]()
    assert list(actual.shape) == shape
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-6}.get(actual.dtype.name, 2e-6)
    np.testing.assert_allclose(
        np.asarray(actual, "float64").ravel(), expected, rtol=tolerance, atol=tolerance / 10
    )


def test_every_case_is_recorded():
    assert set(CASES) == set(RECORDED["random"]) == set(RECORDED["random_x64"])


# fmt: off
LAWS = {
    "cauchy": (lambda n: random.cauchy(KEY, n), scipy.stats.cauchy()),
    "logistic": (lambda n: random.logistic(KEY, n), scipy.stats.logistic()),
    "maxwell": (lambda n: random.maxwell(KEY, n), scipy.stats.maxwell()),
    "pareto": (lambda n: random.pareto(KEY, 2.5, n), scipy.stats.pareto(2.5)),
    "lognormal": (lambda n: random.lognormal(KEY, 0.5, n), scipy.stats.lognorm(0.5)),
    "rayleigh": (lambda n: random.rayleigh(KEY, 2.0, n), scipy.stats.rayleigh(scale=2)),
    "weibull": (lambda n: random.weibull_min(KEY, 2.0, 1.5, n),
                scipy.stats.weibull_min(1.5, scale=2)),
    "wald": (lambda n: random.wald(KEY, 1.5, n), scipy.stats.invgauss(1.5)),
    "triangular": (lambda n: random.triangular(KEY, -1.0, 0.0, 3.0, n),
                   scipy.stats.triang(0.25, -1, 4)),
    "gamma": (lambda n: random.gamma(KEY, 0.4, n), scipy.stats.gamma(0.4)),
    "beta": (lambda n: random.beta(KEY, 0.4, 2.0, n), scipy.stats.beta(0.4, 2)),
    "chisquare": (lambda n: random.chisquare(KEY, 3.0, n), scipy.stats.chi2(3)),
    "f": (lambda n: random.f(KEY, 3.0, 5.0, n), scipy.stats.f(3, 5)),
    "t": (lambda n: random.t(KEY, 3.0, n), scipy.stats.t(3)),
    "generalized": (lambda n: random.generalized_normal(KEY, 1.5, n), scipy.stats.gennorm(1.5)),
}
COUNTS = {
    "poisson 3": (lambda n: random.poisson(KEY, 3.0, n), scipy.stats.poisson(3)),
    "poisson 40": (lambda n: random.poisson(KEY, 40.0, n), scipy.stats.poisson(40)),
    "binomial 9": (lambda n: random.binomial(KEY, 9, 0.7, n), scipy.stats.binom(9, 0.7)),
    "binomial 90": (lambda n: random.binomial(KEY, 90, 0.3, n), scipy.stats.binom(90, 0.3)),
    "geometric": (lambda n: random.geometric(KEY, 0.3, n), scipy.stats.geom(0.3)),
}
# fmt: on
MANY = 4000


@pytest.mark.parametrize("name", in_turn(2, LAWS))
def test_laws(name):
    draw, law = LAWS[name]
    assert scipy.stats.kstest(np.asarray(draw((MANY,)), "d"), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_laws_of_counts(name):
    draw, law = COUNTS[name]
    actual = np.asarray(draw((MANY,)), "d")
    steps = np.arange(actual.min(), actual.max() + 1)
    distance = np.abs([(actual <= k).mean() - law.cdf(k) for k in steps]).max()
    assert distance < 1.95 / np.sqrt(MANY)


def test_dirichlet_and_ball():
    alpha = tnp.array([0.5, 1.0, 3.0])
    rows = random.dirichlet(KEY, alpha, (MANY,))
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(rows.mean(0), alpha / alpha.sum(), atol=0.02)
    assert random.dirichlet(KEY, tnp.ones((2, 1, 3)), (2, 5)).shape == (2, 5, 3)
    points = random.ball(KEY, 3, shape=(MANY,))
    radius = tnp.sqrt((points**2).sum(-1))
    assert scipy.stats.kstest(np.asarray(radius) ** 3, "uniform").pvalue > 1e-3


def test_multinomial_counts_add_up():
    p = tnp.array([0.1, 0.0, 0.9])
    rows = tfn.vmap(lambda k: random.multinomial(k, 20, p))(random.split(KEY, 200))
    assert (rows.sum(-1) == 20).all() and (rows[:, 1] == 0).all()
    np.testing.assert_allclose(rows.mean(0), 20 * p, atol=0.4)
    assert random.multinomial(KEY, tnp.ones((4, 1)), p[:2] + 0.1, shape=(4, 3, 2)).shape == (
        4,
        3,
        2,
    )


def test_multivariate_normal():
    cov = tnp.array([[2.0, 0.5], [0.5, 1.0]])
    for method in ("cholesky", "eigh", "svd"):
        x = random.multivariate_normal(KEY, tnp.array([1.0, -2.0]), cov, (MANY,), method=method)
        np.testing.assert_allclose(x.mean(0), [1, -2], atol=0.1)
        np.testing.assert_allclose(np.cov(np.asarray(x).T), cov, atol=0.2)
    wide = random.multivariate_normal(KEY, tnp.zeros((4, 1, 2)), tnp.stack([cov] * 3))
    assert wide.shape == (4, 3, 2)
    with pytest.raises(ShapeError, match=r"f32\[2\], f32\[3,3\]"):
        random.multivariate_normal(KEY, tnp.zeros(2), tnp.eye(3))
    with pytest.raises(ArgumentError, match="'svd'"):
        random.multivariate_normal(KEY, tnp.zeros(2), cov, method="lu")


@pytest.mark.parametrize(
    "draw",
    [
        lambda k: random.gamma(k, 2.0, (3,)),
        lambda k: random.poisson(k, tnp.array([2.0, 30.0])),
        lambda k: random.binomial(k, 20, tnp.array([0.1, 0.6])),
        lambda k: random.t(k, 3.0),
        lambda k: random.beta(k, 0.5, 0.5),
        lambda k: random.double_sided_maxwell(k, 0.0, 1.0, (2,)),
        lambda k: random.wald(k, 1.0, (2,)),
        lambda k: random.orthogonal(k, 2),
    ],
)
def test_values_do_not_depend_on_being_mapped_or_compiled(draw):
    keys = random.split(KEY, 3)
    one_by_one = tnp.stack([draw(k) for k in keys])
    np.testing.assert_allclose(tfn.vmap(draw)(keys), one_by_one, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tfn.jit(draw)(keys[1]), one_by_one[1], rtol=1e-5, atol=1e-6)


def test_gamma_moves_with_its_parameter():
    def place(a):
        return scipy.stats.gamma(a).cdf(np.asarray(random.gamma(KEY, np.float64(a), (), "float64")))

    x = float(random.gamma(KEY, np.float64(2.5), (), "float64"))
    slope = float(tfn.grad(lambda a: random.gamma(KEY, a, (), "float64"))(np.float64(2.5)))
    h = 1e-5
    moved = scipy.stats.gamma(2.5 + h).ppf(scipy.stats.gamma(2.5).cdf(x))
    np.testing.assert_allclose(slope, (moved - x) / h, rtol=1e-4)
    mean = tfn.jit(tfn.grad(lambda a: random.gamma(KEY, a, (MANY,)).mean()))
    np.testing.assert_allclose(mean(3.0), 1, atol=0.05)
    assert np.isfinite(np.asarray(tfn.grad(lambda a: random.loggamma(KEY, a))(1e-3)))


def test_gradients_reach_parameters():
    for draw in (
        lambda s: random.lognormal(KEY, s),
        lambda s: random.rayleigh(KEY, s),
        lambda s: random.pareto(KEY, s),
        lambda s: random.weibull_min(KEY, s, 2.0),
        lambda s: random.wald(KEY, s),
        lambda s: random.triangular(KEY, 0.0, s, 3.0),
        lambda s: random.double_sided_maxwell(KEY, 0.0, s),
        lambda s: random.chisquare(KEY, s),
    ):
        actual = float(tfn.grad(draw)(np.float32(1.3)))
        assert np.isfinite(actual) and actual != 0


def test_shapes_and_dtypes():
    assert random.cauchy(KEY).shape == () and random.maxwell(KEY, 4).shape == (4,)
    assert random.gamma(KEY, tnp.ones((2, 3))).shape == (2, 3)
    assert random.gamma(KEY, 1.0, (0, 3)).shape == (0, 3)
    assert random.poisson(KEY, 3.0, (0,)).shape == (0,)
    assert random.poisson(KEY, 3.0, dtype="int64").dtype == "int64"
    assert random.weibull_min(KEY, tnp.ones(3), 1.0).shape == (3,)
    assert random.normal(KEY, dtype=None).dtype == "float32"
    assert random.binomial(KEY, 3, 0.5, dtype="float64").dtype == "float64"
    assert random.ball(KEY, 0, shape=(2,)).shape == (2, 0)


def test_refusals():
    for draw in (random.cauchy, random.logistic, random.maxwell):
        with pytest.raises(DTypeError, match="floating"):
            draw(KEY, (2,), "int32")
    with pytest.raises(DTypeError, match="integer"):
        random.poisson(KEY, 1.0, dtype="float32")
    with pytest.raises(ShapeError, match="incompatible shapes"):
        random.gamma(KEY, tnp.ones(3), (2,))
    with pytest.raises(ShapeError, match="broadcast to its shape"):
        random.gamma(KEY, tnp.ones(3), (1,))
    with pytest.raises(ShapeError, match="needs at least one axis"):
        random.dirichlet(KEY, 1.0)
    with pytest.raises(ShapeError, match="needs at least one axis"):
        random.multinomial(KEY, 1, 1.0)
    for mode in (lambda m: random.gumbel(KEY, mode=m), lambda m: random.bernoulli(KEY, mode=m)):
        with pytest.raises(ArgumentError, match="knows no mode 'most'"):
            mode("most")
    with pytest.raises(ArgumentError, match="ball needs d >= 0"):
        random.ball(KEY, -1)
