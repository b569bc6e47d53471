"""Where, which and how many, with known values and with a given size."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.errors import DTypeError, TracerArrayConversionError

X = np.array([[0, 5, 0], [7, 0, -1]], np.int32)


def test_where_it_is_not_zero():
    close(tnp.flatnonzero(X), np.flatnonzero(X).astype(np.int32))
    close(tnp.argwhere(X), np.argwhere(X).astype(np.int32))
    for got, want in zip(tnp.nonzero(X), np.nonzero(X), strict=True):
        close(got, want.astype(np.int32))


@pytest.mark.parametrize("size", [0, 2, 3, 5, 9])
def test_with_a_size(size):
    def expect(values, fill):
        return np.array([*values, *[fill] * 9][:size], np.int32)

    close(tnp.flatnonzero(X, size=size, fill_value=-3), expect(np.flatnonzero(X), -3))
    rows, columns = tfn.jit(lambda x: tnp.nonzero(x, size=size, fill_value=9))(X)
    close(rows, expect(np.nonzero(X)[0], 9))
    close(columns, expect(np.nonzero(X)[1], 9))
    assert tnp.argwhere(X, size=size).shape == (size, 2)


def test_a_traced_value_needs_a_size():
    with pytest.raises(TracerArrayConversionError):
        tfn.jit(tnp.flatnonzero)(X)


def test_unique():
    x = np.int32([3, 1, 3, 2, 1])
    close(tnp.unique(x), np.unique(x))
    for got, want in zip(tnp.unique(x, True, True, True), np.unique(x, True, True, True)):
        close(got, want.astype(np.int32))


def test_membership():
    close(tnp.isin(X, [5, 7][0]), np.isin(X, 5))
    close(tnp.isin(X, np.array([5, 7, 9])), np.isin(X, [5, 7, 9]))
    close(tnp.isin(X, np.array([0]), invert=True), np.isin(X, [0], invert=True))
    close(tnp.isin(X, np.zeros(0)), np.zeros((2, 3), bool))


def test_bincount():
    x = np.int32([1, 3, 3, 0, 9])
    close(tnp.bincount(x), np.bincount(x).astype(np.int32))
    close(tnp.bincount(x, minlength=12), np.bincount(x, minlength=12).astype(np.int32))
    close(tnp.bincount(x, length=4), np.bincount(x)[:4].astype(np.int32))
    w = np.float32([1, 2, 3, 4, 5])
    close(tnp.bincount(x, w), np.bincount(x, w).astype(np.float32))
    close(tnp.bincount(np.zeros(0, np.int32)), np.zeros(0, np.int32))
    with pytest.raises(DTypeError, match="bincount needs integers"):
        tnp.bincount(w)
