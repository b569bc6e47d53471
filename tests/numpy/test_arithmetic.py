"""Arithmetic against NumPy: values, dtypes, broadcasting, the borders of each dtype."""

import math

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.numpy.values import FLOATS, INTEGERS, NUMBERS, close, kind, sample
from tfn import lax
from tfn.errors import ArgumentError, DTypeError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the reference

BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("function", BINARY)
def test_binary_as_numpy(function, name):
    x, y = sample(name, (17,), 1), sample(name, (17,), 2)
    got = getattr(tnp, function)(x, y)
    assert got.dtype == kind(name) and not got.weak_type
    close(got, getattr(np, function)(x, y))


@pytest.mark.parametrize(
    "shapes", [((), (3,)), ((2, 1), (1, 5)), ((0, 1), (3,)), ((7, 1, 2), (5, 1))]
)
def test_broadcasting(shapes):
    x, y = (sample("float32", s, i, special=False) for i, s in enumerate(shapes))
    close(tnp.add(x, y), x + y)
    close(tnp.divide(x, y), x / y)


def test_broadcasting_error_names_both_shapes():
    with pytest.raises(ShapeError) as caught:
        tnp.ones(3) + tnp.ones(4)
    assert caught.value.what == "add got incompatible shapes for broadcasting: (3,), (4,)"
    assert "tnp.ones(3) + tnp.ones(4)" in str(caught.value)


REAL_ONLY = ["floor_divide", "remainder", "fmod", "hypot", "copysign", "heaviside", "nextafter"]


@pytest.mark.parametrize("function", REAL_ONLY)
def test_complex_numbers_are_refused_by_the_name_of_the_function(function):
    with pytest.raises(DTypeError, match=f"^{function} needs real numbers"):
        getattr(tnp, function)(tnp.array([1j]), 2.0)


def test_complex_numbers_have_an_order_for_the_larger_and_the_smaller():
    x = np.complex64([1 + 2j, 3 - 1j, np.nan, 2j])
    y = np.complex64([1 - 2j, 2 + 9j, 5 + 1j, np.nan])
    close(tnp.fmax(x, y), np.fmax(x, y))
    close(tnp.fmin(x, y), np.fmin(x, y))
    number = x[:2], y[:2]
    assert lax.max(*number).tolist() == [1 + 2j, 3 - 1j]
    assert lax.min(1j, x[:2]).tolist() == [1j, 1j]
    assert lax.clamp(1 - 9j, x[:2], 2 + 0j).tolist() == [1 + 2j, 2 + 0j]


def test_integers_of_python_have_no_negative_powers_either():
    with pytest.raises(ArgumentError, match="cannot be raised to the power -1"):
        tnp.power(2, -1)
    assert tnp.power(2.0, -1) == 0.5


def test_angle_of_a_complex_point_has_the_tangent():
    y = np.complex128([0.3 + 0.2j, -0.5 + 0.25j, 3 - 1j])
    x = np.complex128([2 + 1j, 1 - 2j, 3 + 1j])
    close(tnp.tan(tnp.arctan2(y, x)), y / x, ulps=16)
    assert lax.atan2(y, x).tolist() == tnp.arctan2(y, x).tolist()


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_division_floors_and_zero_gives_zero(name):
    x, y = sample(name, (40,), 3), sample(name, (40,), 4)
    if np.iinfo(kind(name)).min < 0:
        y = np.where((x == np.iinfo(kind(name)).min) & (y == -1), 1, y).astype(name)
    safe = np.where(y == 0, 1, y).astype(name)
    close(tnp.floor_divide(x, y), np.where(y == 0, 0, x // safe))
    close(tnp.remainder(x, y), np.where(y == 0, 0, x % safe))
    close(tnp.divide(x, y), (x.astype(np.float32) / y.astype(np.float32)))


def borders(name):
    """Integers near the ends of a dtype and near zero, and widths that shifts meet."""
    info, width = np.iinfo(name), np.iinfo(name).bits
    near = {info.min, info.min + 1, info.min // 2, info.max, info.max - 1, info.max // 2 + 1}
    some = {-100, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 100, width - 1, width, width + 1} | near
    return np.array(sorted(n for n in some if info.min <= n <= info.max), name)


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


TWO_INTEGERS = {  # of Python's integers, which wrap around afterwards
    tnp.add: lambda a, b, bits: a + b,
    tnp.subtract: lambda a, b, bits: a - b,
    tnp.multiply: lambda a, b, bits: a * b,
    tnp.floor_divide: lambda a, b, bits: a // b if b else 0,
    tnp.remainder: lambda a, b, bits: a % b if b else 0,
    tnp.fmod: lambda a, b, bits: a - b * truncated(a, b) if b else 0,
    lax.div: lambda a, b, bits: truncated(a, b),
    lax.rem: lambda a, b, bits: a - b * truncated(a, b) if b else 0,
    tnp.gcd: lambda a, b, bits: math.gcd(a, b),
    tnp.lcm: lambda a, b, bits: math.lcm(a, b),
    tnp.power: lambda a, b, bits: pow(a, b, 1 << bits) if b >= 0 else a ** (b % 2) * (a * a == 1),
    tnp.maximum: lambda a, b, bits: max(a, b),
    tnp.left_shift: lambda a, b, bits: a << b if 0 <= b < bits else 0,
    tnp.right_shift: lambda a, b, bits: a >> b if 0 <= b < bits else -(a < 0),
}
ONE_INTEGER = {
    tnp.abs: abs,
    tnp.negative: lambda a: -a,
    tnp.sign: lambda a: (a > 0) - (a < 0),
    tnp.square: lambda a: a * a,
    tnp.invert: lambda a: ~a,
}


@pytest.fixture(params=["cpu", "python"])
def device(request):
    before, tfn.config.device = tfn.config.device, request.param
    yield request.param
    tfn.config.device = before


@pytest.mark.parametrize("name", in_turn(2, INTEGERS))
def test_integers_at_the_borders_wrap_around(name, device):
    x, bits = borders(name), np.iinfo(name).bits
    first, second = np.repeat(x, x.size), np.tile(x, x.size)
    pairs = list(zip(first.tolist(), second.tolist(), strict=True))

    def wrapped(values):
        return np.array([value % (1 << bits) for value in values], f"uint{bits}").view(name)

    compiled = tfn.jit(lambda a, b: [function(a, b) for function in TWO_INTEGERS])(first, second)
    for (function, reference), found in zip(TWO_INTEGERS.items(), compiled, strict=True):
        want = wrapped([reference(a, b, bits) for a, b in pairs])
        np.testing.assert_array_equal(function(first, second), want, function.__name__)
        np.testing.assert_array_equal(found, want, function.__name__)
    for function, reference in ONE_INTEGER.items():
        want = wrapped([reference(a) for a in x.tolist()])
        np.testing.assert_array_equal(function(x), want, function.__name__)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_float_division(name):
    x, y = sample(name, (90,), 5), sample(name, (90,), 6)
    close(tnp.divide(x, y), x / y)
    close(tnp.remainder(x, y), np.remainder(x, y), 4)
    finite = np.isfinite(x) & np.isfinite(y)
    close(tnp.floor_divide(x, y)[finite], np.floor_divide(x, y)[finite])
    close(tnp.fmod(x, y)[finite], np.fmod(x, y)[finite], 4)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize(
    "function",
    [
        "negative",
        "abs",
        "sign",
        "square",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "reciprocal",
        "round",
    ],
)
def test_unary_of_floats(function, name):
    x = sample(name, (30,), 7)
    got = getattr(tnp, function)(x)
    assert got.dtype == kind(name)
    close(got, getattr(np, function)(x))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    "function", ["negative", "abs", "sign", "square", "floor", "ceil", "trunc"]
)
def test_unary_of_integers(function, name):
    x = sample(name, (30,), 8)
    got = getattr(tnp, function)(x)
    assert got.dtype == kind(name)
    close(got, getattr(np, function)(x))


@pytest.mark.parametrize(
    "function",
    [
        "arctan2",
        "hypot",
        "logaddexp",
        "logaddexp2",
        "copysign",
        "fmax",
        "fmin",
        "float_power",
    ],
)
def test_two_floats(function):
    x, y = sample("float64", (60,), 9), sample("float64", (60,), 10)
    close(getattr(tnp, function)(x, y), getattr(np, function)(x, y), 16)


def test_complex_sums_of_exponentials_have_the_principal_value():
    x = sample("complex64", (40,), 9).astype(np.complex128)
    y = sample("complex64", (40,), 10).astype(np.complex128)
    close(tnp.logaddexp(x, y), np.log(np.exp(x) + np.exp(y)), 64)
    far = tnp.logaddexp(np.complex128(900 + 4j), np.complex128(899 + 4j))
    close(far, 900 + np.log1p(np.exp(-1)) + 1j * (4 - 2 * np.pi), 8)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, -1, -2, 10])
def test_power_by_a_python_integer(exponent):
    x = sample("float32", (20,), 11)
    close(tnp.asarray(x) ** exponent, x.astype(np.float64) ** exponent, 8)
    if exponent >= 0:
        n = np.arange(-4, 5, dtype=np.int32)
        got = tnp.asarray(n) ** exponent
        assert got.dtype == np.int32
        close(got, n**exponent)


@pytest.mark.parametrize("name", ["int8", "int32", "uint8", "uint32", "int64"])
def test_power_of_integer_arrays_wraps(name):
    x = np.arange(9).astype(name)
    y = (np.arange(9) * 3).astype(name)
    close(tnp.power(x, y), np.power(x, y))


def test_power_of_floats_and_errors():
    x = np.float32([0.5, 2, 3])
    close(tnp.power(x, 0.5), np.sqrt(x))
    close(tnp.power(2.0, x), 2.0**x)
    with pytest.raises(ArgumentError, match="integers cannot be raised to the power -2"):
        tnp.arange(3) ** -2


def test_booleans():
    x, y = np.array([True, True, False]), np.array([True, False, False])
    close(tnp.add(x, y), x + y)
    close(tnp.multiply(x, y), x * y)
    assert tnp.add(x, y).dtype == bool and tnp.add(x, 1).dtype == np.int32
    with pytest.raises(DTypeError, match="subtract needs numbers"):
        tnp.subtract(x, y)
    with pytest.raises(DTypeError, match="negative needs numbers"):
        -tnp.asarray(x)


def test_clip_keeps_nan():
    x = np.float32([-5, 0.5, 5, np.nan])
    close(tnp.clip(x, -1, 1), np.clip(x, -1, 1))
    close(tnp.clip(x, max=0), np.clip(x, None, 0))
    assert tnp.clip(tnp.arange(3), 1, None).dtype == np.int32


def test_rounding_to_decimals():
    x = np.float64([1.25, -1.35, 12345.678, 0.5, 1.5, 2.5])
    close(tnp.round(x, 1), np.round(x, 1))
    close(tnp.round(x, -2), np.round(x, -2))
    close(tnp.round(np.int32([149, 150, -151]), -2), np.round(np.int32([149, 150, -151]), -2))


def test_python_numbers_out_of_range_are_errors():
    with pytest.raises(ArgumentError, match="300 does not fit into int8"):
        tnp.int8(1) + 300


def test_there_are_no_complex_numbers():
    x = np.float32([1, -2])
    close(tnp.conj(x), x)
    close(tnp.real(x), x)
    close(tnp.imag(x), 0 * np.abs(x))
    assert not tnp.iscomplexobj(x) and tnp.isrealobj(x)


def test_divmod():
    x = tnp.array([-7, 7, 8])
    for got, want in zip(divmod(x, 3), np.divmod(np.asarray(x), 3)):
        close(got, want)
    for got, want in zip(divmod(20, x), np.divmod(20, np.asarray(x))):
        close(got, want)


def test_logaddexp_of_complex_numbers():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(50) * 3 + 1j * rng.uniform(-9, 9, 50) for _ in range(2))
    got = np.asarray(tnp.logaddexp(x, y))
    np.testing.assert_allclose(np.exp(got), np.exp(x) + np.exp(y), rtol=1e-13)
    assert (abs(got.imag) <= np.pi + 1e-12).all()
    np.testing.assert_allclose(tnp.logaddexp(x + 900, y + 900).real, got.real + 900, rtol=1e-12)
    _, slope = tfn.jvp(tnp.logaddexp, (x, y), (np.ones_like(x), np.zeros_like(y)))
    np.testing.assert_allclose(slope, np.exp(x) / (np.exp(x) + np.exp(y)), rtol=1e-12)
    np.testing.assert_array_equal(tfn.vmap(tnp.logaddexp)(x, y), got)
    assert tnp.logaddexp(np.complex128(-np.inf), np.complex128(2j)) == 2j
    assert tnp.logaddexp(np.complex64(1), np.complex64(1)).dtype == "complex64"


def test_integers_to_negative_powers_are_cut_off_to_zero():
    x, y = tnp.array([1, 2, -1, -1, 0, 3]), tnp.array([-1, -1, -1, -2, -1, 2])
    assert tnp.power(x, y).tolist() == [1, 0, -1, 1, 0, 9]  # as in JAX
    for power in (-1, -100):
        with pytest.raises(ArgumentError, match="integers cannot be raised"):
            x**power
