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


WHOLE = ((4, 5, 6, 7, 8), (), (0, 1, 2, 3, 4), (), ())
UNFIT = [
    ((4, 5, 6, 8, 7), *WHOLE[1:]),
    ((4, 5, 6, 7, 7), *WHOLE[1:]),
    ((-1, 5, 6, 7, 8), *WHOLE[1:]),
    ((4, 5, 6, 7, 9), *WHOLE[1:]),
    ((4, 5, 6), *WHOLE[1:]),
    (WHOLE[0], (4,), *WHOLE[2:]),
    ((4, 5, 6), (1, 0), *WHOLE[2:]),
    ((4, 5, 6), (0, 0), *WHOLE[2:]),
    ((4, 5, 6, 7), (-1,), *WHOLE[2:]),
    ((4, 5, 6, 7), (5,), *WHOLE[2:]),
    (*WHOLE[:2], (0, 1, 2, 3, 7), (), ()),
    (*WHOLE[:2], (0, 1, 2, 3, 3), (), ()),
    ((4, 5, 6, 7), *WHOLE[1:3], (0,), (9,)),
    ((4, 5, 6, 7), *WHOLE[1:3], (9,), (0,)),
    ((4, 5, 6, 7), *WHOLE[1:3], (0,), (0, 1)),
    ((4, 5, 6, 7), *WHOLE[1:3], (0,), (0,)),
]


@pytest.mark.parametrize("numbers", UNFIT)
def test_axes_of_dimension_numbers_are_there_once_and_in_order(numbers):
    x, at = np.zeros((10, 9, 8, 7, 6), "float32"), np.zeros((5, 4, 3, 2, 5), int)
    with pytest.raises((ArgumentError, ShapeError), match="gather needs "):
        lax.gather(x, at, lax.GatherDimensionNumbers(*numbers), (1, 1, 1, 1, 1))
    updates = np.zeros((5, 4, 3, 2) + (1,) * len(numbers[0]), "float32")
    with pytest.raises((ArgumentError, ShapeError), match="scatter needs "):
        lax.scatter_add(x, at, updates, lax.ScatterDimensionNumbers(*numbers))


def test_windows_and_updates_fit_dimension_numbers():
    x, at = np.zeros((10, 9, 8, 7, 6), "float32"), np.zeros((5, 4, 3, 2, 5), int)
    collapsing = lax.GatherDimensionNumbers((4, 5, 6, 7), (0,), *WHOLE[2:])
    with pytest.raises(ShapeError, match="windows of size 1 along the axes that it collapses"):
        lax.gather(x, at, collapsing, (2, 1, 1, 1, 1))
    assert lax.gather(x, at, collapsing, (1, 1, 1, 1, 2)).shape == (5, 4, 3, 2, 1, 1, 1, 2)
    with pytest.raises(ShapeError, match="scatter needs updates of 9 axes"):
        lax.scatter(x, at, np.zeros((5, 4, 3, 2), "float32"), lax.ScatterDimensionNumbers(*WHOLE))
