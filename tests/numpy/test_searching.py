"""Where it is not zero, and what a mask picks, with known values and with a given size."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.errors import ShapeError, TracerArrayConversionError

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


def test_what_has_no_axis():
    with pytest.raises(ShapeError, match="needs an array with an axis"):
        tnp.nonzero(tnp.array(1))
    assert tnp.argwhere(tnp.array(1)).shape == (1, 0)


def test_picked_by_a_mask():
    mask = np.array([True, False, True])
    close(tnp.compress(mask, X, 1), np.compress(mask, X, 1))
    close(tnp.compress(mask[:2], X), np.compress(mask[:2], X))
    close(tnp.extract(X > 0, X), np.extract(X > 0, X))
    close(tfn.jit(lambda x: tnp.extract(x > 0, x, size=3, fill_value=-7))(X), np.int32([5, 7, -7]))
    got = tfn.jit(lambda m, x: tnp.compress(m, x, 1, size=3, fill_value=9))(mask, X)
    close(got, np.int32([[0, 0, 9], [7, -1, 9]]))
    close(tnp.compress(np.zeros(0, bool), np.zeros(0)), np.zeros(0))
    with pytest.raises(ShapeError, match="no longer than the axis"):
        tnp.compress(np.ones(4, bool), X, 1)
