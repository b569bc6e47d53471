"""Contractions against einsum."""

import numpy as np
import pytest

from tfn import lax
from tfn.errors import DTypeError, ShapeError

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_dot_general() -> None:
    a, b = normal(3, 4, 5), normal(5, 3, 6)
    out = lax.dot_general(a, b, (((2,), (0,)), ((0,), (1,))))
    np.testing.assert_allclose(out, np.einsum("bij,jbk->bik", a, b), rtol=1e-5, atol=1e-5)
    wide = lax.dot_general(
        a.astype(np.float16),
        b.astype(np.float16),
        (((2,), (0,)), ((0,), (1,))),
        preferred_element_type=np.float32,
    )
    assert wide.dtype == np.float32


def test_dot() -> None:
    a, b = normal(3, 4), normal(4, 5)
    np.testing.assert_allclose(lax.dot(a, b), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lax.dot(a, b[:, 0]), a @ b[:, 0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lax.dot(a[0], b[:, 0]), a[0] @ b[:, 0], rtol=1e-5, atol=1e-5)
    x, y = normal(2, 3, 4), normal(2, 4, 5)
    np.testing.assert_allclose(lax.batch_matmul(x, y), x @ y, rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="vectors or matrices"):
        lax.dot(x, y)
    with pytest.raises(ShapeError, match="4 and 3"):
        lax.dot(a, a)
    with pytest.raises(DTypeError):
        lax.dot(a, b.astype(np.float64))
