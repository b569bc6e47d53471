"""Cumulative sums and products against NumPy, over block borders."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200, 4100])
def test_sizes(size):
    x = np.arange(size, dtype=np.int32) % 7 - 3
    close(tnp.cumsum(x), np.cumsum(x).astype(np.int32))
    y = np.where(x == 0, 1, np.sign(x)).astype(np.float32)
    close(tnp.cumprod(y), np.cumprod(y))


def test_axes_and_dtypes():
    x = sample("float32", (3, 5, 70), 1, special=False)
    for axis in (None, 0, 1, -1):
        want = np.cumsum(x.astype(np.float64), axis)
        np.testing.assert_allclose(np.asarray(tnp.cumsum(x, axis)), want, rtol=1e-4, atol=1e-4)
    assert tnp.cumsum(np.ones(3, np.int8)).dtype == np.int8
    assert tnp.cumulative_sum(np.ones(3, np.int8)).dtype == np.int32
    assert tnp.cumsum(np.ones(3, bool)).dtype == np.int32
    assert tnp.cumsum(np.ones(3, np.float16), dtype="float64").dtype == np.float64


def test_cumsum_before_an_infinity_is_finite():
    x = np.float32([1, np.inf, 1, np.nan, 2])
    close(tnp.cumsum(x), np.cumsum(x))


def test_with_an_initial_element():
    x = np.float32([[1, 2], [3, 4]])
    close(tnp.cumulative_sum(x, axis=1, include_initial=True), np.float32([[0, 1, 3], [0, 3, 7]]))
    close(tnp.cumulative_prod(x[0], include_initial=True), np.float32([1, 1, 2]))
    with pytest.raises(ArgumentError, match="needs an axis"):
        tnp.cumulative_sum(x)


def test_differences():
    x = np.float32([[1, 4, 9, 16], [0, 1, 0, 1]])
    for n in (0, 1, 2, 5):
        close(tnp.diff(x, n), np.diff(x, n))
    close(tnp.diff(x, axis=0), np.diff(x, axis=0))
    close(tnp.diff(x > 1), np.diff(x > 1))


def test_differences_with_ends():
    x = np.int32([[1, 4, 9], [0, 2, 1]])
    for axis in (0, 1):
        column = x[:, :1] if axis else x[:1]
        for n in (0, 1, 2):
            options = {"n": n, "axis": axis, "prepend": 3, "append": column}
            close(tnp.diff(x, **options), np.diff(x, **options))
