"""Reductions over axes and windows against NumPy."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import covering
from tfn import lax
from tfn.errors import DTypeError, ShapeError, TreeError

X = np.random.default_rng(1).normal(size=(3, 10, 12)).astype(np.float32)


def test_extremes_of_complex_numbers() -> None:
    x = np.complex64([1j, 2, 1 + 5j, 2j])
    start = np.complex64(complex(-np.inf, -np.inf))
    assert lax.reduce(x, start, lax.max, (0,)) == 2
    assert lax.reduce_window(x, start, lax.max, (2,), (1,), "VALID").tolist() == [2, 2, 1 + 5j]


def test_axes() -> None:
    np.testing.assert_allclose(lax.reduce_sum(X, (0, 2)), X.sum((0, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(lax.reduce_max(X, (1,)), X.max(1))
    np.testing.assert_array_equal(lax.reduce_min(X), X.min())
    np.testing.assert_allclose(lax.reduce_prod(X[:, :3], (1,)), X[:, :3].prod(1), rtol=1e-5)
    np.testing.assert_array_equal(lax.reduce_or(X > 2, (1,)), (X > 2).any(1))
    np.testing.assert_array_equal(lax.reduce_and(X > -2, (1,)), (X > -2).all(1))
    np.testing.assert_array_equal(lax.reduce(X, 0.0, lax.max, (0,)), np.maximum(X.max(0), 0))
    assert lax.reduce_max(np.zeros((0,), np.float32)).tolist() == -np.inf
    with pytest.raises(DTypeError, match="need booleans"):
        lax.reduce_or(np.arange(3))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, np.bool_])
def test_argmax_takes_the_first(dtype: type) -> None:
    x = np.array([[3, 1, 3, 0], [0, 0, 0, 0], [1, 2, 2, 5]], dtype)
    for axis in (0, 1, -1):
        np.testing.assert_array_equal(lax.argmax(x, axis), x.argmax(axis))
        np.testing.assert_array_equal(lax.argmin(x, axis), x.argmin(axis))


def test_argmax_takes_the_first_nan() -> None:
    x = np.array([[1, np.nan, 5, np.nan], [np.nan] * 4, [-np.inf] * 4], np.float32)
    np.testing.assert_array_equal(lax.argmax(x, 1, np.int64), [1, 0, 0])
    np.testing.assert_array_equal(lax.argmin(x, 1), [1, 0, 0])
    assert lax.argmax(x, 1, np.int64).dtype == np.int64
    with pytest.raises(ShapeError, match="axis with elements"):
        lax.argmax(np.zeros((0,), np.float32), 0)
    with pytest.raises(DTypeError, match="an index is an integer"):
        lax.argmax(x, 0, np.float32)
    assert lax.argmax(x, 1, np.uint8).dtype == np.uint8


def windows(
    x: np.ndarray,
    fold: Callable[..., np.ndarray],
    pad: float,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    pads: list[tuple[int, int]],
    spread: tuple[int, ...],
) -> np.ndarray:
    x = np.pad(x, pads, constant_values=pad)
    reach = [(w - 1) * d + 1 for w, d in zip(window, spread)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach)
    view = view[tuple(slice(None, None, s) for s in strides)]
    view = view[(..., *(slice(None, None, d) for d in spread))]
    return fold(view, axis=tuple(range(x.ndim, 2 * x.ndim)))


CASES = [
    ((1, 2, 2), (1, 2, 2), (1, 1, 1)),
    ((1, 3, 2), (1, 2, 1), (1, 1, 1)),
    ((2, 9, 10), (1, 1, 1), (1, 1, 1)),
    ((1, 3, 2), (1, 2, 1), (1, 2, 3)),
    ((1, 10, 12), (1, 1, 1), (1, 1, 1)),
    ((1, 9, 1), (1, 9, 1), (1, 1, 1)),
]
FOLDS = {
    "max": (lax.max, np.max, -np.inf),
    "min": (lax.min, np.min, np.inf),
    "add": (lax.add, np.sum, 0.0),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize(("window", "strides", "spread"), CASES)
def test_reduce_window(
    name: str, window: tuple[int, ...], strides: tuple[int, ...], spread: tuple[int, ...]
) -> None:
    computation, fold, pad = FOLDS[name]
    for pads in ([(0, 0)] * 3, [(0, 0), (1, 2), (2, 0)]):
        expected = windows(X, fold, pad, window, strides, pads, spread)
        out = lax.reduce_window(X, pad, computation, window, strides, pads, window_dilation=spread)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_reduce_window_in_words() -> None:
    ones = np.ones((1, 5, 5, 1), np.float32)
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    same = lax.reduce_window(ones, 0.0, lax.add, window, strides, "SAME")
    np.testing.assert_array_equal(same[0, :, :, 0], [[4, 6, 4], [6, 9, 6], [4, 6, 4]])
    assert lax.reduce_window(ones, 1.5, lax.add, window, strides, "VALID").tolist()[0][0][0] == [
        10.5
    ]
    assert lax.reduce_window(ones, 0.0, lax.add, (1, 6, 1, 1), None, "VALID").shape == (1, 0, 5, 1)


def test_reduce_window_keeps_nan_and_integers() -> None:
    x = np.array([1, np.nan, 3, 4], np.float32)
    np.testing.assert_array_equal(
        lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID"), [np.nan, 4]
    )
    i = np.array([-5, -7, -9], np.int8)
    np.testing.assert_array_equal(lax.reduce_window(i, -128, lax.max, (2,), (2,), "SAME"), [-5, -9])


def test_reduce_window_refuses() -> None:
    with pytest.raises(ShapeError, match="for each axis"):
        lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), "VALID")
    sizes = (1, 2, 2), None, "VALID"
    first = lambda a, b: a
    with pytest.raises(TreeError, match="reduce_window needs one initial value"):
        lax.reduce_window((X, X), 0.0, first, *sizes)
    with pytest.raises(ShapeError, match="reduce_window needs operands of one shape"):
        lax.reduce_window((X, X[0]), (0.0, 0.0), first, *sizes)
    with pytest.raises(ShapeError, match="no operand"):
        lax.reduce_window((), (), first, *sizes)
    with pytest.raises(TreeError, match="reduce_window must return what it takes"):
        lax.reduce_window((X, X), (0.0, 0.0), lambda a, b: a[0], *sizes)
    with pytest.raises(DTypeError, match="reduce_window must return the dtypes"):
        lax.reduce_window((X, X > 0), (0.0, False), lambda a, b: (a[0], b[0]), *sizes)


def composed(first: Any, second: Any) -> Any:
    """Affine maps one after the other: associative, but not commutative."""
    (a, b), (c, d) = first, second
    return a * c, b * c + d


@covering("case, pads", CASES, [[(0, 0), (1, 2), (2, 0)], "SAME"])
def test_reduce_window_of_two_arrays(case: tuple[tuple[int, ...], ...], pads: Any) -> None:
    window, strides, spread = case
    a, b = np.random.default_rng(4).integers(-3, 4, (2, *X.shape)).astype(np.int32)
    reduced = functools.partial(
        lax.reduce_window,
        init_value=(1, 0),
        computation=composed,
        window_dimensions=window,
        window_strides=strides,
        padding=pads,
        window_dilation=spread,
    )
    out = reduced((a, b))
    if pads == "SAME":
        reach = [(w - 1) * d + 1 for w, d in zip(window, spread, strict=True)]
        pads = lax.padtype_to_pads(X.shape, reach, strides, pads)

    elements = [*zip(a.ravel().tolist(), b.ravel().tolist()), (1, 0)]

    def fold(places: Any, axis: tuple[int, ...]) -> Any:
        return [[elements[i] for i in row.ravel()] for row in places.reshape(-1, np.prod(window))]

    rows = windows(np.arange(X.size).reshape(X.shape), fold, -1, window, strides, pads, spread)
    want = np.array([functools.reduce(composed, row) for row in rows], object)
    for i in range(2):
        expected = (want[:, i] & 0xFFFFFFFF).astype(np.uint32)
        np.testing.assert_array_equal(np.asarray(out[i]).ravel().view(np.uint32), expected)
    jitted = tfn.jit(lambda a, b: reduced((a, b)))(a, b)
    mapped = tfn.vmap(lambda a, b: reduced((a, b)), in_axes=(0, None))(a[None], b)
    for i in range(2):
        np.testing.assert_array_equal(jitted[i], out[i])
        np.testing.assert_array_equal(mapped[i][0], out[i])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("window", [2, 12])
def test_reduce_window_of_dtypes_together(dtype: str, window: int) -> None:
    """The value of each window where another array is largest, as max pooling with indices."""
    keys = np.random.default_rng(1).permutation(24).astype(np.float32)
    values = (np.arange(24) % 7).astype(dtype) if dtype != "bfloat16" else np.arange(24.0)
    values = tnp.array(values, dtype)

    def larger(x: Any, y: Any) -> Any:
        return {name: tnp.where(y["key"] > x["key"], y[name], x[name]) for name in x}

    operand, init = {"key": keys, "value": values}, {"key": -np.inf, "value": 0}
    out = lax.reduce_window(operand, init, larger, (window,), (window,), "VALID")
    rows = keys.reshape(-1, window)
    best = rows.argmax(1) + np.arange(0, 24, window)
    np.testing.assert_array_equal(out["key"], rows.max(1))
    np.testing.assert_array_equal(out["value"], values[best])
    assert out["value"].dtype == values.dtype


def test_reduce_window_by_a_function_of_the_user() -> None:
    x = np.arange(1.0, 7.0)
    product = lax.reduce_window(x, 1.0, lambda a, b: a * b, (2,), None, "SAME")
    assert product.tolist() == [2.0, 6.0, 12.0, 20.0, 30.0, 6.0]
    spread = lax.reduce_window(x[:3], 1.0, lambda a, b: a * b, (2,), (1,), "VALID", (2,))
    assert spread.tolist() == [1.0, 2.0, 2.0, 3.0]
    none = lax.reduce_window((x, x), (1.0, 0.0), composed, (9,), None, "VALID")
    assert [y.shape for y in none] == [(0,), (0,)]
    slope = tfn.grad(
        lambda x: lax.reduce_window((x, x), (1.0, 0.0), composed, (3,), (3,), "VALID")[1].sum()
    )
    assert slope(tnp.array([2.0, 3.0, 5.0])).tolist() == [15.0, 15.0, 10.0]


@pytest.mark.parametrize(("window", "strides", "spread"), CASES)
def test_gradient_of_window_sums(
    window: tuple[int, ...], strides: tuple[int, ...], spread: tuple[int, ...]
) -> None:
    """``<sums(x), ct> == <x, gradient>``, for sums are linear."""

    def sums(x: tfn.Array) -> tfn.Array:
        return lax.reduce_window(x, 0.0, lax.add, window, strides, "SAME", window_dilation=spread)

    ct = np.random.default_rng(2).normal(size=sums(X).shape).astype(np.float32)
    slope = tfn.grad(lambda x: (sums(x) * ct).sum())(tfn.numpy.asarray(X))
    np.testing.assert_allclose(np.vdot(sums(X), ct), np.vdot(X, slope), rtol=1e-3)


def test_gradient_of_window_maxima() -> None:
    x = np.random.default_rng(5).permutation(36).astype(np.float32).reshape(6, 6)
    slope = tfn.grad(
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 3), (1, 1), "VALID").sum()
    )(tfn.numpy.asarray(x))
    expected = np.zeros((6, 6))
    for i, j in np.ndindex(4, 4):
        a, b = np.unravel_index(x[i : i + 3, j : j + 3].argmax(), (3, 3))
        expected[i + a, j + b] += 1
    np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_derivative_at_nan_is_that_of_every_dtype(dtype: str) -> None:
    """The identity as a scalar of NumPy's is no operand, whether or not Python calls it a float."""
    lowest = np.dtype(dtype).type(-np.inf)
    pooled = lambda x: lax.reduce_window(x, lowest, lax.max, [1], [1], "SAME")
    assert tfn.jacfwd(pooled)(tnp.array([np.nan], dtype)).tolist() == [[1.0]]
    assert "max" not in str(tfn.make_jaxpr(pooled)(tnp.ones(2, dtype)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 7, 16, 37, 1000])
def test_zeros_of_both_signs_in_any_order(size: int, dtype: str) -> None:
    """0.0 is the larger, -0.0 the smaller, one by one, in vectors, windows and reductions."""
    draw = np.random.default_rng(size)
    x, y = (tnp.array(draw.choice([0.0, -0.0], size), dtype) for _ in range(2))
    a, b = np.signbit(np.asarray(x)), np.signbit(np.asarray(y))
    for larger, smaller in (
        (tnp.maximum(x, y), tnp.minimum(x, y)),
        tfn.jit(lambda x, y: (tnp.maximum(x, y), tnp.minimum(x, y)))(x, y),
    ):
        assert (np.signbit(larger) == (a & b)).all() and (np.signbit(smaller) == (a | b)).all()
    assert bool(np.signbit(x.max())) == a.all() and bool(np.signbit(x.min())) == a.any()
    assert (np.signbit(lax.cummax(x)) == np.logical_and.accumulate(a)).all()
    assert (np.signbit(x.at[:].max(0.0)) == np.zeros(size, bool)).all()
    assert (np.signbit(tfn.nn.relu(x)) == np.zeros(size, bool)).all()


def test_reductions_are_mapped() -> None:
    rows = tfn.numpy.asarray(X[0])
    maxima = lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,), "VALID")
    np.testing.assert_array_equal(tfn.vmap(maxima)(rows), X[0].reshape(10, 6, 2).max(-1))
    np.testing.assert_array_equal(tfn.vmap(lambda x: lax.argmax(x, 0))(rows), X[0].argmax(-1))


def test_xor() -> None:
    x = np.random.default_rng(0).integers(0, 1 << 30, (3, 7))
    assert lax.reduce_xor(x, (1,)).tolist() == np.bitwise_xor.reduce(x, 1).tolist()
    flags = x % 2 == 0
    assert lax.reduce_xor(flags, (0,)).tolist() == np.logical_xor.reduce(flags, 0).tolist()
