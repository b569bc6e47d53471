"""Activations against their definitions: far out, at their kinks, with NaN, and their gradients."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import tfn
from tfn import nn
from tfn import numpy as jnp

X = np.array([-1000, -50, -3, -0.5, -0.0, 0.0, 0.3, 2.5, 6.5, 90], np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -x))


DEFINITIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip((x + 3) / 6, 0, 1),
    "hard_silu": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_activations(name: str) -> None:
    out = getattr(nn, name)(X)
    expected = DEFINITIONS[name](X.astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    slopes = np.asarray(tfn.grad(lambda x: getattr(nn, name)(x).sum())(jnp.asarray(X)))
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", [n for n in DEFINITIONS if n != "hard_tanh"])
def test_nan_passes(name: str) -> None:
    assert math.isnan(getattr(nn, name)(np.float32(np.nan)).item())


def test_relu_has_no_slope_at_zero() -> None:
    slope = tfn.grad(nn.relu)
    assert [slope(x).item() for x in (-1.0, 0.0, 1.0)] == [0, 0, 1]
    assert nn.relu(np.array([-1, 2])).tolist() == [0, 2]


def probability(x: mpmath.mpf) -> mpmath.mpf:
    cube = mpmath.mpf("0.044715") * x**3
    return (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + cube))) / 2


@pytest.mark.parametrize(
    "function, meaning",
    [
        (nn.gelu, lambda x: x * probability(x)),
        (nn.silu, lambda x: x / (1 + mpmath.exp(-x))),
    ],
)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_slopes_have_digits_in_both_tails(function: Any, meaning: Any, order: int) -> None:
    derivative = function
    for _ in range(order):
        derivative = tfn.grad(derivative)
    points = [-30.5, -9, -5, -1, -1e-4, 0, 1e-4, 1, 3, 5, 9, 31, 700]
    x = np.array(points, np.float32)
    with mpmath.workdps(400):
        wanted = [float(mpmath.diff(meaning, mpmath.mpf(float(v)), order)) for v in x]
    found = tfn.vmap(derivative)(jnp.asarray(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-36)
    ends = tfn.vmap(derivative)(jnp.array([-np.inf, np.inf, -3e38, 3e38]))
    limits = [[0, np.inf, 0, 3e38], [0, 1, 0, 1], [0, 0, 0, 0]]
    np.testing.assert_allclose(ends, np.array(limits[order], np.float32))


def test_gelu() -> None:
    x = np.array([-4, -1, 0, 0.5, 3], np.float32)
    exact = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    np.testing.assert_allclose(nn.gelu(x, approximate=False), exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.gelu(x), exact, atol=1e-3)


def test_selu_and_glu() -> None:
    np.testing.assert_allclose(nn.selu(np.float32(2)), 2.1014020, rtol=1e-6)
    np.testing.assert_allclose(nn.selu(np.float32(-1e3)), -1.7580993, rtol=1e-6)
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_allclose(nn.glu(x), x[:3] * sigmoid(x[3:]), rtol=1e-6)


LOGITS = np.random.default_rng(3).normal(size=(4, 7)).astype(np.float32) * 3


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_softmax(axis: int) -> None:
    powers = np.exp(LOGITS.astype(np.float64))
    expected = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(nn.softmax(LOGITS, axis), expected, rtol=1e-5)
    np.testing.assert_allclose(nn.log_softmax(LOGITS, axis), np.log(expected), rtol=1e-5, atol=1e-5)
    total = np.log(powers.sum(axis))
    np.testing.assert_allclose(nn.logsumexp(LOGITS, axis), total, rtol=1e-5)
    kept = nn.logsumexp(LOGITS, axis, keepdims=True)
    assert kept.shape == powers.sum(axis, keepdims=True).shape


def test_softmax_over_no_elements() -> None:
    x = np.zeros((3, 0), np.float32)
    np.testing.assert_array_equal(nn.logsumexp(x, -1), np.full(3, -np.inf))
    np.testing.assert_array_equal(nn.logsumexp(x, 0), np.zeros(0))
    assert nn.softmax(x).shape == nn.log_softmax(x).shape == nn.log_softmax(x, 0).shape == (3, 0)


def test_softmax_far_out() -> None:
    x = np.array([1e4, -1e4, 0], np.float32)
    np.testing.assert_array_equal(nn.softmax(x), [1, 0, 0])
    np.testing.assert_array_equal(nn.log_softmax(x), [0, -2e4, -1e4])
    assert nn.logsumexp(np.full(3, -np.inf, np.float32)).item() == -np.inf
    assert nn.logsumexp(np.array([np.inf, 0], np.float32)).item() == np.inf


def test_softmax_of_some() -> None:
    where = np.array([[True, False, True], [False, False, False]])
    x = np.array([[0.0, 50.0, 0.0], [1, 2, 3]], np.float32)
    np.testing.assert_array_equal(nn.softmax(x, where=where), [[0.5, 0, 0.5], [0, 0, 0]])
    out = np.asarray(nn.log_softmax(x, where=where))
    np.testing.assert_allclose(out, [[np.log(0.5), -np.inf, np.log(0.5)], [-np.inf] * 3], rtol=1e-6)


def test_the_gradient_of_softmax_takes_its_powers_once() -> None:
    slope = tfn.grad(lambda x, ct: (nn.softmax(x) * ct).sum())
    rows = tfn.ShapeDtypeStruct((3, 7), "float32")
    text = str(tfn.make_jaxpr(slope)(rows, rows))
    assert (text.count(" exp "), text.count(" div ")) == (1, 1), text


def test_gradient_of_softmax() -> None:
    ct = np.arange(7, dtype=np.float32)
    slope = tfn.grad(lambda x: (nn.softmax(x) * ct).sum())(jnp.asarray(LOGITS[0]))
    p = np.asarray(nn.softmax(LOGITS[0]))
    np.testing.assert_allclose(slope, p * (ct - (p * ct).sum()), rtol=1e-4, atol=1e-6)
    slope = tfn.grad(lambda x: (nn.log_softmax(x) * ct).sum())(jnp.asarray(LOGITS[0]))
    np.testing.assert_allclose(slope, ct - p * ct.sum(), rtol=1e-4, atol=1e-5)


def test_standardize() -> None:
    out = np.asarray(nn.standardize(LOGITS, axis=0, epsilon=0.0))
    np.testing.assert_allclose(out.mean(0), np.zeros(7), atol=1e-6)
    np.testing.assert_allclose(out.std(0), np.ones(7), rtol=1e-5)
    given = nn.standardize(LOGITS, mean=1.0, variance=4.0, epsilon=0.0)
    np.testing.assert_allclose(given, (LOGITS - 1) / 2, rtol=1e-5)
    where = np.arange(7) < 3
    some = nn.standardize(LOGITS, where=where)
    np.testing.assert_allclose(some[:, :3], nn.standardize(LOGITS[:, :3]), rtol=1e-4, atol=1e-5)


def test_one_hot() -> None:
    x = np.array([[0, 3], [-1, 2]])
    expected = (x[..., None] == np.arange(3)).astype(np.float32)
    np.testing.assert_array_equal(nn.one_hot(x, 3), expected)
    first = nn.one_hot(x, 3, dtype=np.int8, axis=0)
    assert first.dtype == np.int8
    np.testing.assert_array_equal(first, np.moveaxis(expected, -1, 0))
    assert nn.one_hot(np.array(1), 0).shape == (0,)


def test_functions_are_traced() -> None:
    for function in (nn.relu, nn.gelu, nn.softmax, nn.log_softmax, nn.silu, nn.standardize):
        x = jnp.asarray(LOGITS)
        np.testing.assert_allclose(tfn.jit(function)(x), function(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(tfn.vmap(function)(x), function(x), rtol=1e-5, atol=1e-6)


def test_log1mexp_is_accurate_on_both_sides() -> None:
    x = np.float32([1e-6, 1e-3, 0.5, math.log(2), 1, 30, 80])
    expected = [
        math.log(-math.expm1(-v)) if v < 1 else math.log1p(-math.exp(-v)) for v in x.tolist()
    ]
    np.testing.assert_allclose(nn.log1mexp(x), expected, rtol=1e-5)
    slopes = tfn.grad(lambda v: nn.log1mexp(v).sum())(x)
    np.testing.assert_allclose(slopes, 1 / np.expm1(x.astype("d")), rtol=1e-5)


def test_logsumexp_with_factors_and_signs() -> None:
    x, b = np.float32([[1000, 999], [3, 1]]), np.float32([[1, -1], [-2, 0]])
    out, sign = nn.logsumexp(x, 1, b=b, return_sign=True)
    np.testing.assert_allclose(out, [1000 + math.log(1 - math.exp(-1)), 3 + math.log(2)], rtol=1e-6)
    assert sign.tolist() == [1, -1]
    assert nn.logsumexp(x, 1, b=np.abs(b), keepdims=True).shape == (2, 1)
    assert math.isnan(nn.logsumexp(np.float32([0, 1]), b=np.float32([1, -1])).item())


def test_logmeanexp() -> None:
    x = np.float32([[0, math.log(3)], [500, 500]])
    np.testing.assert_allclose(nn.logmeanexp(x, -1), [math.log(2), 500], rtol=1e-6)
    kept = np.array([[True, False], [True, True]])
    np.testing.assert_allclose(nn.logmeanexp(x, -1, where=kept), [0, 500], atol=1e-6)
    assert nn.logmeanexp(x, keepdims=True).shape == (1, 1)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_long_axes_of_half_floats_are_added_up_in_float32(kind):
    x = jnp.zeros(70_000, kind)
    close = {"rel": 0.01}
    assert nn.softmax(x)[0].item() == pytest.approx(1 / 70_000, **close)
    assert nn.logsumexp(x).item() == pytest.approx(math.log(70_000), **close)
    assert nn.log_softmax(x)[0].item() == pytest.approx(-math.log(70_000), **close)
    assert nn.logmeanexp(x + 1).item() == pytest.approx(1, **close)
    slope = tfn.grad(lambda x: nn.softmax(x)[0].astype("float32"))(x)
    assert slope.dtype == kind and slope[0].item() == pytest.approx(1 / 70_000, **close)


COMPLEX = np.array([0.3 + 0.4j, -1.2 + 2j, 2 - 0.5j], np.complex64)
# fmt: off
OF_COMPLEX = {
    "relu6": (0.3 + 0.4j, 0j, 2 - 0.5j),
    "sigmoid": (0.57743 + 0.09902j, -0.04122 + 0.32603j, 0.89084 - 0.05166j),
    "softplus": (0.83468 + 0.23017j, -0.08716 + 0.30345j, 2.11391 - 0.44207j),
    "silu": (0.13362 + 0.26068j, -0.6026 - 0.47367j, 1.75586 - 0.54875j),
    "log_sigmoid": (-0.53468 + 0.16983j, -1.11284 + 1.69655j, -0.11391 - 0.05793j),
    "leaky_relu": (0.3 + 0.4j, -0.012 + 0.02j, 2 - 0.5j),
    "hard_sigmoid": (0.55 + 0.06667j, 0.3 + 0.33333j, 0.83333 - 0.08333j),
    "hard_silu": (0.13833 + 0.24j, -1.02667 + 0.2j, 1.625 - 0.58333j),
    "hard_tanh": (0.3 + 0.4j, -1 + 0j, 1 + 0j),
    "elu": (0.3 + 0.4j, -1.12534 + 0.27388j, 2 - 0.5j),
    "selu": (0.31521 + 0.42028j, -1.97846 + 0.4815j, 2.1014 - 0.52535j),
    "gelu": (0.12571 + 0.29788j, 0.84656 - 1.02474j, 1.9692 - 0.5429j),
    "squareplus": (1.14167 + 0.23025j, 0.29801 + 0.33185j, 2.4033 - 0.42815j),
    "mish": (0.16199 + 0.31756j, -0.50659 - 0.56341j, 1.95179 - 0.535j),
    "soft_sign": (0.2 + 0.26667j, -0.3601 + 0.60017j, 0.65326 - 0.16332j),
    "sparse_plus": (0.3825 + 0.26j, 0j, 2 - 0.5j),
    "log_softmax": (-1.78966 + 0.74626j, -3.28966 + 2.34626j, -0.08966 - 0.15374j),
    "softmax": (0.12263 + 0.11339j, -0.02609 + 0.02661j, 0.90346 - 0.14j),
}
# fmt: on
"""What jax.nn 0.10 gives for `COMPLEX`."""


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_complex_numbers_keep_both_parts(name: str) -> None:
    got = getattr(nn, name)(jnp.asarray(COMPLEX))
    assert got.dtype == np.complex64
    np.testing.assert_allclose(got, OF_COMPLEX[name], atol=2e-5)


def test_sums_of_exponentials_of_complex_numbers() -> None:
    want = np.log(np.exp(COMPLEX).sum())
    np.testing.assert_allclose(nn.logsumexp(COMPLEX), want, rtol=1e-6)
    size, sign = nn.logsumexp(COMPLEX, return_sign=True)
    np.testing.assert_allclose(size, want.real, rtol=1e-6)
    np.testing.assert_allclose(sign, np.exp(1j * want.imag), rtol=1e-6)
    moved = COMPLEX - COMPLEX.mean()
    np.testing.assert_allclose(
        nn.standardize(COMPLEX, epsilon=0.0), moved / COMPLEX.std(), rtol=1e-5
    )
