"""Functions that are limits: values and derivatives against scipy, edges, dtypes, transforms."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as sp

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tfn import lax
from tfn.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)
A = np.exp(RNG.uniform(-5, 7, 200))
X = A * np.exp(RNG.normal(0, 1, 200))
B = np.exp(RNG.uniform(-3, 5, 200))
P = RNG.beta(A, B).clip(1e-3, 1 - 1e-3)
S = RNG.uniform(1.05, 30, 200)

CASES = [
    (lax.igamma, sp.gammainc, (A, X)),
    (lax.igammac, sp.gammaincc, (A, X)),
    (lax.betainc, sp.betainc, (A, B, P)),
    (lax.zeta, sp.zeta, (S, B)),
    (lax.polygamma, sp.polygamma, (np.floor(S / 6), B)),
]


@pytest.mark.parametrize(
    ("ours", "theirs", "xs"), in_turn(2, CASES), ids=lambda f: getattr(f, "__name__", "")
)
def test_values(ours, theirs, xs):
    np.testing.assert_allclose(ours(*xs), theirs(*xs), rtol=1e-10, atol=1e-12)
    narrow = [x.astype("float32") for x in xs]
    expected = theirs(*[x.astype("float64") for x in narrow])
    actual = ours(*narrow)
    assert actual.dtype == "float32"
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=3e-4)
    half = [tnp.asarray(x[:9], "bfloat16") for x in xs]
    assert tfn.jit(ours)(*half).dtype == "bfloat16"


def slope(f, xs, i, h=1e-6):
    step = h * np.where(np.abs(xs[i]) < 1e-7, 1e-3, np.abs(xs[i]))
    moved = [[x + s * step if j == i else x for j, x in enumerate(xs)] for s in (1, -1)]
    return (f(*moved[0]) - f(*moved[1])) / (2 * step)


@pytest.mark.parametrize(
    ("ours", "theirs", "xs", "by"),
    in_turn(
        2,
        [
            (*case, i)
            for case in CASES
            for i in range(len(case[2]))
            if case[0] is not lax.zeta and not (case[0] is lax.polygamma and i == 0)
        ],
    ),
    ids=lambda f: getattr(f, "__name__", None),
)
def test_gradients(ours, theirs, xs, by):
    actual = tfn.grad(lambda *v: ours(*v).sum(), by)(*xs)
    expected = slope(theirs, xs, by)
    np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=1e-4 * np.abs(expected).max())


def test_random_gamma_grad_keeps_the_quantile():
    kept = (A > 1e-2) & (np.abs(np.log(X / A)) < 1)
    a, x = A[kept], X[kept]
    density = np.exp((a - 1) * np.log(x) - x - sp.gammaln(a))
    place = slope(sp.gammainc, (a, x), 0)
    good = density > 1e-6
    np.testing.assert_allclose(
        np.asarray(lax.random_gamma_grad(a, x))[good],
        (-place / density)[good],
        rtol=1e-3,
        atol=1e-4,
    )


def test_edges():
    a = np.array([1.0, -1, 1, 2, np.nan, 1])
    x = np.array([0.0, 1, -1, np.inf, 1, np.nan])
    np.testing.assert_array_equal(lax.igamma(a, x), [0, np.nan, np.nan, 1, np.nan, np.nan])
    np.testing.assert_array_equal(lax.igammac(a, x), [1, np.nan, np.nan, 0, np.nan, np.nan])
    x = np.array([0.0, 1, -0.5, 1.5, np.nan])
    np.testing.assert_array_equal(lax.betainc(2.0, 3.0, x), [0, 1, np.nan, np.nan, np.nan])
    assert lax.igamma(np.zeros(0), np.zeros(0)).shape == (0,)
    assert lax.zeta(1.0, 2.0) == np.inf and np.isnan(float(lax.zeta(0.5, 2.0)))


def test_nothing_is_promoted():
    with pytest.raises(DTypeError, match=r"igamma.*\n.*f32\[3\], f64\[3\]"):
        lax.igamma(np.ones(3, "float32"), np.ones(3))
    with pytest.raises(DTypeError, match="floating"):
        lax.zeta(np.ones(3, "int32"), np.ones(3, "int32"))
    with pytest.raises(ShapeError, match=r"f64\[3\], f64\[4\]"):
        lax.igammac(np.ones(3), np.ones(4))


def test_transforms():
    x = tnp.linspace(0.1, 5.0, 7)
    each = tfn.vmap(lambda v: lax.igamma(2.5, v))(x)
    np.testing.assert_allclose(each, lax.igamma(2.5, x), rtol=1e-6)
    f = lambda v: lax.igamma(v, 2.0 * v).sum()
    np.testing.assert_allclose(tfn.jit(tfn.grad(f))(x), tfn.grad(f)(x), rtol=1e-5)
    twice = tfn.vmap(tfn.grad(tfn.grad(lambda v: lax.igamma(2.5, v))))(x)
    density = lambda v: np.exp(1.5 * np.log(v) - v - sp.gammaln(2.5))
    np.testing.assert_allclose(twice, slope(density, (np.asarray(x, "d"),), 0), rtol=1e-4)
