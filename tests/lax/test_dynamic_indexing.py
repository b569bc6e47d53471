"""Dynamic slices, sorting, top_k against NumPy."""

import numpy as np
import pytest

import tfn
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, ShapeError

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def starts(at: tuple[int, ...], as_arrays: bool) -> list[object]:
    return [np.int32(i) if as_arrays else i for i in at]


@pytest.mark.parametrize("as_arrays", [False, True])
@pytest.mark.parametrize(
    ("at", "fits"),
    [((0, 0), (0, 0)), ((2, 1), (2, 1)), ((9, 9), (2, 2)), ((-1, -9), (2, 0)), ((-3, -4), (1, 1))],
)
def test_starts_wrap_once_and_are_clamped(
    at: tuple[int, int], fits: tuple[int, int], as_arrays: bool
) -> None:
    given = [tfn.numpy.asarray(i) for i in at] if as_arrays else list(at)
    i, j = fits
    block = X[i : i + 2, j : j + 3]
    np.testing.assert_array_equal(lax.dynamic_slice(X, given, (2, 3)), block)
    np.testing.assert_array_equal(lax.dynamic_slice(X, np.array(at), (2, 3)), block)
    expected = X.copy()
    expected[i : i + 2, j : j + 3] = -1
    update = np.full((2, 3), -1, np.float32)
    np.testing.assert_array_equal(lax.dynamic_update_slice(X, update, given), expected)


def test_mixed_and_wide_starts() -> None:
    at = (0, tfn.numpy.asarray(np.uint32(2**32 - 1)))  # would be -1 in 32 bits
    np.testing.assert_array_equal(lax.dynamic_slice(X, at, (1, 2)), X[:1, 3:])


def test_along_one_axis() -> None:
    at = tfn.numpy.asarray(2)
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(X, at, 2, 1), X[:, 2:4])
    np.testing.assert_array_equal(lax.dynamic_index_in_dim(X, at, 0, keepdims=False), X[2])
    out = lax.dynamic_update_index_in_dim(X, X[0], at, 0)
    np.testing.assert_array_equal(out[2], X[0])
    out = lax.dynamic_update_slice_in_dim(X, X[:, :1], at, 1)
    np.testing.assert_array_equal(out[:, 2], X[:, 0])


def test_slices_of_scalars_and_nothing() -> None:
    assert lax.dynamic_slice(np.float32(3), (), ()).tolist() == 3
    assert lax.dynamic_update_slice(np.float32(3), np.float32(4), ()).tolist() == 4
    assert lax.dynamic_slice(X, (1, 1), (0, 2)).shape == (0, 2)


def test_slices_refuse() -> None:
    with pytest.raises(ShapeError, match="fits into it"):
        lax.dynamic_slice(X, (0, 0), (5, 1))
    with pytest.raises(ShapeError, match="for each axis"):
        lax.dynamic_slice(X, (0,), (1, 1))
    with pytest.raises(DTypeError, match="scalar integer"):
        lax.dynamic_slice(X, [tfn.numpy.asarray(1.5), 0], (1, 1))
    with pytest.raises(DTypeError, match="one dtype"):
        lax.dynamic_update_slice(X, np.ones((1, 1), np.int32), (0, 0))


def test_sort_is_stable_and_puts_nan_last() -> None:
    x = np.array([[3, 1, 2, 1, np.nan, -np.inf, 3], [0, -0.0, 5, 5, np.nan, 1, 2]], np.float32)
    np.testing.assert_array_equal(lax.sort(x), np.sort(x))
    np.testing.assert_array_equal(lax.sort(x, 0), np.sort(x, 0))
    keys, order = lax.sort((x, np.broadcast_to(np.arange(7), (2, 7))), num_keys=1)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(keys, np.sort(x))


def test_sort_by_two_keys() -> None:
    a, b, c = np.array([1, 0, 1, 0]), np.array([3.0, 2, 1, 5]), np.arange(4)
    assert [x.tolist() for x in lax.sort((a, b, c), num_keys=2)] == [
        [0, 0, 1, 1],
        [2, 5, 1, 3],
        [1, 3, 2, 0],
    ]
    with pytest.raises(ArgumentError, match="at least one key"):
        lax.sort((a, b), num_keys=3)


def test_optimization_barrier_changes_nothing() -> None:
    out = lax.optimization_barrier({"a": X, "b": (X[0], None)})
    np.testing.assert_array_equal(out["a"], X)
    assert out["b"][1] is None


def test_slices_are_traced_differentiated_and_mapped() -> None:
    x = tfn.numpy.asarray(X)
    row = tfn.jit(lambda x, i: lax.dynamic_index_in_dim(x, i, 0, keepdims=False))
    np.testing.assert_array_equal(row(x, 2), X[2])
    slope = tfn.grad(lambda x: lax.dynamic_slice(x, (tfn.numpy.asarray(3), 1), (2, 2)).sum())(x)
    expected = np.zeros_like(X)
    expected[2:4, 1:3] = 1
    np.testing.assert_array_equal(slope, expected)
    update = tfn.numpy.ones((1, 2))
    put = lambda x, u, i: (lax.dynamic_update_slice(x, u, (i, 0)) ** 2).sum()
    dx, du = tfn.grad(put, argnums=(0, 1))(x, update, 1)
    expected = 2 * X
    expected[1, :2] = 0
    np.testing.assert_array_equal(dx, expected)
    np.testing.assert_array_equal(du, [[2, 2]])
    mapped = tfn.vmap(lambda i: lax.dynamic_slice_in_dim(x, i, 2, 1))(np.array([0, 3, 9]))
    np.testing.assert_array_equal(mapped, np.stack([X[:, :2], X[:, 3:], X[:, 3:]]))


def test_sort_and_top_k_are_differentiated() -> None:
    x = tfn.numpy.asarray(np.array([3.0, 1, 2], np.float32))
    weights = np.array([10, 20, 30], np.float32)
    slope = tfn.grad(lambda x: (lax.sort(x) * weights).sum())(x)
    np.testing.assert_array_equal(slope, [30, 10, 20])
    slope = tfn.grad(lambda x: lax.top_k(x, 2)[0].sum())(x)
    np.testing.assert_array_equal(slope, [1, 0, 1])


def test_keys_with_values_and_the_smallest() -> None:
    keys, values = np.array([[3, 1, 2], [0, 5, 4]]), np.arange(6.0).reshape(2, 3)
    actual = lax.sort_key_val(keys, values, 1)
    assert actual[0].tolist() == [[1, 2, 3], [0, 4, 5]]
    assert actual[1].tolist() == [[1, 2, 0], [3, 5, 4]]
    least, places = lax.approx_min_k(values, 2)
    assert least.tolist() == [[0, 1], [3, 4]] and places.tolist() == [[0, 1], [0, 1]]
    most, places = lax.approx_max_k(values, 1, reduction_dimension=0)
    assert most.tolist() == [[3, 4, 5]] and places.tolist() == [[1, 1, 1]]
    with pytest.raises(ArgumentError, match="0 <= k <= 3"):
        lax.approx_min_k(values, 4)


def test_a_function_for_the_platform() -> None:
    assert lax.platform_dependent(2, cpu=lambda x: x + 1, default=lambda x: x) == 3
    assert lax.platform_dependent(2, cuda=lambda x: x + 1, default=lambda x: x) == 2
    with pytest.raises(ArgumentError, match="cpu, or a default"):
        lax.platform_dependent(2, cuda=lambda x: x + 1)
