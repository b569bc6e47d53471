"""Rounding: the signs of zeros, halves, and numbers that are whole already."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import FLOATS, close, kind
from tfn.errors import DTypeError

X = [-2.5, -1.5, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 1.5, 2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("function", ["floor", "ceil", "trunc", "rint", "round"])
def test_signs_and_halves(function, name):
    x = np.array(X, kind(name))
    got = getattr(tnp, function)(x)
    want = getattr(np, function)(x)
    close(got, want, 0)
    assert np.array_equal(np.signbit(got)[:-1], np.signbit(want)[:-1])  # NaN has no sign to keep


@pytest.mark.parametrize("function", ["floor", "ceil", "trunc", "round"])
def test_integers_stay(function):
    x = tnp.arange(3)
    assert getattr(tnp, function)(x) is x


def test_complex_numbers_are_rounded_by_parts_and_have_no_floor():
    assert tnp.round(tnp.array(1.6 - 2.5j)).item() == 2 - 2j
    with pytest.raises(DTypeError, match="floor needs real numbers"):
        tnp.floor(tnp.array(1j))
