"""Comparisons, logic, bits and choice against NumPy."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import ALL, INTEGERS, close, kind, sample
from tfn.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaN in bfloat16
COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("function", COMPARISONS)
def test_comparisons(function, name):
    x, y = sample(name, (60,), 1), sample(name, (60,), 2)
    y[::3] = x[::3]
    got = getattr(tnp, function)(x, y)
    assert got.dtype == bool
    close(got, getattr(np, function)(x, y))


@pytest.mark.parametrize("name", ["bool", *INTEGERS])
@pytest.mark.parametrize("function", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(function, name):
    x, y = sample(name, (17,), 3), sample(name, (17,), 4)
    close(getattr(tnp, function)(x, y), getattr(np, function)(x, y))
    close(~tnp.asarray(x), ~x)


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts(name):
    x = sample(name, (17,), 5)
    n = (np.arange(17) % (8 * x.itemsize)).astype(name)
    close(tnp.asarray(x) << n, x << n)
    close(tnp.asarray(x) >> n, x >> n)


def test_bits_of_floats_are_an_error():
    with pytest.raises(DTypeError, match="bitwise_and needs integers or booleans"):
        tnp.ones(2) & tnp.ones(2)
    with pytest.raises(DTypeError, match="left_shift needs integers"):
        tnp.array([1.5]) << tnp.array([1])


@pytest.mark.parametrize("function", ["logical_and", "logical_or", "logical_xor"])
def test_logic_of_mixed_dtypes(function):
    x, y = sample("float32", (30,), 6), (np.arange(30) % 3).astype(np.int8)
    close(getattr(tnp, function)(x, y), getattr(np, function)(x, y))
    close(tnp.logical_not(x), np.logical_not(x))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "function", ["isnan", "isinf", "isfinite", "signbit", "isposinf", "isneginf"]
)
def test_kinds_of_numbers(function, name):
    x = sample(name, (17,), 7)
    if name == "bfloat16":
        want = getattr(np, function)(x.astype(np.float32))
    elif name in ("bool", *INTEGERS) and function in ("isposinf", "isneginf", "isnan", "isinf"):
        want = np.zeros(17, bool)
    elif name == "bool":
        want = np.zeros(17, bool) if function == "signbit" else np.ones(17, bool)
    elif function == "signbit":
        want = np.signbit(x.astype(np.float64))
    else:
        want = getattr(np, function)(x)
    close(getattr(tnp, function)(x), want)


def test_where_promotes_and_broadcasts():
    c, x, y = np.array([[True], [False]]), np.arange(3, dtype=np.int8), np.float16(2)
    got = tnp.where(c, x, y)
    assert got.dtype == np.float16
    close(got, np.where(c, x, y))
    assert tnp.where(tnp.array([1, 0]), 1.0, tnp.float16(2)).dtype == np.float16
    with pytest.raises(ArgumentError, match="both cases"):
        tnp.where(c, x)
    with pytest.raises(ShapeError, match=r"where got incompatible shapes"):
        tnp.where(tnp.ones(2), tnp.ones(3), 0)


def test_select():
    x = np.arange(6)
    got = tnp.select([tnp.asarray(x < 2), tnp.asarray(x > 3)], [x, -x], 9)
    close(got, np.select([x < 2, x > 3], [x, -x], 9))


def test_nan_to_num():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 3], np.float32)
    close(tnp.nan_to_num(x), np.nan_to_num(x))
    close(tnp.nan_to_num(x, nan=1, posinf=2, neginf=3), np.nan_to_num(x, nan=1, posinf=2, neginf=3))
    close(tnp.nan_to_num(np.arange(3)), np.arange(3))


def test_closeness():
    x = np.float32([1, 1, np.nan, np.inf, -np.inf, 0])
    y = np.float32([1, 1.001, np.nan, np.inf, np.inf, 1e-9])
    for equal_nan in (False, True):
        close(tnp.isclose(x, y, equal_nan=equal_nan), np.isclose(x, y, equal_nan=equal_nan))
    assert tnp.allclose(x[:1], y[:1]) and not tnp.allclose(x, y)
    assert tnp.allclose(np.arange(3), np.arange(3)) and tnp.allclose(tnp.zeros(0), tnp.zeros(0))


def test_equality_of_arrays():
    x = np.float32([1, np.nan])
    assert not tnp.array_equal(x, x) and tnp.array_equal(x, x, equal_nan=True)
    assert not tnp.array_equal(x, x[:1]) and tnp.array_equiv(np.ones((2, 3)), np.ones(3))
    assert not tnp.array_equiv(np.ones(2), np.ones(3))
    assert kind("bool") == tnp.array_equal(x, x).dtype


def test_complex_numbers_have_no_signed_infinity():
    for function in (tnp.isposinf, tnp.isneginf):
        with pytest.raises(DTypeError, match="needs real numbers"):
            function(np.complex64([1j]))
