"""Shapes and orders against NumPy."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, AxisError, ShapeError

X = sample("float32", (2, 3, 5))


@pytest.mark.parametrize("shape", [30, (6, 5), (-1, 2), (3, -1, 5), (1, 30, 1), -1, (2, 3, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reshape(shape, order):
    close(tnp.reshape(X, shape, order), np.reshape(X, shape, order))
    close(tnp.asarray(X).reshape(*np.atleast_1d(shape).tolist()), np.reshape(X, shape))


def test_reshape_of_nothing_and_errors():
    assert tnp.zeros((0, 3)).reshape(-1, 3).shape == (0, 3)
    assert tnp.zeros((0, 3)).ravel().shape == (0,)
    with pytest.raises(ShapeError, match=r"reshape cannot turn 30 elements into shape \(4, -1\)"):
        tnp.reshape(X, (4, -1))
    with pytest.raises(ShapeError, match="only one size"):
        tnp.reshape(X, (-1, -1))
    with pytest.raises(ArgumentError, match="order"):
        tnp.reshape(X, 30, "B")


def test_transpositions():
    x = tnp.asarray(X)
    close(x.T, X.T)
    close(x.mT, X.swapaxes(-1, -2))
    close(x.transpose(1, 2, 0), X.transpose(1, 2, 0))
    close(x.transpose((2, 0, -2)), X.transpose((2, 0, 1)))
    close(x.transpose(), X.T)
    close(tnp.swapaxes(X, 0, -1), np.swapaxes(X, 0, -1))
    close(tnp.moveaxis(X, 0, -1), np.moveaxis(X, 0, -1))
    close(tnp.moveaxis(X, (0, 1), (-1, 0)), np.moveaxis(X, (0, 1), (-1, 0)))
    close(tnp.rollaxis(X, 2), np.rollaxis(X, 2))
    close(tnp.rollaxis(X, 0, 3), np.rollaxis(X, 0, 3))
    with pytest.raises(AxisError, match="transpose needs all 3 axes"):
        x.transpose(1, 0)
    with pytest.raises(ShapeError, match="matrix_transpose needs at least two axes"):
        _ = tnp.ones(3).mT
    with pytest.raises(ArgumentError, match="as many sources"):
        tnp.moveaxis(X, (0, 1), 0)


def test_axes_of_size_one():
    for axis in (0, -1, (0, 2), (1, -1)):
        close(tnp.expand_dims(X, axis), np.expand_dims(X, axis))
    x = X.reshape(1, 2, 1, 15)
    for axis in (None, 0, 2, (0, 2)):
        close(tnp.squeeze(x, axis), np.squeeze(x, axis))
    with pytest.raises(ShapeError, match="squeeze needs axes of size 1"):
        tnp.squeeze(x, 1)
    for function in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for y in (np.float32(3), X[0, 0], X[0], X):
            close(getattr(tnp, function)(y), getattr(np, function)(y))


def test_broadcasting():
    close(tnp.broadcast_to(X[:, :1], (4, 2, 3, 5)), np.broadcast_to(X[:, :1], (4, 2, 3, 5)))
    close(tnp.broadcast_to(3.0, (2,)), np.full(2, 3, np.float32))
    for got, want in zip(
        tnp.broadcast_arrays(X, X[:1, :, :1]), np.broadcast_arrays(X, X[:1, :, :1])
    ):
        close(got, want)
    assert tnp.broadcast_shapes((2, 1), 3, (1, 1)) == (2, 3)
    with pytest.raises(ShapeError):
        tnp.broadcast_to(X, (2, 3))


def test_turning():
    for axis in (None, 0, -1, (0, 2)):
        close(tnp.flip(X, axis), np.flip(X, axis))
    close(tnp.fliplr(X), np.fliplr(X))
    close(tnp.flipud(X), np.flipud(X))
    for k in range(-1, 5):
        close(tnp.rot90(X, k), np.rot90(X, k))
        close(tnp.rot90(X, k, (2, 0)), np.rot90(X, k, (2, 0)))


@pytest.mark.parametrize("k", [-4, -1, 0, 1, 3, 6])
def test_diagonals(k):
    close(tnp.diagonal(X, k), np.diagonal(X, k))
    close(tnp.diagonal(X, k, 2, 0), np.diagonal(X, k, 2, 0))
    close(tnp.trace(X, k, 0, 2), np.trace(X, k, 0, 2), 8)
    for n in (0, 1, 4):
        close(tnp.diag(X.ravel()[:n], k), np.diag(X.ravel()[:n], k))
    close(tnp.diag(X[0], k), np.diag(X[0], k))


def test_fill_diagonal():
    want = X[0].copy()
    np.fill_diagonal(want, 9)
    close(tnp.fill_diagonal(X[0], 9), want)


def test_axes_and_shapes_are_any_sequence_of_integers():
    x = np.ones((2, 3), "float32")
    assert tnp.expand_dims(x, range(2)).shape == (1, 1, 2, 3)
    assert tnp.sum(x, axis=np.array([0, 1])).shape == ()
    assert tnp.transpose(x, range(1, -1, -1)).shape == (3, 2)
    assert tnp.reshape(x, np.array([3, -1])).shape == tnp.zeros(np.array([3, 2])).shape == (3, 2)
    assert tnp.broadcast_to(1.0, tnp.array([2, 3])).shape == (2, 3)
    assert tnp.ones(np.array([], "int32")).shape == ()
    assert tnp.reshape(x, tnp.array([-1, 2])).shape == (3, 2)
    with pytest.raises(ArgumentError, match="shape of integers"):
        tnp.zeros(np.array([2.5]))
    with pytest.raises(ArgumentError, match="shape of integers"):
        tnp.zeros("ab")


def test_several_arrays_of_an_axis_at_least():
    one, two = np.ones(3), np.ones((2, 2))
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        found, known = getattr(tnp, name)(one, two, 1.0), getattr(np, name)(one, two, 1.0)
        assert [x.shape for x in found] == [x.shape for x in known]
