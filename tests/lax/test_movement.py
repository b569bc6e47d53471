"""Movement against NumPy, at sizes 0, 1 and odd ones."""

import numpy as np
import pytest

from tfn import lax
from tfn.errors import ArgumentError, AxisError, DTypeError, OutOfBoundsError, ShapeError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def padded(x: np.ndarray, value: float, low: int, high: int, between: int) -> np.ndarray:
    spread = np.full(len(x) + between * max(len(x) - 1, 0), value, x.dtype)
    spread[:: between + 1] = x
    grown = np.concatenate([np.full(max(low, 0), value), spread, np.full(max(high, 0), value)])
    return grown[max(-low, 0) : len(grown) + min(high, 0)]


@pytest.mark.parametrize("size", [0, 1, 4])
def test_pad(size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    for config in [(0, 0, 0), (1, 2, 0), (0, 0, 2), (-1, 2, 1), (2, -3, 2), (-2, -1, 1)]:
        low, high, between = config
        if size + between * max(size - 1, 0) + low + high < 0:
            with pytest.raises(ShapeError):
                lax.pad(x, 9.0, [config])
        else:
            np.testing.assert_array_equal(lax.pad(x, 9.0, [config]), padded(x, 9.0, *config))


def test_pad_refuses() -> None:
    with pytest.raises(ArgumentError, match="for each axis"):
        lax.pad(X, 0.0, [(0, 0, 0)])
    with pytest.raises(ArgumentError, match="interior"):
        lax.pad(np.arange(3), 0, [(0, 0, -1)])
    with pytest.raises(ShapeError):
        lax.pad(np.arange(3), 0, [(-2, -2, 0)])


def test_reshapes() -> None:
    np.testing.assert_array_equal(lax.reshape(X, (4, 6)), X.reshape(4, 6))
    moved = lax.reshape(X, (24,), dimensions=(2, 0, 1))
    np.testing.assert_array_equal(moved, X.transpose(2, 0, 1).ravel())
    np.testing.assert_array_equal(lax.transpose(X, (2, 0, 1)), X.transpose(2, 0, 1))
    np.testing.assert_array_equal(lax.collapse(X, 1), X.reshape(2, 12))
    assert lax.expand_dims(X, (0, -1)).shape == (1, 2, 3, 4, 1)
    assert lax.squeeze(np.ones((1, 3, 1))).shape == (3,)
    assert lax.squeeze(np.ones((1, 3, 1)), (0,)).shape == (3, 1)
    with pytest.raises(ShapeError, match="size 1"):
        lax.squeeze(X, (0,))
    with pytest.raises(AxisError):
        lax.transpose(X, (0, 1))


def test_broadcasts() -> None:
    np.testing.assert_array_equal(lax.broadcast(X, (2,)), np.broadcast_to(X, (2, 2, 3, 4)))
    out = lax.broadcast_in_dim(np.arange(3), (2, 3, 2), (1,))
    np.testing.assert_array_equal(out, np.broadcast_to(np.arange(3)[:, None], (2, 3, 2)))
    np.testing.assert_array_equal(
        lax.tile(np.arange(6).reshape(2, 3), (2, 3)), np.tile(np.arange(6).reshape(2, 3), (2, 3))
    )
    with pytest.raises(ShapeError, match="rising place"):
        lax.broadcast_in_dim(np.ones((2, 3)), (3, 2), (1, 0))


def test_iota_and_full() -> None:
    np.testing.assert_array_equal(lax.iota("int8", 3), np.arange(3, dtype=np.int8))
    assert lax.iota(np.float32, 0).shape == (0,)
    np.testing.assert_array_equal(lax.broadcasted_iota("int32", (2, 3), 1), [[0, 1, 2]] * 2)
    assert lax.full((2,), 1.5).dtype == np.float32
    assert lax.full((2, 0), 1, "int64").dtype == np.int64
    assert lax.full_like(X, 2).dtype == np.float32
    assert lax.full_like(X, 2, np.int32, (3,)).shape == (3,)


def test_slices() -> None:
    np.testing.assert_array_equal(lax.slice(X, (0, 1, 0), (2, 3, 4), (1, 1, 3)), X[:, 1:3, ::3])
    np.testing.assert_array_equal(lax.slice_in_dim(X, -3, -1, axis=2), X[..., -3:-1])
    np.testing.assert_array_equal(lax.slice_in_dim(X, None, None, 2, axis=-1), X[..., ::2])
    np.testing.assert_array_equal(lax.index_in_dim(X, -1, 1), X[:, -1:])
    np.testing.assert_array_equal(lax.index_in_dim(X, 0, 1, keepdims=False), X[:, 0])
    np.testing.assert_array_equal(lax.rev(X, (0, 2)), X[::-1, :, ::-1])
    with pytest.raises(ShapeError, match="0 <= start <= stop <= size"):
        lax.slice(X, (0, 0, 0), (2, 3, 5))
    with pytest.raises(OutOfBoundsError, match="index 3 is outside an axis of size 3"):
        lax.index_in_dim(X, 3, 1)


def test_concatenate_and_split() -> None:
    np.testing.assert_array_equal(
        lax.concatenate([X, X[:, :1]], 1), np.concatenate([X, X[:, :1]], 1)
    )
    parts = lax.split(X, (1, 0, 2), axis=1)
    assert [p.shape for p in parts] == [(2, 1, 4), (2, 0, 4), (2, 2, 4)]
    np.testing.assert_array_equal(lax.concatenate(parts, 1), X)
    with pytest.raises(ArgumentError):
        lax.concatenate([], 0)
    with pytest.raises(ShapeError, match="add up to 3"):
        lax.split(X, (1, 1), axis=1)


def test_stack_and_unstack() -> None:
    x, y = np.arange(3), np.arange(3) + 10
    assert lax.stack([x, y]).tolist() == [[0, 1, 2], [10, 11, 12]]
    assert lax.stack([x, y], -1).tolist() == [[0, 10], [1, 11], [2, 12]]
    assert [v.tolist() for v in lax.unstack(np.stack([x, y]), 1)] == [[0, 10], [1, 11], [2, 12]]
    with pytest.raises(DTypeError):
        lax.stack([x, x.astype("float32")])


def test_shapes_in_common() -> None:
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)"):
        lax.broadcast_shapes((2,), (3,))


def test_full_of_a_number_is_weak_unless_a_dtype_is_given():
    assert lax.full((2,), 1.0).weak_type and lax.full_like(lax.full((), 1), 2).weak_type
    assert not lax.full((2,), 1.0, "float32").weak_type and not lax.full((2,), True).weak_type


def test_axes_that_are_inserted_are_integers():
    assert lax.expand_dims(np.ones(3), 0).shape == (1, 3)
    with pytest.raises(ArgumentError, match="expand_dims needs an integer axis"):
        lax.expand_dims(np.ones(3), 2.5)
