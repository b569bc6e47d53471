"""Functions of real numbers against NumPy in double precision."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import FLOATS, close, kind, sample
from tfn.errors import DTypeError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# fmt: off
FUNCTIONS = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sin", "cos",
    "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
    "arctanh", "deg2rad", "rad2deg",
]
# fmt: on


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_numpy(function, name):
    x = sample(name, (31,), 1)
    got = getattr(tnp, function)(x)
    assert got.dtype == kind(name)
    close(got, getattr(np, function)(x.astype(np.float64)), 4)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_integers_become_float32(function):
    x = np.arange(-3, 4, dtype=np.int64)
    got = getattr(tnp, function)(x)
    assert got.dtype == np.float32 and not got.weak_type
    close(got, getattr(np, function)(x.astype(np.float64)), 8)
    assert getattr(tnp, function)(True).dtype == np.float32
    strong = ("log2", "log10", "deg2rad", "rad2deg")  # as in JAX
    assert getattr(tnp, function)(1).weak_type == (function not in strong)


def test_sinc():
    x = np.float32([0, 0.5, -1.5, 3.25, 1e-30])
    close(tnp.sinc(x), np.sinc(x.astype(np.float64)), 8)
    assert abs(float(tnp.sinc(2.0))) < 1e-6  # sin of a rounded multiple of pi


def test_fabs_is_floating():
    x = np.int32([-(2**31), -3, 0, 2**31 - 1])
    close(tnp.fabs(x), np.abs(x.astype(np.float64)))
    assert tnp.fabs(x).dtype == np.float32 and tnp.fabs(np.float64([-2])).dtype == np.float64
    with pytest.raises(DTypeError, match="fabs needs real numbers"):
        tnp.fabs(1j)


def test_a_scaled_logarithm_has_both_parts_of_its_own():
    x = np.array([0, complex(0, np.inf), complex(-np.inf, 1), 10 + 10j], np.complex64)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(tnp.log10(x), np.log10(x), rtol=1e-6)


def test_array_api_names():
    assert tnp.acos is tnp.arccos and tnp.atanh is tnp.arctanh and tnp.atan2 is tnp.arctan2
