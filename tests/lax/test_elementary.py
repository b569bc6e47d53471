"""Functions of real numbers against NumPy in 64 bits."""

import numpy as np
import pytest

from tfn import lax

F = np.array([-2.5, -1.0, -0.0, 0.0, 0.3, 1.0, 2.5, 100.0], np.float32)
EVERYWHERE = {
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "cbrt": np.cbrt,
    "square": np.square,
}
POSITIVE = {
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
INSIDE = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}
CASES = [
    *((name, f, F) for name, f in EVERYWHERE.items()),
    *((name, f, np.array([0.1, 1, 7], np.float32)) for name, f in POSITIVE.items()),
    *((name, f, np.array([-0.9, 0, 0.5], np.float32)) for name, f in INSIDE.items()),
    ("acosh", np.arccosh, np.array([1, 3, 9], np.float32)),
]


@pytest.mark.parametrize(("name", "reference", "x"), CASES, ids=[case[0] for case in CASES])
def test_functions(name: str, reference: np.ufunc, x: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        expected = reference(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(getattr(lax, name)(x), expected, rtol=1e-5, atol=1e-6)


def test_special_functions() -> None:
    x = np.array([-0.5, 0.0, 0.7], np.float32)
    np.testing.assert_allclose(lax.erf(x), [-0.5204999, 0.0, 0.6778012], rtol=1e-6)
    np.testing.assert_allclose(lax.erfc(x), [1.5204999, 1.0, 0.3221988], rtol=1e-6)
    np.testing.assert_allclose(lax.erf_inv(lax.erf(x)), x, rtol=1e-5)
    np.testing.assert_allclose(lax.lgamma(np.float32(5)), np.log(24), rtol=1e-6)
    np.testing.assert_allclose(lax.digamma(np.float32(1)), -0.5772157, rtol=1e-6)
    np.testing.assert_allclose(lax.logistic(x), 1 / (1 + np.exp(-x)), rtol=1e-6)
