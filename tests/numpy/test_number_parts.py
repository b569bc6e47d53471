"""Parts of numbers, against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import INTEGERS, close, kind, sample
from tfn.errors import ArgumentError, DTypeError

FLOATS = ["float16", "float32", "float64"]


def special(name):
    info = np.finfo(name)
    line = [0.0, -0.0, 1.0, -1.0, 0.3, 6.0, 1e-3, info.max, info.tiny, info.smallest_subnormal]
    line += [-info.max, info.tiny / 4, -info.smallest_subnormal, np.inf, -np.inf, np.nan]
    return np.array(line, name)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy
def test_floats(name):
    x = special(name)
    y = np.roll(x, 5)
    for a, b in ((x, y), (x, np.full_like(x, np.inf)), (x, np.zeros_like(x)), (x, x)):
        got = np.asarray(tnp.nextafter(a, b))
        np.testing.assert_array_equal(got, np.nextafter(a, b))
        number = ~np.isnan(got) & ((got != 0) | (name != "float16"))  # NumPy errs there
        np.testing.assert_array_equal(
            np.signbit(got)[number], np.signbit(np.nextafter(a, b))[number]
        )
    if name != "float16":  # of which NumPy goes towards zero
        np.testing.assert_array_equal(tnp.spacing(x), np.spacing(x))
    for got, want in zip(tnp.frexp(x), np.frexp(x)):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(tnp.modf(x), np.modf(x)):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(tnp.heaviside(x, 0.25), np.heaviside(x, kind(name).type(0.25)))
    exponents = np.arange(-8, 8)
    np.testing.assert_allclose(tnp.ldexp(x, exponents), np.ldexp(x, exponents), rtol=1e-6)
    far = np.int64([-(2**40), -1100, -280, -150, -1, 0, 140, 270, 1100, 2**40])
    with np.errstate(over="ignore", under="ignore"):
        for exponent in far:
            n = int(np.clip(exponent, -3000, 3000))
            np.testing.assert_array_equal(tnp.ldexp(x, tnp.asarray(exponent)), np.ldexp(x, n))
    np.testing.assert_array_equal(tnp.ldexp(x, np.uint64(2**63)), np.ldexp(x, 3000))
    with pytest.raises(DTypeError, match="ldexp needs integer exponents"):
        tnp.ldexp(x, x)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    x, y = sample(name, (40,), 1), sample(name, (40,), 2)
    close(tnp.gcd(x, y), np.gcd(x, y))
    small_x, small_y = x[np.abs(x) < 11], y[: (np.abs(x) < 11).sum()] % 11
    close(tnp.lcm(small_x, small_y), np.lcm(small_x, small_y))
    close(tnp.bitwise_count(x), np.bitwise_count(x))
    close(tfn.jit(tfn.vmap(tnp.gcd))(x, y), np.gcd(x, y))


def test_divisors():
    assert tnp.gcd(12, 18) == 6 and tnp.gcd(0, 0) == 0 and tnp.lcm(0, 5) == 0
    close(tnp.gcd(np.int32([[12], [7]]), np.int32([8, 21])), np.int32([[4, 3], [1, 7]]))
    with pytest.raises(DTypeError, match="gcd needs integers"):
        tnp.gcd(1.5, 2)


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bits_in_bytes(order, axis):
    x = sample("bool", (11, 9), 3)
    packed = np.packbits(x, axis, order)
    close(tnp.packbits(x, axis, order), packed)
    close(tnp.packbits(x.astype("int32") * 3, axis, order), packed)
    for count in (None, 0, 5, -3, 100):
        got = tnp.unpackbits(packed, axis, count, order)
        close(got, np.unpackbits(packed, axis, count, order))
    with pytest.raises(ArgumentError, match="bitorder"):
        tnp.packbits(x, axis, "middle")
