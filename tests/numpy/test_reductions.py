"""Reductions against NumPy: axes, dtypes, NaN, empty arrays."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.numpy.values import ALL, FLOATS, INTEGERS, close, kind, sample
from tfn.errors import ArgumentError, AxisError, DTypeError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

AXES = [None, 0, -1, (0, 2), (1,), ()]
SUMS = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "uint8": "uint32",
    "uint16": "uint32",
}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("function", ["sum", "prod", "max", "min", "mean", "var", "std"])
def test_axes(function, axis):
    x = sample("float64", (3, 5, 2), 1, special=False)
    for keepdims in (False, True):
        got = getattr(tnp, function)(x, axis=axis, keepdims=keepdims)
        close(got, getattr(np, function)(x, axis=axis, keepdims=keepdims), 32)
        method = getattr(tnp.asarray(x), function)(axis=axis, keepdims=keepdims)
        close(method, np.asarray(got))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
def test_truths_and_counts(axis):
    x = np.array([[0, 1, np.nan], [0, 0, 0]], np.float32)
    for function in ("any", "all", "count_nonzero"):
        close(getattr(tnp, function)(x, axis=axis), getattr(np, function)(x, axis=axis))
    close(tnp.any(np.zeros((0, 2)), axis=0), np.zeros(2, bool))
    close(tnp.all(np.zeros((0, 2)), axis=0), np.ones(2, bool))


@pytest.mark.parametrize("name", ALL)
def test_dtypes_of_sums(name):
    x = sample(name, (40,), 2, special=False)
    got = tnp.sum(x)
    assert got.dtype == kind(SUMS.get(name, name)) == tnp.prod(x).dtype
    close(got, np.sum(x.astype(got.dtype if name in ("bool", *INTEGERS) else np.float64)), 64)
    assert tnp.sum(x, dtype="float32").dtype == np.float32
    assert tnp.mean(x).dtype == (kind(name) if name in FLOATS else np.float32)
    assert tnp.max(x).dtype == kind(name)


def test_small_floats_are_summed_in_32_bits():
    x = np.full(4096, 0.1, np.float16)
    close(tnp.sum(x), np.float16(x.astype(np.float32).sum()), 1)
    close(tnp.mean(x), np.float16(0.1), 1)
    close(tnp.var(np.full(1000, 300, np.float16)), np.float16(0))


@pytest.mark.parametrize("name", ["float16", "float32", "int8", "uint32", "bool"])
@pytest.mark.parametrize("function", ["max", "min", "argmax", "argmin"])
def test_extremes(function, name):
    x = sample(name, (4, 11), 3)
    for axis in (None, 0, 1, -1):
        close(getattr(tnp, function)(x, axis=axis), getattr(np, function)(x, axis=axis))
        close(
            getattr(tnp, function)(x, axis=axis, keepdims=True),
            getattr(np, function)(x, axis=axis, keepdims=True),
        )


def test_extremes_propagate_nan_and_the_first_wins():
    x = np.float32([1, np.nan, 3, np.nan])
    assert np.isnan(tnp.max(x)) and np.isnan(tnp.min(x))
    assert tnp.argmax(x) == 1 == tnp.argmin(x)
    assert tnp.argmax(np.int32([2, 7, 7])) == 1
    assert tnp.argmax(np.float32([-np.inf, -np.inf])) == 0


@pytest.mark.parametrize("name", in_turn(2, ALL))
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 7), (3, 67), (17, 16), (2, 3, 131)])
def test_places_of_extremes(name, shape):
    """Among many that are equal; with and without vectors, and what they leave over."""
    x = np.random.default_rng(5).integers(0, 4, shape).astype(kind(name))
    for case in (x, sample(name, shape, 6)):
        wide = case.astype(np.float64) if name in FLOATS else case
        for axis in (None, *range(-1, len(shape))):
            close(tnp.argmax(case, axis), wide.argmax(axis).astype(np.int32))
            close(tnp.argmin(case, axis), wide.argmin(axis).astype(np.int32))


@pytest.mark.parametrize(
    "row",
    [
        [np.nan] * 70,
        [-np.inf] * 70,
        [np.inf] * 70,
        [-0.0, 0.0] * 35,
        [0.0, -0.0] * 35,
        [*range(69), np.nan],
        [np.nan, *range(69)],
        [-np.inf, *[np.nan] * 3, *[np.inf] * 66],
    ],
)
def test_argmax_takes_the_first_of_equal_elements(row):
    for size in (1, 2, 16, 17, 64, 65, 70):
        for x in (np.float32(row[:size]), np.float64([row[:size], row[:size][::-1]])):
            close(tnp.argmax(x, -1), np.argmax(x, -1).astype(np.int32))
            close(tnp.argmin(x, -1), np.argmin(x, -1).astype(np.int32))
            close(tnp.argmax(x.T, 0), np.argmax(x.T, 0).astype(np.int32))


def test_places_in_views_and_under_transforms():
    x = sample("float32", (6, 9, 35), 7)
    want = x.argmax(-1).astype(np.int32)
    close(tfn.jit(lambda x: tnp.argmax(x.T[::-1, ::2], 1))(x), x.T[::-1, ::2].argmax(1))
    close(
        tfn.jit(lambda x: tnp.argmax(x[1:, 2:-1, 3:30:4].reshape(5, -1) * 2, 1))(x),
        (x[1:, 2:-1, 3:30:4].reshape(5, -1) * 2).argmax(1),
    )
    close(tfn.jit(lambda x: tnp.argmax(x.transpose(2, 0, 1)))(x), x.transpose(2, 0, 1).argmax())
    close(tfn.vmap(tfn.vmap(tnp.argmax))(x), want)
    close(tfn.jit(tfn.vmap(lambda x: tnp.argmax(x, 0), in_axes=1, out_axes=1))(x), x.argmax(0).T)
    best, at = tfn.jit(lambda x: (tnp.max(x, -1), tnp.argmax(x, -1)))(x[:, 1:])
    close(best, x[:, 1:].max(-1))
    close(at, want[:, 1:])
    y = np.float32([[3, 1, 3], [0, 5, 2]])
    slope = tfn.grad(lambda y: (tnp.max(y, 1) * tnp.argmax(y, 1)).sum())(y)
    close(slope, np.float32([[0, 0, 0], [0, 1, 0]]))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_places_in_many_elements(axis):
    """In two stages, and in streams."""
    x = np.random.default_rng(8).integers(-99, 99, (3, 70_001)).astype(np.float32)
    x[1, 50_000] = x[1, 60_000] = np.nan
    for y in (x, x[:, ::-1], np.repeat(x, 3, 1)):
        close(tnp.argmax(y, axis), y.argmax(axis).astype(np.int32))
        close(tfn.jit(lambda y: tnp.argmin(y * 2 + 1, axis))(y), (y * 2 + 1).argmin(axis))


def test_without_elements():
    empty = tnp.zeros((0, 3))
    close(tnp.sum(empty), np.float32(0))
    close(tnp.prod(empty, axis=0), np.ones(3, np.float32))
    assert np.isnan(tnp.mean(empty)) and tnp.max(empty, axis=1).shape == (0,)
    for function in (tnp.max, tnp.min, tnp.argmax):
        with pytest.raises(ShapeError, match="of no elements does not exist"):
            function(empty)
    close(tnp.max(empty, initial=5.0), np.float32(5))


def test_where_and_initial():
    x = sample("float32", (4, 5), 4, special=False)
    mask = x > 0
    close(tnp.sum(x, axis=1, where=mask, initial=2.0), np.sum(x, axis=1, where=mask, initial=2), 8)
    close(tnp.max(x, where=mask, initial=-3.0), np.max(x, where=mask, initial=-3))
    close(tnp.mean(x, axis=0, where=mask[:, :1]), np.mean(x, axis=0, where=mask[:, :1]), 8)
    with pytest.raises(ArgumentError, match="needs initial="):
        tnp.max(x, where=mask)


def test_variance_less_degrees_of_freedom():
    x = sample("float32", (6,), 5, special=False)
    close(tnp.var(x, ddof=1), np.var(x.astype(np.float64), ddof=1), 8)
    close(tnp.std(x, correction=2), np.std(x.astype(np.float64), ddof=2), 8)
    assert np.isnan(tnp.var(x[:1], ddof=1))


def test_averages():
    x = sample("float32", (3, 4), 6, special=False)
    w = np.float32([1, 2, 3, 4])
    close(tnp.average(x, axis=1, weights=w), np.average(x, axis=1, weights=w), 8)
    got, total = tnp.average(x, weights=x * x, returned=True)
    close(got, np.average(x, weights=x * x), 16)
    close(total, (x * x).sum(), 16)
    close(tnp.average(x, axis=0), x.mean(0), 8)
    with pytest.raises(ShapeError, match="weights"):
        tnp.average(x, axis=0, weights=w)


def test_peak_to_peak():
    x = sample("int32", (3, 4), 7, special=False)
    close(tnp.ptp(x, axis=0), np.ptp(x, axis=0))


def test_axis_errors_name_the_function():
    with pytest.raises(AxisError, match="sum got axis 2 of an array that has 2 axes"):
        tnp.sum(tnp.ones((2, 3)), axis=2)
    with pytest.raises(AxisError, match="max got the same axis twice"):
        tnp.max(tnp.ones((2, 3)), axis=(0, -2))
    with pytest.raises(ArgumentError, match="sum needs an integer axis"):
        tnp.sum(tnp.ones((2, 3)), axis=0.5)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "ptp"])
def test_reductions_have_a_dtype_of_their_own(name):
    """As in JAX: what is reduced is an array, and gives way to no other dtype."""
    x = tnp.asarray(2.0)
    assert x.weak_type and not getattr(tnp, name)(x).weak_type
    assert not tfn.jit(getattr(tnp, name))(2.0).weak_type
    assert (getattr(tnp, name)(2.0) * tnp.ones(3, "float16")).dtype == np.float32


@pytest.mark.parametrize("name", ["var", "std"])
def test_spread_of_a_part_and_about_a_given_mean(name: str) -> None:
    x = np.random.RandomState(0).randn(4, 5).astype("float32")
    ours, theirs, inside = getattr(tnp, name), getattr(np, name), x > -0.5
    for options in (
        {"axis": 1, "where": inside},
        {"axis": 0, "where": inside, "ddof": 1, "keepdims": True},
        {"axis": 1, "mean": x.mean(axis=1, keepdims=True)},
        {"where": inside},
    ):
        np.testing.assert_allclose(ours(x, **options), theirs(x, **options), rtol=1e-5)


def test_numpy_calls_the_methods_with_out() -> None:
    x = tnp.arange(4.0)
    assert (np.sum(x), np.any(x), np.std(x), np.argmax(x)) == (6.0, True, np.std([0, 1, 2, 3]), 3)
    with pytest.raises(NotImplementedError, match="never changes"):
        tnp.sum(x, out=np.zeros(()))


def test_sums_need_not_be_promoted():
    x = np.ones(3, "int8")
    for f in (tnp.sum, tnp.prod):
        assert f(x, promote_integers=False).dtype == "int8" and f(x).dtype == "int32"
        assert f(x > 0, promote_integers=False).dtype == "int32"


def test_weights_of_float64_make_averages_of_float64():
    weights = np.float64([1 / 3, 2 / 3])
    got = tnp.average(tnp.float32([1, 2]), weights=tnp.asarray(weights))
    assert got.dtype == np.float64
    assert got.item() == np.average(np.float32([1, 2]), weights=weights)


def test_a_mask_is_of_booleans():
    """As NumPy, which casts none to booleans."""
    with pytest.raises(DTypeError, match="sum needs booleans as where"):
        tnp.sum(tnp.ones(3), where=1.0)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_initial_values_of_complex_numbers_are_combined_by_the_operation(name):
    x = np.array([[1 + 2j, -3j], [0.5, 2 - 1j]])
    want = getattr(np, name)(x, axis=1, initial=0.5)
    np.testing.assert_allclose(getattr(tnp, name)(x, axis=1, initial=0.5), want, rtol=1e-15)
