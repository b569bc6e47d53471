"""Ranges against NumPy."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close, kind
from tfn.errors import ArgumentError


@pytest.mark.parametrize(
    "arguments",
    [
        (5,),
        (2, 9),
        (2, 9, 3),
        (9, 2, -2),
        (5, 5),
        (0, -3),
        (0.0, 1.0, 0.25),
        (3.5,),
        (1, 2, 0.1),
        (10.0, 0.0, -2.5),
    ],
)
def test_arange(arguments):
    got = tnp.arange(*arguments)
    want = np.arange(*arguments)
    assert got.dtype == (np.int32 if want.dtype.kind == "i" else np.float32)
    close(got, want.astype(got.dtype))


def test_arange_of_a_dtype():
    for name in ("int8", "int64", "uint8", "bfloat16", "float64"):
        close(tnp.arange(100, dtype=name), np.arange(100).astype(kind(name)))
    close(tnp.arange(2**31, 2**31 + 3, dtype="int64"), np.arange(2**31, 2**31 + 3))
    assert tnp.arange(np.int64(3)).dtype == np.int64
    with pytest.raises(ArgumentError, match="step"):
        tnp.arange(1, 2, 0)


@pytest.mark.parametrize("num", [0, 1, 2, 7, 50])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num, endpoint):
    got = tnp.linspace(-1.5, 4, num, endpoint)
    close(got, np.linspace(-1.5, 4, num, endpoint, dtype=np.float32), 32)
    low, high = np.float32([0, 1]), np.float32([2, 5])
    close(
        tnp.linspace(low, high, num, endpoint, axis=1),
        np.linspace(low, high, num, endpoint, axis=1),
        32,
    )


def test_linspace_ends_and_steps():
    line, step = tnp.linspace(0, 1, 5, retstep=True)
    assert line[-1] == 1 and step == 0.25
    close(tnp.linspace(0, 10, 4, dtype="int32"), np.linspace(0, 10, 4, dtype=np.int32))
    close(tnp.logspace(0, 3, 4), np.logspace(0, 3, 4).astype(np.float32), 8)


def test_geomspace():
    for ends in [(1, 1000), (-2.0, -32.0), (8, 0.5)]:
        for endpoint in (True, False):
            want = np.geomspace(*ends, 7, endpoint, dtype=np.float32)
            close(tnp.geomspace(*ends, 7, endpoint), want, 16)
    low, high = np.float64([1, 3]), np.float64([16, 48])
    close(tnp.geomspace(low, high, 5, axis=1), np.geomspace(low, high, 5, axis=1), 16)


def test_powers_along_an_axis():
    start = np.array([0.0, 1.0])
    got, want = tnp.logspace(start, 2, 4, axis=1), np.logspace(start, 2, 4, axis=1)
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "arguments",
    [(2**24 - 3, 2**24 + 9), (-5, 40, 3), (40, -5, -7), (2**31 - 4, 2**31 + 4), (2**40, 2**40 + 9)],
)
def test_whole_numbers_as_floats(arguments, dtype):
    np.testing.assert_array_equal(
        tnp.arange(*arguments, dtype=dtype), np.arange(*arguments).astype(dtype)
    )
