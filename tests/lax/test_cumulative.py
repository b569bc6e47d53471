"""Running reductions against NumPy: dtypes, axes, both directions, NaN, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import AxisError, DTypeError

X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype("float32")
FUNCTIONS = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumlogsumexp": lambda x, axis: np.log(np.cumsum(np.exp(x), axis)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, axis: int, reverse: bool) -> None:
    actual = tfn.jit(lambda x: getattr(lax, name)(x, axis, reverse))(X)
    turned = np.flip(X, axis) if reverse else X
    expected = FUNCTIONS[name](turned, axis=axis)
    expected = np.flip(expected, axis) if reverse else expected
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    weights = np.random.default_rng(1).normal(size=X.shape)
    f = lambda x: (getattr(lax, name)(x, 1) * weights).sum()
    direction = np.random.default_rng(2).normal(size=X.shape)
    x, h = X.astype("float64"), 1e-6
    expected = (float(f(x + h * direction)) - float(f(x - h * direction))) / (2 * h)
    actual = float((np.asarray(tfn.grad(f)(x)) * direction).sum())
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_dtypes_stay() -> None:
    assert lax.cumsum(np.full(3, 100, "int8")).tolist() == [100, -56, 44]
    half = lax.cumsum(np.full(4096, 1, "float16"))
    assert half.dtype == "float16" and half[-1] == 4096
    assert lax.cumsum(np.array([1j, 2.0], "complex64")).tolist() == [1j, 2 + 1j]
    assert lax.cummax(np.array([1.0, np.nan, 5.0])).tolist()[0] == 1
    assert np.isnan(np.asarray(lax.cummax(np.array([1.0, np.nan, 5.0])))[1:]).all()
    assert lax.cumsum(np.zeros((0, 2))).shape == (0, 2)
    pairs = np.array([1j, 2.0, 1 + 5j, 2j], "complex64")
    assert lax.cummax(pairs).tolist() == [1j, 2, 2, 2]
    assert lax.cummin(pairs, reverse=True).tolist() == [1j, 2j, 2j, 2j]


def test_refusals() -> None:
    with pytest.raises(DTypeError, match=r"bool\[2\]"):
        lax.cumsum(np.array([True, False]))
    with pytest.raises(AxisError):
        lax.cumsum(X, 3)


def test_weak_dtypes_stay_weak():
    """As in JAX, where `jax.numpy.cumsum` has a dtype of its own."""
    x = tnp.broadcast_to(tnp.asarray(1.0), (3,))
    assert x.weak_type and lax.cumsum(x).weak_type and lax.cummax(x).weak_type
    assert not tnp.cumsum(x).weak_type and not tnp.cumprod(x).weak_type
    assert lax.dynamic_slice(x, (tnp.asarray(1),), (2,)).weak_type
    assert tfn.eval_shape(lax.stop_gradient, tnp.asarray(1.0)).weak_type
