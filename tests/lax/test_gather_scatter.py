"""Gather and scatter against NumPy's indexing."""

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.errors import ArgumentError, ShapeError

RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(5, 6, 7)).astype(np.float32)
ROWS = np.array([[4], [0], [-1], [9]])
TAKE_ROWS = lax.GatherDimensionNumbers((1, 2), (0,), (0,))
SET_ROWS = lax.ScatterDimensionNumbers((1, 2), (0,), (0,))


def test_rows() -> None:
    out = lax.gather(X, ROWS, TAKE_ROWS, (1, 6, 7), mode="clip")
    np.testing.assert_array_equal(out, X[[4, 0, 0, 4]])
    out = lax.gather(X, ROWS, TAKE_ROWS, (1, 6, 7), mode="fill", fill_value=7.0)
    np.testing.assert_array_equal(out[:2], X[[4, 0]])
    assert (np.asarray(out)[2:] == 7).all()


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        *((np.float32, np.nan), (np.int8, -128), (np.uint16, 65535), (np.bool_, True)),
        *((np.complex64, np.nan), (np.complex128, np.nan)),
    ],
)
def test_fill_value_of_each_dtype(dtype: type, fill: object) -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    out = lax.gather(np.zeros(3, dtype), np.array([[1], [3]]), numbers, (1,), mode="fill")
    np.testing.assert_array_equal(out, np.array([0, fill], dtype))


def test_windows_in_other_orders() -> None:
    at = np.array([[2, 1], [0, 3], [6, 4]])  # of axes 2 and 0
    numbers = lax.GatherDimensionNumbers((0, 2), (0,), (2, 0))
    out = lax.gather(X, at, numbers, (1, 4, 3), mode="clip")
    assert out.shape == (4, 3, 3)
    for i, (k, row) in enumerate(at):
        k = min(k, 4)
        np.testing.assert_array_equal(out[:, i], X[row, :4, k : k + 3])


def test_axes_in_step() -> None:
    at = RANDOM.integers(0, 6, (5, 3, 1))
    numbers = lax.GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,))
    out = lax.gather(X, at, numbers, (1, 1, 7), mode="clip")
    np.testing.assert_array_equal(out, np.take_along_axis(X, at, 1))


@pytest.mark.parametrize(
    ("function", "ufunc"),
    [
        (lax.scatter_add, np.add),
        (lax.scatter_mul, np.multiply),
        (lax.scatter_min, np.minimum),
        (lax.scatter_max, np.maximum),
    ],
)
def test_scatters_accumulate(function: object, ufunc: np.ufunc) -> None:
    at = np.array([[1], [1], [7], [4]])
    updates = RANDOM.normal(size=(4, 6, 7)).astype(np.float32)
    expected = X.copy()
    ufunc.at(expected, [1, 1, 4], updates[[0, 1, 3]])
    out = function(X, at, updates, SET_ROWS)  # type: ignore[operator]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    clipped = function(X, at, updates, SET_ROWS, mode="clip")  # type: ignore[operator]
    ufunc.at(expected, [4], updates[[2]])
    np.testing.assert_allclose(clipped, expected, rtol=1e-6)


def test_scatter_sets_part_of_a_row() -> None:
    updates = np.full((2, 3, 7), -1, np.float32)
    out = lax.scatter(X, np.array([[2], [-1]]), updates, SET_ROWS)
    expected = X.copy()
    expected[2, :3] = -1
    np.testing.assert_array_equal(out, expected)


def test_scatter_in_step() -> None:
    at = np.array([[[3]], [[0]], [[5]], [[9]], [[2]]])
    numbers = lax.ScatterDimensionNumbers((2,), (1,), (1,), (0,), (0,))
    out = lax.scatter(X, at, np.zeros((5, 1, 7), np.float32), numbers)
    expected = X.copy()
    for i, row in [(0, 3), (1, 0), (2, 5), (4, 2)]:
        expected[i, row] = 0
    np.testing.assert_array_equal(out, expected)


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match="a mode is"):
        lax.gather(X, ROWS, TAKE_ROWS, (1, 6, 7), mode="wrap")
    with pytest.raises(ShapeError, match="one coordinate per moved axis"):
        lax.gather(X, np.zeros((4, 2), int), TAKE_ROWS, (1, 6, 7))


def test_gradient_of_gather_adds_up() -> None:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    at = np.array([[1], [1], [5]])
    x = tfn.numpy.asarray(np.zeros(3, np.float32))
    clip = tfn.grad(lambda x: lax.gather(x, at, numbers, (1,), mode="clip").sum())(x)
    np.testing.assert_array_equal(clip, [0, 2, 1])
    fill = tfn.grad(lambda x: lax.gather(x, at, numbers, (1,), mode="fill", fill_value=0.0).sum())(
        x
    )
    np.testing.assert_array_equal(fill, [0, 2, 0])


def test_updates_are_subtracted() -> None:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    actual = lax.scatter_sub(np.zeros(3), np.array([[1], [1]]), np.array([2.0, 3.0]), numbers)
    assert actual.tolist() == [0, -5, 0]
