"""Coordinates against NumPy."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.errors import ArgumentError, DTypeError, OutOfBoundsError


@pytest.mark.parametrize("others", [[], [2], [np.float64(3)], [np.float32([1, 2]), True]], ids=str)
def test_a_python_float_keeps_its_bits_in_a_grid(others):
    got = tnp.meshgrid(np.float64([1, 2]), 0.1, *others)
    want = np.meshgrid(np.float64([1, 2]), 0.1, *others)
    for a, b in zip(got, want, strict=True):
        assert a.tolist() == b.tolist() and (a.dtype.kind, a.shape) == (b.dtype.kind, b.shape)


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("m", [None, 2, 5])
def test_triangles(k, m):
    for function in ("tril_indices", "triu_indices"):
        for got, want in zip(getattr(tnp, function)(3, k, m), getattr(np, function)(3, k, m)):
            close(got, want.astype(np.int32))


def test_diagonals_and_grids():
    for got, want in zip(tnp.diag_indices(3, 3), np.diag_indices(3, 3), strict=True):
        close(got, want.astype(np.int32))
    for shape in [(2, 3), (4,), (1, 0, 2)]:
        close(tnp.indices(shape), np.indices(shape).astype(np.int32))
        sparse = zip(tnp.indices(shape, sparse=True), np.indices(shape, sparse=True), strict=True)
        for got, want in sparse:
            close(got, want.astype(np.int32))
        close(tnp.indices(shape, np.float32), np.indices(shape, np.float32))


def test_flat_indices():
    flat = np.array([[0, 5], [23, 11]], np.int32)
    found = tnp.unravel_index(flat, (2, 3, 4))
    for got, want in zip(found, np.unravel_index(flat, (2, 3, 4)), strict=True):
        close(got, want.astype(np.int32))
    close(tnp.ravel_multi_index(found, (2, 3, 4)), flat)
    assert [int(i) for i in tnp.unravel_index(-1, (2, 3))] == [1, 2]
    with pytest.raises(DTypeError, match="unravel_index needs integers"):
        tnp.unravel_index(1.0, (2,))
    with pytest.raises(ArgumentError, match="one index array for each axis"):
        tnp.ravel_multi_index(found, (2, 3))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sparse", [False, True])
def test_meshgrid(indexing, sparse):
    for lines in (
        [np.arange(3)],
        [np.arange(2), np.arange(3)],
        [np.arange(2), np.ones(1), np.ones(4)],
    ):
        got = tnp.meshgrid(*lines, indexing=indexing, sparse=sparse)
        for a, b in zip(got, np.meshgrid(*lines, indexing=indexing, sparse=sparse), strict=True):
            close(a, b)


def test_by_brackets():
    assert tnp.s_[1:3, ...] == np.s_[1:3, ...] and tnp.index_exp[2] == (2,)
    for g, w in ((tnp.mgrid, np.mgrid), (tnp.ogrid, np.ogrid)):
        for got, want in zip(g[0:3, 1:7:2], w[0:3, 1:7:2], strict=True):
            close(got, want.astype(np.int32))
    close(tnp.mgrid[0:1:5j], np.mgrid[0:1:5j].astype(np.float32))
    x = np.int32([4, 5])
    close(tnp.r_[0:3, x, 7], np.r_[0:3, x, 7].astype(np.int32))
    close(tnp.c_[x, x + 1], np.c_[x, x + 1])
    with pytest.raises(ArgumentError, match="no strings"):
        tnp.r_["0,2", x]


def test_triangles_of_a_matrix():
    x = np.zeros((3, 4))
    for name in ("tril_indices_from", "triu_indices_from"):
        for got, want in zip(getattr(tnp, name)(x, 1), getattr(np, name)(x, 1), strict=True):
            close(got, want.astype(np.int32))


def test_coordinates_outside_are_wrapped_clipped_or_refused():
    places = np.array([[3, 6, -1], [4, 5, 9]])
    for mode in ("wrap", "clip"):
        for order in "CF":
            got = tnp.ravel_multi_index(tuple(places), (7, 6), mode, order)
            want = np.ravel_multi_index(places, (7, 6), mode, order)
            np.testing.assert_array_equal(got, want)
    with pytest.raises(OutOfBoundsError):
        tnp.ravel_multi_index(tuple(places), (7, 6))
    assert tnp.ravel_multi_index((1, 2), (3, 4), dtype="int64").dtype == "int64"
    with pytest.raises(ArgumentError):
        tnp.ravel_multi_index((1, 2), (3, 4), "other")


def test_indices_of_a_dtype():
    np.testing.assert_array_equal(tnp.indices((2, 3), "float32"), np.indices((2, 3)))
    assert all(x.dtype == "int8" for x in tnp.indices((2, 3), "int8", sparse=True))


def test_coordinates_of_a_grid_have_one_dtype():
    lines = tnp.ogrid[0:2, 0:1:3j]
    assert [x.dtype for x in lines] == ["float32", "float32"]
    for got, want in zip(lines, np.ogrid[0:2, 0:1:3j], strict=True):
        close(got, want.astype("float32"))
    assert [x.dtype for x in tnp.ogrid[0:2, 1:3]] == ["int32", "int32"]
