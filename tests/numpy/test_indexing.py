"""x[index] and x.at[index] against NumPy, over generated indices."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn.numpy as tnp

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


@settings(max_examples=80, deadline=None)
@given(cases(advanced=True), st.sampled_from(["set", "add", "multiply", "max"]))
def test_updates_as_numpy(case, how):
    shape, index = case
    x = ramp(shape)
    values = np.full(x[index].shape, 3, np.float32)  # constant: which of two sets wins is open
    want = x.copy()
    if how == "set":
        want[index] = values
    else:
        at = {"add": np.add, "multiply": np.multiply, "max": np.maximum}[how].at
        at(want, index, values)
    got = getattr(tnp.asarray(x).at[index], how)(values)
    np.testing.assert_array_equal(np.asarray(got), want)


def test_updates_put_each_value_in_its_place():
    x, values = ramp((4, 5, 6)), -1 - ramp((2, 3, 2))
    index = (slice(1, 3), slice(None, None, 2), np.array([5, 0]))
    want = x.copy()
    want[index] = values
    np.testing.assert_array_equal(np.asarray(tnp.asarray(x).at[index].set(values)), want)
    index = (np.array([3, 1]), slice(1, 4), np.array([5, 0]))
    values = -1 - ramp((2, 3))
    want = x.copy()
    want[index] = values
    np.testing.assert_array_equal(np.asarray(tnp.asarray(x).at[index].set(values)), want)
    want = x.copy()
    want[:, None, 2, ::-1] = 7 * ramp((4, 1, 6))
    got = tnp.asarray(x).at[:, None, 2, ::-1].set(7 * ramp((4, 1, 6)))
    np.testing.assert_array_equal(np.asarray(got), want)
