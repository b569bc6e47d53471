"""Joins, cuts, repetitions and padding against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, ShapeError

X = sample("float32", (2, 3, 5))


def test_joins():
    y = np.arange(12).reshape(2, 3, 2).astype(np.int8)
    got = tnp.concatenate([X, y], axis=-1)
    assert got.dtype == np.float32
    close(got, np.concatenate([X, y], axis=-1).astype(np.float32))
    close(tnp.concatenate([X, y], axis=None), np.concatenate([X, y], axis=None).astype(np.float32))
    close(tnp.concatenate([X[:0], X]), X)
    for axis in (0, 1, -1):
        close(tnp.stack([X, X + 1], axis), np.stack([X, X + 1], axis))
    for function in ("vstack", "hstack", "dstack", "column_stack"):
        for parts in ([X[0, 0], X[0, 1]], [X[0], X[1]]):
            close(getattr(tnp, function)(parts), getattr(np, function)(parts))
    close(tnp.append(X[0], X[1], 0), np.append(X[0], X[1], 0))
    assert tnp.concatenate([1.0 * tnp.ones(2), np.ones(1, np.float16)], dtype="bfloat16").dtype == (
        tnp.bfloat16
    )


def test_errors_of_joins():
    with pytest.raises(ShapeError, match="concatenate needs equal shapes but for axis 0"):
        tnp.concatenate([tnp.ones((2, 3)), tnp.ones((2, 4))])
    with pytest.raises(ShapeError, match="stack needs arrays of one shape"):
        tnp.stack([tnp.ones(2), tnp.ones(3)])
    with pytest.raises(ArgumentError, match="at least one array"):
        tnp.concatenate([])


@pytest.mark.parametrize("cut", [1, 3, [1], [0, 2, 2], [-1], [7, 9]])
def test_splits(cut):
    for got, want in zip(tnp.array_split(X, cut, 1), np.array_split(X, cut, 1), strict=True):
        close(got, want)
    for got, want in zip(tnp.split(X, cut, 1), np.split(X, cut, 1), strict=True):
        close(got, want)


def test_uneven_splits():
    for got, want in zip(tnp.array_split(X, 3, 2), np.array_split(X, 3, 2), strict=True):
        close(got, want)
    with pytest.raises(ShapeError, match="split cannot cut 5 elements into 2 equal parts"):
        tnp.split(X, 2, -1)
    for got, want in zip(tnp.unstack(X, axis=1), np.moveaxis(X, 1, 0), strict=True):
        close(got, want)
    assert len(tnp.hsplit(X, 3)) == 3 and len(tnp.vsplit(X, 2)) == 2


@pytest.mark.parametrize("counts", [2, (2,), (2, 1), (1, 2, 3), (2, 1, 1, 2), 0])
def test_tile(counts):
    close(tnp.tile(X, counts), np.tile(X, counts))


def test_repeat():
    for axis in (None, 0, -1):
        close(tnp.repeat(X, 3, axis), np.repeat(X, 3, axis))
        close(tnp.repeat(X, 0, axis), np.repeat(X, 0, axis))
    close(tnp.repeat(X, [2, 0, 1], 1), np.repeat(X, [2, 0, 1], 1))
    close(tnp.repeat(X, np.array([1, 2]), 0), np.repeat(X, [1, 2], 0))
    close(
        tnp.repeat(X[0, 0], np.array([1, 0, 2, 0, 0]), total_repeat_length=5),
        X[0, 0][[0, 2, 2, 2, 2]],
    )


@pytest.mark.parametrize("shift", [0, 1, -2, 13, (1, 2)])
def test_roll(shift):
    axis = (0, 2) if isinstance(shift, tuple) else None
    close(tnp.roll(X, shift, axis), np.roll(X, shift, axis))
    if axis is None:
        close(tnp.roll(X, shift, 1), np.roll(X, shift, 1))
        close(tnp.roll(X, shift, (0, 1)), np.roll(X, shift, (0, 1)))
    close(tnp.roll(np.zeros((0, 2)), 1, 0), np.zeros((0, 2)))


def test_stacks_of_a_dtype():
    x = np.ones(2, "int32")
    for f in (tnp.vstack, tnp.hstack, tnp.dstack):
        assert f([x, x], dtype="float32").dtype == "float32"


@pytest.mark.parametrize("shift", [1, -4, np.int8(7)])
def test_roll_by_a_traced_shift(shift):
    rolled = tfn.jit(lambda x, s, t: (tnp.roll(x, s), tnp.roll(x, (s, t), (0, 2))))
    flat, both = rolled(X, shift, 2)
    close(flat, np.roll(X, shift))
    close(both, np.roll(X, (shift, 2), (0, 2)))
    close(tfn.vmap(lambda s: tnp.roll(X, s, 1))(np.arange(3)), [np.roll(X, i, 1) for i in range(3)])
    with pytest.raises(ArgumentError, match="an integer shift"):
        tfn.jit(tnp.roll)(X, 1.0)


def test_roll_by_several_shifts_of_one_axis():
    close(tnp.roll(X, np.array([1, 1]), 0), np.roll(X, (1, 1), 0))
