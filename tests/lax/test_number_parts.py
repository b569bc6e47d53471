"""Signs, whole numbers, parts of complex numbers: what differs from NumPy, and the borders."""

import numpy as np
import pytest

from tfn import lax
from tfn.errors import DTypeError

FLOATS = [-2.5, -0.5, -0.0, 0.0, 0.5, 2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "neg", "abs", "sign"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_as_numpy(name: str, dtype: str) -> None:
    x = np.array(FLOATS, dtype)
    theirs = {"neg": np.negative, "abs": np.abs}.get(name) or getattr(np, name)
    got = np.asarray(getattr(lax, name)(x))
    np.testing.assert_array_equal(got, theirs(x))
    if name != "sign":  # of which NumPy makes a zero without a sign
        assert np.array_equal(np.signbit(got[:-1]), np.signbit(theirs(x)[:-1]))


def test_parts_of_complex_numbers() -> None:
    z = np.array([1 - 2j, -0.0 + 3j], np.complex64)
    np.testing.assert_array_equal(lax.real(z), z.real)
    np.testing.assert_array_equal(lax.imag(z), z.imag)
    np.testing.assert_array_equal(lax.conj(z), z.conj())
    np.testing.assert_array_equal(lax.complex(z.real, z.imag), z)
    with pytest.raises(DTypeError):
        lax.imag(np.float32(1))
