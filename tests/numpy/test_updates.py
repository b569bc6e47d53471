"""x.at[index] against NumPy, over generated indices; modes, masks, dtypes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tests.numpy.test_indexing import cases, ramp
from tests.numpy.values import close
from tfn.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError


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


def test_all_of_an_array_under_new_axes():
    x, values = ramp((4, 5)), -1 - ramp((4, 1, 5, 1))
    got = tnp.asarray(x).at[:, None, ..., None].set(values)
    np.testing.assert_array_equal(np.asarray(got), values.reshape(4, 5))
    got = tnp.asarray(x).at[None].add(values[None, :, 0, :, 0])
    np.testing.assert_array_equal(np.asarray(got), x + values.reshape(4, 5))


def test_duplicates_add_up():
    x, i = tnp.zeros(3), tnp.array([0, 0, 1])
    close(x.at[i].add(1), np.float32([2, 1, 0]))
    close(x.at[i].subtract(np.float32([1, 2, 3])), np.float32([-3, -3, 0]))
    close((x + 2).at[i].multiply(3), np.float32([18, 6, 2]))
    close((x + 8).at[i].divide(2), np.float32([2, 4, 8]))
    close((x + 3).at[i].power(2), np.float32([81, 9, 3]))
    close(x.at[i].max(np.float32([4, 5, -1])), np.float32([5, 0, 0]))
    close(x.at[i].min(np.float32([4, -5, -1])), np.float32([-5, -1, 0]))


def test_modes_of_writing():
    x, i = tnp.arange(4.0), tnp.array([1, 10, -1, -10])
    close(x.at[i].set(9.0), np.float32([0, 9, 2, 9]))
    close(x.at[i].set(9.0, mode="drop"), np.float32([0, 9, 2, 9]))
    close(x.at[i].add(9.0, mode="clip"), np.float32([9, 10, 2, 21]))
    close(x.at[7].set(1, mode="drop"), np.arange(4, dtype=np.float32))
    close(x.at[7].set(1, mode="clip"), np.float32([0, 1, 2, 1]))
    with pytest.raises(OutOfBoundsError, match="index 7 is outside of axis 0"):
        x.at[7].set(1)
    with pytest.raises(ArgumentError, match="there is no index mode"):
        x.at[i].set(1, mode="wrong")


def test_masks_keep_the_shape_even_when_traced():
    x = ramp((3, 4))
    mask = x > 5

    @tfn.jit
    def change(x, mask):
        return x.at[mask].set(-1).at[mask[:, 0]].add(tnp.arange(4.0))

    want = x.copy()
    want[mask] = -1
    want[mask[:, 0]] += np.arange(4)
    close(change(x, mask), want)
    want = x.copy()
    want[mask] = np.arange(6)
    close(tnp.asarray(x).at[mask].set(tnp.arange(6)), want)


def test_inside_a_trace():
    x, i = ramp((4, 5)), tnp.array([3, 0])
    for index in [
        (i,),
        (slice(1, 3),),
        (2,),
        (slice(None), slice(None, None, 2)),
        (i, slice(1, 3)),
        (),
    ]:
        static = tuple(np.asarray(part) if isinstance(part, tfn.Array) else part for part in index)
        want = x.copy()
        want[static] = 7
        close(tfn.jit(lambda x, index=index: x.at[index].set(7))(x), want)


def test_values_must_fit():
    x = tnp.zeros((2, 3), "int32")
    with pytest.raises(ShapeError, match=r"x.at\[index\].set got incompatible shapes"):
        x.at[0].set(tnp.ones(2, "int32"))
    with pytest.raises(ShapeError) as caught:
        x.at[0].set(tnp.ones((2, 3), "int32"))
    assert caught.value.got == "values (2, 3), x[index] (3,)"
    with pytest.raises(DTypeError, match="floats cannot be put into an array of integers"):
        x.at[0].set(1.5)
    with pytest.raises(DTypeError, match="needs numbers"):
        tnp.array([True]).at[0].add(True)
    assert x.at[0].set(True).dtype == np.int32
    assert tnp.zeros(2, "bfloat16").at[0].add(1.5).dtype == tnp.bfloat16


def test_values_that_do_not_fit_are_cut_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("tfn.numpy.updates.CUTS", [True])
    x = tnp.arange(3)
    put = lambda x, y: (x.at[0].set(2.7), x.at[2].subtract(y))
    with pytest.warns(FutureWarning, match="floats cannot be put into an array of integers"):
        found = (*put(x, 0.7), *tfn.jit(put)(x, 0.7))
    assert [a.tolist() for a in found] == [[2, 1, 2], [0, 1, 1]] * 2
    assert all(a.dtype == np.int32 for a in found)
    with pytest.warns(FutureWarning, match="complex numbers"):
        assert tnp.ones(2).at[0].set(3 + 2j).tolist() == [3, 1]


def test_gradients():
    def f(x, v):
        return (x.at[tnp.array([0, 2])].set(v) * tnp.arange(1.0, 5)).sum()

    dx, dv = tfn.grad(f, (0, 1))(tnp.ones(4), tnp.ones(2))
    close(dx, np.float32([0, 2, 0, 4]))
    close(dv, np.float32([1, 3]))


def test_other_places_need_no_other_program():
    x = tnp.zeros(9)
    for i in range(9):
        x = x.at[i].set(i).at[i : i + 1].add(1)
    close(x, np.arange(1, 10, dtype=np.float32))


def test_put_along_axis():
    x, i = ramp((2, 3)), np.array([[2], [0]])
    want = x.copy()
    np.put_along_axis(want, i, -1, 1)
    close(tnp.put_along_axis(x, i, -1, 1), want)


def test_put_along_the_flat_array():
    x = np.arange(6.0).reshape(2, 3)
    want = x.copy()
    np.put_along_axis(want, np.array([1, 5]), 9.0, None)
    np.testing.assert_array_equal(tnp.put_along_axis(x, np.array([1, 5]), 9.0, None), want)
    clipped = tnp.put_along_axis(x[0], np.array([7]), 9.0, 0, mode="clip")
    assert clipped.tolist() == [0, 1, 9]
