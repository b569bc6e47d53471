"""Insertion, deletion, replacement and blocks, against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.errors import ArgumentError, OutOfBoundsError, ShapeError

X = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_delete_and_insert(axis):
    for places in (1, -1, slice(0, 2), [0, 2], np.array([2, 0, 2]), np.zeros(0, int)):
        close(tnp.delete(X, places, axis), np.delete(X, places, axis))
    size = X.size if axis is None else X.shape[axis]
    for place in (0, 2, -1, size):
        close(tnp.insert(X, place, 7, axis), np.insert(X, place, 7, axis))
    for places in ([0, 2], [1, 1], [2, 0]):
        close(tnp.insert(X, places, 7, axis), np.insert(X, places, 7, axis))
    close(
        tfn.jit(lambda x: tnp.insert(tnp.delete(x, 1, axis), 0, 5, axis))(X),
        np.insert(np.delete(X, 1, axis), 0, 5, axis),
    )
    with pytest.raises(OutOfBoundsError, match="outside of the axis"):
        tnp.delete(X, 99, axis)


def test_insert_several_values():
    x = np.int32([1, 2, 3])
    close(tnp.insert(x, 1, np.int32([8, 9])), np.insert(x, 1, [8, 9]))
    close(tnp.insert(x, [0, 3], np.int32([8, 9])), np.insert(x, [0, 3], [8, 9]))
    close(tnp.insert(X, 1, np.int32([5, 6, 7, 8]), 0), np.insert(X, 1, [5, 6, 7, 8], 0))
    close(tnp.insert(X, 1, np.int32([5, 6, 7]), 1), np.insert(X, 1, [5, 6, 7], 1))


def test_sizes_and_blocks():
    for shape in ((5,), (4, 5), (0,), (2, 2)):
        close(tnp.resize(X, shape), np.resize(X, shape))
    line = np.float32([0, 0, 1, 0, 2, 0])
    for trim in ("fb", "f", "b"):
        close(tnp.trim_zeros(line, trim), np.trim_zeros(line, trim))
    a, b = np.ones((2, 2), np.float32), np.zeros((2, 3), np.float32)
    for parts in ([[a, b], [b, a]], [a, b], [[a], [a]], [[[a]], [[a]]], a):
        close(tnp.block(parts), np.block(parts))
    for got, want in zip(tnp.dsplit(X.reshape(1, 3, 4), 2), np.dsplit(X.reshape(1, 3, 4), 2)):
        close(got, want)
    with pytest.raises(ArgumentError, match="nested equally deep"):
        tnp.block([[a], b])
    with pytest.raises(ShapeError, match="with nothing"):
        tnp.resize(np.zeros(0), 3)


def test_choices():
    index, choices = np.int32([[0, 1], [2, 0]]), [X[:2, :2], np.int32(9), X[1:, 1:3]]
    close(tnp.choose(index, choices), np.choose(index, choices))
    close(tnp.choose(index - 1, choices, mode="clip"), np.choose(index - 1, choices, mode="clip"))
    close(tnp.choose(index + 2, choices, mode="wrap"), np.choose(index + 2, choices, mode="wrap"))


def test_new_arrays_instead_of_changed_ones():
    want = X.copy()
    np.place(want, X % 2 == 0, [7, 8])
    close(tnp.place(X, X % 2 == 0, np.int32([7, 8])), want)
    for mode in (None, "wrap", "clip"):
        want = X.copy()
        np.put(want, [0, 5, 11], [1, 2], mode=mode or "raise")
        close(tnp.put(X, np.array([0, 5, 11]), np.int32([1, 2]), mode), want)
    with pytest.raises(ArgumentError, match="in place"):
        tnp.put(X, 0, 1, inplace=True)


def test_small_ones():
    close(tnp.diagflat(X[:2, :2], 1), np.diagflat(X[:2, :2], 1))
    for a, b in zip(tnp.diag_indices_from(X[:, :3]), np.diag_indices_from(X[:, :3])):
        close(a, b.astype(np.int32))
    for a, b in zip(tnp.mask_indices(3, tnp.triu, 1), np.mask_indices(3, np.triu, 1)):
        close(a, b.astype(np.int32))
    close(tnp.ediff1d(X), np.ediff1d(X))
    close(tnp.ediff1d(X, 7, np.int32([1, 2])), np.ediff1d(X, 7, [1, 2]))
    part = np.asarray(tnp.partition(X[::-1], 1, 0))
    close(part[1], np.partition(X[::-1], 1, 0)[1])
    close(np.take_along_axis(X, np.asarray(tnp.argpartition(X, 2)), 1), X)
    with pytest.raises(ShapeError, match="axes of one size"):
        tnp.diag_indices_from(X)


def test_zeros_are_trimmed_along_axes():
    x = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    for axis in (None, 0, 1, (0, 1)):
        for trim in ("fb", "f", "b"):
            got, want = tnp.trim_zeros(x, trim, axis), np.trim_zeros(x, trim, axis)
            np.testing.assert_array_equal(got, want)
    assert tnp.trim_zeros(np.zeros((3, 3)), axis=0).shape == (0, 3)


def test_indices_of_a_mask_of_a_size():
    rows, columns = tnp.mask_indices(3, tnp.triu, size=8)
    assert rows.tolist() == [0, 0, 0, 1, 1, 2, 0, 0] and columns.shape == (8,)
    assert tnp.mask_indices(3, tnp.triu, size=2)[1].tolist() == [0, 1]


def test_choose_raises_for_an_index_without_a_choice_where_it_is_known():
    with pytest.raises(OutOfBoundsError, match="choose needs indices within the axis"):
        tnp.choose(np.array([0, 5]), [1, 2])
    assert tfn.jit(lambda i: tnp.choose(i, [1, 2]))(np.array([0, 5])).tolist() == [1, 2]
