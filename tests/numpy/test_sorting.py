"""Sorting and binary search, against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int8", "uint32", "bool"])
def test_sort(name):
    x = sample(name, (4, 11), 1)
    wide = x.astype(np.float32) if name == "bfloat16" else x
    for axis in (0, 1, -1, None):
        got = tnp.sort(x, axis)
        assert got.dtype == x.dtype
        close(got, np.sort(wide, axis).astype(x.dtype))
        down = tnp.sort(x, axis, descending=True)
        close(down, np.flip(np.sort(wide, axis), -1 if axis is None else axis).astype(x.dtype))


def test_argsort_is_stable():
    x = np.int32([[3, 1, 3, 0, 1], [2, 2, 2, 1, 1]])
    for axis in (0, 1, None):
        close(tnp.argsort(x, axis), np.argsort(x, axis, kind="stable").astype(np.int32))
    close(tnp.argsort(x, descending=True), np.int32([[0, 2, 1, 4, 3], [0, 1, 2, 3, 4]]))
    assert tnp.argsort(x).dtype == np.int32


def test_lexsort():
    a, b = np.int32([1, 1, 0, 0, 2]), np.float32([3, 2, 2, 1, 0])
    close(tnp.lexsort((b, a)), np.lexsort((b, a)).astype(np.int32))
    with pytest.raises(ArgumentError, match="at least one key"):
        tnp.lexsort(())


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    a = np.float32([-1, 0, 0, 2, 5, np.nan])
    v = np.float32([[-2, 0, 1], [5, 9, np.nan]])
    close(tnp.searchsorted(a, v, side), np.searchsorted(a, v, side).astype(np.int32))
    close(tnp.searchsorted(np.arange(4), 2, side), np.int32(np.searchsorted(np.arange(4), 2, side)))
    close(
        tnp.digitize(v[0], a[:5], side == "left"),
        np.digitize(v[0], a[:5], side == "left").astype(np.int32),
    )
    with pytest.raises(ArgumentError, match="side"):
        tnp.searchsorted(a, v, "middle")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 17, 64, 100])
def test_searchsorted_of_any_size_in_a_few_steps(size):
    """With equal elements; a gradient finds nothing to follow."""
    rng = np.random.default_rng(size)
    a = np.sort(rng.integers(-9, 9, size)).astype(np.float32)
    v = np.concatenate([a, a + 0.5, [-99, 99]]).astype(np.float32)
    for side in ("left", "right"):
        search = tfn.jit(lambda a, v, side=side: tnp.searchsorted(a, v, side))
        close(search(a, v), np.searchsorted(a, v, side).astype(np.int32))
        close(tfn.vmap(search, (None, 0))(a, v[:, None]), np.asarray(search(a, v))[:, None])
    slope = tfn.grad(lambda v: (tnp.searchsorted(a, v) * v).sum())(v)
    close(slope, np.searchsorted(a, v).astype(np.float32))


def test_searchsorted_with_sorter():
    a, v = np.float32([5, -1, 2]), np.float32([0, 2, 7])
    order = np.argsort(a)
    close(tnp.searchsorted(a, v, sorter=order), np.searchsorted(a, v, sorter=order).astype("int32"))


def test_complex_numbers_in_order():
    x = np.complex64([3 - 1j, 1 + 2j, 1 - 2j, 2])
    np.testing.assert_array_equal(tnp.sort_complex(x), np.sort_complex(x))
    np.testing.assert_array_equal(tnp.sort_complex(np.int8([3, 1])), np.complex64([1, 3]))


def test_places_have_the_dtype_that_is_asked_for():
    assert tnp.argsort(np.array([3, 1]), dtype="int8").dtype == "int8"
