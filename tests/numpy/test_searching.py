"""Indices of nonzero elements, and selection by masks, with known values and with a given size."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn import lax, nn, random
from tfn.errors import ArgumentError, ShapeError, TracerArrayConversionError

X = np.array([[0, 5, 0], [7, 0, -1]], np.int32)


def test_nonzero_as_numpy():
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


def test_nonzero_needs_an_axis():
    with pytest.raises(ShapeError, match="nonzero needs at least one axis"):
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


MANY = 2**31 + 7
"""Elements among which a place does not fit into int32.  Nothing of that size is made."""


@pytest.mark.parametrize(
    ("name", "function"),
    {
        "argmax": tnp.argmax,
        "argmin": lambda x: tnp.argmin(x, 0),
        "nanargmax": lambda x: tnp.nanargmax(x.astype("float32")),
        "argsort": tnp.argsort,
        "lexsort": lambda x: tnp.lexsort((x, x)),
        "searchsorted": lambda x: tnp.searchsorted(x, x[:3]),
        "flatnonzero": lambda x: tnp.flatnonzero(x, size=3),
        "nonzero": lambda x: tnp.nonzero(x, size=3),
        "argwhere": lambda x: tnp.argwhere(x, size=3),
        "count_nonzero": tnp.count_nonzero,
        "unique": lambda x: tnp.unique(x, True, True, True, size=3)[1:],
        "indices": lambda x: tnp.indices(x.shape),
        "unravel_index": lambda x: tnp.unravel_index(x[:2].astype("int32"), (2, *x.shape)),
        "ravel_multi_index": lambda x: tnp.ravel_multi_index((x[:2], x[:2]), (2, *x.shape)),
        "top_k": lambda x: lax.top_k(x, 3)[1],
        "approx_min_k": lambda x: lax.approx_min_k(x, 3)[1],
        "lax.argmax": lambda x: lax.argmax(x, 0, "int64"),
        "choice": lambda x: random.choice(random.key(0), MANY, (3,)),
        "categorical": lambda x: random.categorical(random.key(0), x.astype("float32")),
        "start": lambda x: lax.dynamic_slice_in_dim(tnp.indices(x.shape)[0], x[0], 3),
    }.items(),
)
def test_places_that_int32_does_not_hold_are_int64(name, function):
    found = tfn.eval_shape(function, tfn.ShapeDtypeStruct((MANY,), "int8"))
    assert {leaf.dtype.name for leaf in tfn.tree_util.tree_leaves(found)} == {"int64"}
    few = tfn.eval_shape(function, tfn.ShapeDtypeStruct((700,), "int8"))
    same = name in ("choice", "lax.argmax")
    kinds = {leaf.dtype.name for leaf in tfn.tree_util.tree_leaves(few)}
    assert kinds == {"int64" if same else "int32"}


def test_elements_that_int32_does_not_count_are_reached():
    x = tfn.ShapeDtypeStruct((MANY,), "int8")
    row = tfn.ShapeDtypeStruct((1, MANY), "int8")
    for function in (
        lambda x: x[x[:2]],
        lambda x: x[[5, MANY - 1]],
        lambda x: x.at[tnp.array([0, -1])].set(1),
        lambda x: tnp.take(x, x[:2], mode="wrap"),
        lambda x: tnp.put(x, x[:2], 0, "wrap", inplace=False),
        lambda x: lax.dynamic_update_slice(x, x[:3], (MANY - 3,)),
    ):
        assert tfn.eval_shape(function, x).dtype == "int8"
    assert tfn.eval_shape(lambda x: x.at[tnp.array([0]), -2].set(1), row).shape == (1, MANY)
    for function in (tnp.tril, lambda x: tnp.eye(*x.shape)):
        assert tfn.eval_shape(function, row).shape == (1, MANY)
    with pytest.raises(ArgumentError, match="does not fit into the dtype of indices"):
        tfn.eval_shape(lambda x: lax.argmax(x, 0, "int32"), x)


@pytest.mark.parametrize("name", ["int8", "uint8", "uint32", "uint64"])
def test_places_in_narrow_and_unsigned_dtypes(name):
    """The size of an axis, 300, is a number that the narrow ones do not have."""
    x = np.arange(300.0, dtype=np.float32)
    places = np.array([3, 100, 7], name)
    index = tnp.asarray(places)
    close(tnp.take(x, index, mode="wrap"), x[places])
    close(tnp.put(x, index, -1, "wrap", inplace=False)[places], np.float32([-1, -1, -1]))
    close(nn.one_hot(index, 300), (places[:, None] == np.arange(300)).astype(np.float32))
    close(tfn.ops.segment_sum(tnp.ones(3), index, 300)[places], np.ones(3, np.float32))
    many = tnp.ravel_multi_index((index, index), (300, 300))
    close(many, (301 * places.astype(np.int64)).astype(many.dtype))
    big = np.array([100], name)
    assert int(tnp.unravel_index(tnp.asarray(big), (2, 300))[1][0]) == 100
    counts = np.array([1, 0, 2], name)
    close(tnp.repeat(x[:3], tnp.asarray(counts)), np.repeat(x[:3], counts.astype(np.int64)))


def test_where_alone_gives_places():
    x = np.array([[0, 3], [4, 0]])
    for got, want in zip(tnp.where(x), np.where(x), strict=True):
        np.testing.assert_array_equal(got, want)
    (places,) = tfn.jit(lambda x: tnp.where(x, size=3, fill_value=7))(x[0])
    assert places.tolist() == [1, 7, 7]
    for call in (lambda: tnp.where(x, 1), lambda: tnp.where(x, 1, 2, size=3)):
        with pytest.raises(ArgumentError):
            call()
