"""The largest elements, one after the other or by sorting, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.covering import covering
from tfn import lax
from tfn.errors import ArgumentError
from tfn.lower.graph.partial_sort import MIN_ELEMENTS_TO_SELECT


def by_sorting(x: np.ndarray, k: int, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """NaN first, equal elements in their order."""
    wide = x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(object)
    lost = np.zeros(x.shape) if x.dtype.kind in "iub" else np.where(np.isnan(wide), -1, 0)
    number = np.broadcast_to(
        np.arange(x.shape[axis]).reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)]),
        x.shape,
    )
    flat = np.where(lost < 0, 0, wide)
    order = np.lexsort((number, -flat.astype(np.float64), lost), axis=axis)
    places = np.take(order, range(k), axis)
    return np.take_along_axis(x, places, axis), places


def test_top_k() -> None:
    x = np.array([[1, 3, 3, 2], [np.nan, 5, 1, 5]], np.float32)
    values, places = lax.top_k(x, 3)
    np.testing.assert_array_equal(values, [[3, 3, 2], [np.nan, 5, 5]])
    np.testing.assert_array_equal(places, [[1, 2, 3], [0, 1, 3]])
    values, places = lax.top_k(np.array([-(2**31), 7, -1], np.int32), 3)
    assert (values.tolist(), places.tolist()) == ([7, -1, -(2**31)], [1, 2, 0])
    values, _ = lax.top_k(x, 1, axis=0)
    np.testing.assert_array_equal(values, [[np.nan, 5, 3, 5]])
    assert lax.top_k(x, 0)[0].shape == (2, 0)
    assert [v.shape for v in lax.top_k(x[:, :0], 0)] == [(2, 0)] * 2
    assert tfn.grad(lambda x: lax.top_k(x, 0)[0].sum())(x[0, :0]).shape == (0,)
    with pytest.raises(ArgumentError, match="0 <= k <= 4"):
        lax.top_k(x, 5)


@covering(
    "dtype, along",
    ["float32", "float16", "bfloat16", "float64", "int8", "uint16", "int32", "uint32", "int64"],
    [((MIN_ELEMENTS_TO_SELECT,), 0), ((3, 101), 1), ((1300, 4), 0)],
)
def test_the_largest_of_many(dtype: str, along: tuple[tuple[int, ...], int]) -> None:
    """With equal ones, infinities, zeros of both signs, NaN, and the limits of integers."""
    shape, axis = along
    rng = np.random.default_rng(0)
    kind = tfn.dtypes.canonical(dtype)
    x = rng.integers(-6, 7, shape).astype(np.float64)
    if "float" in dtype:
        x = np.where(rng.random(shape) < 0.2, rng.choice([np.inf, -np.inf, -0.0], shape), x)
        x = np.where(rng.random(shape) < 0.02, np.nan, x).astype(kind)
    else:
        ends = np.iinfo(dtype)
        x = np.abs(x).astype(kind) if ends.min == 0 else x.astype(kind)
        x = np.where(rng.random(shape) < 0.1, rng.choice([ends.min, ends.max], shape), x)
        x = x.astype(kind)
    for k in (1, 5, 18, 60):
        values, places = tfn.jit(lax.top_k, static_argnums=1, static_argnames="axis")(
            x, k, axis=axis
        )
        want, where = by_sorting(x, k, axis)
        np.testing.assert_array_equal(np.asarray(places), where)
        plain = np.float32 if dtype == "bfloat16" else kind  # NumPy does not know its NaN
        np.testing.assert_array_equal(np.asarray(values).astype(plain), want.astype(plain))
        assert values.dtype == kind and places.dtype == np.int32


@pytest.mark.parametrize("fill", [-np.inf, np.nan, np.inf, 0.0])
def test_where_all_are_equal_the_first_come_first(fill: float) -> None:
    x = np.full((2, 80), fill, np.float32)
    values, places = lax.top_k(x, 9)
    np.testing.assert_array_equal(places, [range(9)] * 2)
    np.testing.assert_array_equal(values, x[:, :9])


def test_few_of_many_are_mapped_and_differentiated() -> None:
    x = np.random.default_rng(1).normal(size=(3, 90)).astype(np.float32)
    one = tfn.vmap(lambda x: lax.top_k(x, 4)[0])(x)
    np.testing.assert_array_equal(one, lax.top_k(x, 4)[0])
    slope = tfn.grad(lambda x: (lax.top_k(x, 4)[0] * np.arange(1, 5)).sum())(x)
    want = np.zeros_like(x)
    np.put_along_axis(want, np.asarray(lax.top_k(x, 4)[1]), np.float32([1, 2, 3, 4]), 1)
    np.testing.assert_array_equal(slope, want)
