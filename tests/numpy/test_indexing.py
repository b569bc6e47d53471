"""x[index] against NumPy over generated indices; modes, errors, programs that are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close
from tfn.eager import operands
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    OutOfBoundsError,
    ShapeError,
)

SHAPES = [(7,), (1,), (0,), (3, 5), (2, 3, 4), (4, 1, 3)]


@st.composite
def indices(draw, shape, advanced):
    """An index for an array of `shape`: integers, slices, None, ..., integer arrays, masks."""
    items = []
    grid = draw(st.sampled_from([(), (3,), (2, 3)])) if advanced else None
    used = draw(st.integers(0, len(shape)))
    dots = draw(st.integers(0, used)) if draw(st.booleans()) else None
    axis = 0
    for i in range(used):
        if i == dots:
            items.append(...)
            axis = len(shape) - (used - i)
        if draw(st.integers(0, 5)) == 0:
            items.append(None)
        size = shape[axis]
        kinds = ["slice"] + (["int"] if size else []) + (["array", "mask"] if advanced else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "array" and not size:
            kind = "slice"
        if kind == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            step = draw(st.none() | st.integers(-3, 3).filter(bool))
            items.append(slice(draw(bound), draw(bound), step))
        elif kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "mask":
            mask = np.zeros(size, bool)
            mask[: (grid[-1] if grid else 1)] = True
            items.append(mask if mask.sum() == (grid[-1] if grid else 1) else slice(None))
        else:
            part = draw(st.sampled_from([grid, grid[-1:], ()]))
            items.append(
                np.array(
                    draw(
                        st.lists(
                            st.integers(-size, size - 1),
                            min_size=int(np.prod(part)),
                            max_size=int(np.prod(part)),
                        )
                    ),
                    np.int32,
                ).reshape(part)
            )
        axis += 1
    return tuple(items)


@st.composite
def cases(draw, advanced):
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(indices(shape, advanced))


def ramp(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def check_get(case):
    shape, index = case
    x = ramp(shape)
    got = tnp.asarray(x)[index]
    assert got.shape == x[index].shape
    np.testing.assert_array_equal(np.asarray(got), x[index])


@settings(max_examples=60, deadline=None)
@given(cases(advanced=False))
def test_basic_indices_as_numpy(case):
    check_get(case)


@settings(max_examples=100, deadline=None)
@given(cases(advanced=True))
def test_advanced_indices_as_numpy(case):
    check_get(case)


def test_traced_indices_and_arrays():
    x = ramp((4, 5))
    i = np.array([3, 0], np.int32)
    for index in [
        (i,),
        (slice(None), i),
        (2, i),
        (slice(1, 3), -1),
        (None, ..., i),
        (slice(None, None, -2),),
    ]:
        got = tfn.jit(lambda x, index=index: x[index])(x)
        close(got, x[index])
    close(tfn.jit(lambda x, i: x[i])(x, i), x[i])
    close(tfn.jit(lambda x, i: x[i, i + 1])(x, tnp.array(-3)), x[1, 3])
    close(tfn.jit(lambda x, i: x[i[:, None], i[None, :]])(x, i), x[i[:, None], i[None, :]])


def test_dynamic_indices_are_moved_to_the_border():
    x, i = tnp.arange(4), tnp.array([1, 10, -1, -10])
    close(x[i], np.int32([1, 3, 3, 0]))
    close(x[tnp.array(9)], np.int32(3))


def test_modes_of_reading():
    x, i = tnp.arange(4.0), tnp.array([1, 10, -1, -10])
    close(x.at[i].get(mode="clip"), np.float32([1, 3, 3, 0]))
    close(x.at[i].get(mode="fill"), np.float32([1, np.nan, 3, np.nan]))
    close(x.at[i].get(mode="fill", fill_value=-5), np.float32([1, -5, 3, -5]))
    close(x.at[10].get(mode="fill", fill_value=7), np.float32(7))
    close(x.at[10].get(mode="clip"), np.float32(3))
    rows = tnp.arange(12).reshape(3, 4).at[:, i].get(mode="fill")
    least = np.iinfo(np.int32).min
    close(rows[1], np.int32([5, least, 7, least]))
    assert tnp.zeros(2, "uint8").at[5].get(mode="fill") == 255
    with pytest.raises(ArgumentError, match="there is no index mode 'wrap'"):
        x.at[i].get(mode="wrap")


def test_static_indices_outside_are_errors():
    x = tnp.ones((4, 5))
    for index in [4, -5, (0, 5), (slice(None), [0, 7]), np.array([-9])]:
        with pytest.raises(OutOfBoundsError, match="is outside of axis"):
            x[index]
    with pytest.raises(
        OutOfBoundsError, match="index 4 is outside of axis 0, which has 4 elements"
    ):
        tfn.jit(lambda x: x[4])(x)
    with pytest.raises(OutOfBoundsError, match="3 indices for an array of 2 axes"):
        x[0, 0, 0]
    with pytest.raises(OutOfBoundsError, match="which is empty"):
        tnp.zeros((0, 2))[tnp.array([0])]
    assert x[7:9].shape == (0, 5)


def test_unchecked_static_indices_are_as_dynamic_ones(monkeypatch):
    monkeypatch.setattr("tfn.numpy.indexing.STATIC_CHECKS", [False])
    x = tnp.asarray(ramp((3, 4)))
    rows = lambda x: (x[3], x[-4], x[1, 9], x[:, -7], x[np.array([0, 5])], x.at[8].get())
    for found in (rows(x), tfn.jit(rows)(x)):
        for got, want in zip(found, (x[2], x[0], x[1, 3], x[:, 0], x[tnp.array([0, 2])], x[2])):
            close(got, np.asarray(want))
    writes = lambda x: (x.at[3].set(0), x.at[-4].add(1), x.at[1, 7].multiply(2))
    for found in (writes(x), tfn.jit(writes)(x)):
        for got in found:
            close(got, np.asarray(x))
    assert np.argwhere(np.asarray(tfn.grad(lambda x: x[7, 1])(x))).tolist() == [[2, 1]]
    with pytest.raises(OutOfBoundsError, match="3 indices for an array of 2 axes"):
        x[0, 0, 0]


@pytest.mark.parametrize("bad", ["a", 1.5, object(), np.array([1.5]), (..., ...), slice(0, 2, 0)])
def test_values_that_are_no_indices_are_refused(bad):
    with pytest.raises(DTypeError if isinstance(bad, np.ndarray) else ArgumentError):
        tnp.ones((2, 2))[bad]


def test_traced_bounds_of_a_slice_point_to_dynamic_slice():
    with pytest.raises(ConcretizationTypeError):
        tfn.jit(lambda x, n: x[:n])(tnp.ones(3), 2)


def test_masks():
    x = ramp((3, 4))
    for mask in (x > 4, x[:, 0] > 3, np.zeros((3, 4), bool)):
        close(tnp.asarray(x)[mask], x[mask])
        close(tnp.asarray(x)[tnp.asarray(mask)], x[mask])
    close(tnp.asarray(x)[:, x[0] > 1], x[:, x[0] > 1])
    with pytest.raises(ShapeError, match="a mask needs the shape"):
        tnp.asarray(x)[np.ones(2, bool)]


def test_other_places_need_no_other_program():
    x = tnp.arange(20)
    _ = x[3], x[2:6]
    before = len(operands._PROGRAMS)
    for i in range(-20, 20):
        assert int(x[i]) == i % 20
    for i in range(16):
        assert x[i : i + 4].tolist() == list(range(i, i + 4))
    for i in range(4):
        x[tnp.array([i, i + 1])]
    assert len(operands._PROGRAMS) <= before + 1


def test_gradients_of_indexing_add_up():
    i = tnp.array([0, 2, 0])
    close(
        tfn.grad(lambda x: (x[i] * tnp.array([1.0, 2.0, 4.0])).sum())(tnp.ones(3)),
        np.float32([5, 0, 2]),
    )
    close(tfn.grad(lambda x: x[::-2][0] * 3 + x[1])(tnp.ones(4)), np.float32([0, 1, 0, 3]))
    close(tfn.vmap(lambda x, i: x[i])(ramp((3, 4)), tnp.array([1, 0, 3])), np.float32([1, 4, 11]))


def test_take():
    x, i = ramp((3, 4)), np.array([[1, -1], [0, 2]])
    for axis in (None, 0, 1, -1):
        close(tnp.take(x, i, axis), np.take(x, i, axis))
    close(tnp.take(np.float32([1, 2]), tnp.array([1, 5, -1])), np.float32([2, np.nan, 2]))
    close(tnp.take(np.float32([1, 2]), tnp.array([1, 5, -9]), mode="clip"), np.float32([2, 2, 1]))
    close(tnp.take(np.arange(3), np.array([4, -4]), mode="wrap"), np.array([1, 2]))
    with pytest.raises(DTypeError, match="take needs integer indices"):
        tnp.take(x, tnp.ones(2))


def test_take_along_axis():
    x = ramp((3, 4))[::-1].copy()
    for axis in (0, 1, -1):
        i = np.argsort(x, axis)
        close(tnp.take_along_axis(x, i, axis), np.take_along_axis(x, i, axis))
    close(tnp.take_along_axis(x, np.array([[1], [0], [3]]), 1), x[[0, 1, 2], [1, 0, 3]][:, None])
    with pytest.raises(ShapeError):
        tnp.take_along_axis(x, np.zeros((2, 1), int), 1)


def test_open_grids():
    x = ramp((3, 4))
    close(tnp.asarray(x)[tnp.ix_(np.array([2, 0]), np.array([1, 3]))], x[np.ix_([2, 0], [1, 3])])


@pytest.mark.parametrize("truth", [True, False])
def test_a_single_truth_is_a_new_axis(truth):
    x = np.arange(6).reshape(2, 3)
    a = tnp.array(x)
    for index in (truth, np.array(truth), (truth, 1), (slice(1), truth), (Ellipsis, truth)):
        close(a[index], x[index].astype(np.int32))
    close(a[..., True, np.array([2, 0])], x[..., True, [2, 0]].astype(np.int32))
    close(a[tnp.array(truth)], x[truth].astype(np.int32))
    close(a.at[tnp.array(truth)].set(9), np.where(truth, 9, x).astype(np.int32))
    masked = tfn.jit(lambda m: a.at[m].add(1))(tnp.array(truth))
    close(masked, (x + truth).astype(np.int32))


def test_negative_indices_may_be_outside():
    x = np.float64([1, 2, 3])
    places = np.array([-1, 0, 5])
    got = tnp.take_along_axis(x, places, wrap_negative_indices=False)
    np.testing.assert_array_equal(got, [np.nan, 1, np.nan])
    clipped = tnp.take_along_axis(x, places, mode="clip", wrap_negative_indices=False)
    assert clipped.tolist() == [1, 1, 3]
