"""Distinct elements and sets, with known values and with a given size."""

from functools import partial

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import TracerArrayConversionError

X = np.array([[0, 5, 0], [7, 0, -1]], np.int32)
ALL = {"return_index": True, "return_inverse": True, "return_counts": True}


def narrow(x):
    return x.astype(np.int32) if x.dtype == np.int64 else x


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


@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "float64", "complex64", "bool"])
@pytest.mark.parametrize("size", [3, 64, 65, 300])
def test_membership_in_short_and_long_arrays(name, size):
    x, y = sample(name, (40,), 1), sample(name, (size,), 2)
    x[: size // 4] = y[: len(x[: size // 4])]
    close(tnp.isin(x, y), np.equal.outer(x, y).any(1))


@pytest.mark.parametrize("name", ["int8", "float32", "bool"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_of_a_size(name, axis):
    x = np.round(sample(name, (5, 4), 2, special=False).astype(np.float32)).astype(name)
    x[3] = x[1]
    expected = np.unique(x, **ALL, axis=axis)
    lines = expected[0].shape[axis or 0]
    for size in (lines, lines + 3):
        got = tfn.jit(partial(tnp.unique, **ALL, axis=axis, size=size, fill_value=1))(x)
        for g, w, at in zip(got, expected, (axis or 0, 0, None, 0)):
            g = np.asarray(g)
            close(g if at is None else np.take(g, range(lines), at), narrow(w))
        rest = np.take(np.asarray(got[0]), range(lines, size), axis or 0)
        assert (rest == np.array(1, name)).all()
    first = tfn.jit(lambda x: tnp.unique(x, axis=axis, size=1))(x)
    close(first, np.take(expected[0], [0], axis or 0))


def test_unique_of_nan():
    x = np.float32([np.nan, 1, np.nan, 1])
    close(tnp.unique(x), np.unique(x))
    close(tnp.unique_values(x), np.unique(x, equal_nan=False))
    close(tnp.unique_all(x).counts, np.int32([2, 1, 1]))
    got = tfn.jit(lambda x: tnp.unique_counts(x, size=4))(x)
    close(got.counts, np.int32([2, 1, 1, 0]))
    close(tfn.jit(lambda x: tnp.unique(x, size=2))(x), np.unique(x))
    inverse = tfn.jit(lambda x: tnp.unique_inverse(x, size=3))(np.float32([[2, 1], [1, 2]]))
    close(inverse.inverse_indices, np.int32([[1, 0], [0, 1]]))


def test_unique_needs_a_size_inside():
    with pytest.raises(TracerArrayConversionError):
        tfn.jit(tnp.unique)(X)
    close(tfn.jit(lambda x: tnp.unique(x, size=2, fill_value=3))(np.zeros(0)), np.float64([3, 3]))


@pytest.mark.parametrize("name", ["union1d", "setdiff1d", "setxor1d", "intersect1d"])
def test_sets(name):
    random = np.random.default_rng(7)
    f, g = getattr(tnp, name), getattr(np, name)
    for n, m in ((0, 3), (4, 0), (9, 6), (1, 1)):
        a, b = random.integers(0, 7, n).astype(np.int32), random.integers(0, 7, m).astype(np.int32)
        want = g(a, b)
        close(f(a, b), want)
        for size in (len(want), len(want) + 2):
            got = tfn.jit(partial(f, size=size, fill_value=-1))(a, b)
            close(got, np.int32([*want, -1, -1][:size]))
    assert f(np.int8([1]), np.float32([2])).dtype == np.float32


def test_intersections_with_places():
    a, b = np.int32([4, 2, 2, 7, 0]), np.int32([7, 5, 2])
    for got, want in zip(
        tnp.intersect1d(a, b, return_indices=True), np.intersect1d(a, b, return_indices=True)
    ):
        close(got, narrow(want))
    got = tfn.jit(lambda a, b: tnp.intersect1d(a, b, return_indices=True, size=3))(a, b)
    for g, w in zip(got, ([2, 7, 2], [1, 3, 5], [2, 0, 3])):
        close(g, np.int32(w))
    close(tnp.setdiff1d(a, b, assume_unique=True), np.setdiff1d(a, b, assume_unique=True))
