"""Names of ``jax.lax`` that mean little here: what they still mean."""

from __future__ import annotations

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn import lax
from tfn.compat import lax as extras
from tfn.errors import ArgumentError


def test_hints_are_accepted() -> None:
    x = tnp.ones((2, 2))
    for hint in (extras.DotAlgorithmPreset.BF16_BF16_F32, extras.DotAlgorithm(*["float32"] * 3)):
        assert lax.dot(x, x, precision=hint).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert extras.Tolerance(ulps=3).ulps == 3


def test_small_functions() -> None:
    assert extras.dce_sink(1.0) is None
    assert extras.index_take(np.ones((2, 3)), [np.array([0, 1])], (1,)).shape == (2, 2)


def test_functions_of_elements_in_their_place() -> None:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    x = tnp.asarray([1.0, 2.0, 3.0])
    at = tnp.asarray([[2], [0], [2], [9]])
    out = extras.scatter_apply(x, at, lambda y: y + 10, numbers, update_shape=(4,))
    assert out.tolist() == [11.0, 2.0, 23.0]


def test_scaled_products() -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 3, 8)), random.standard_normal((2, 8, 5))
    sx, sy = random.standard_normal((2, 3, 2)), random.standard_normal((2, 4, 5))
    expected = (x * np.repeat(sx, 4, 2)) @ (y * np.repeat(sy, 2, 1))
    out = extras.scaled_dot(x, y, lhs_scale=sx, rhs_scale=sy, preferred_element_type="float64")
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert extras.scaled_dot(x, y).dtype == "bfloat16"
    with pytest.raises(ArgumentError, match="factor for each block"):
        extras.scaled_dot(x, y, lhs_scale=sx[..., :1].repeat(3, 2))
