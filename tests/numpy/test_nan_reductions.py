"""Reductions that skip NaN against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close


def test_reductions_that_skip_nan():
    x = np.array([[1, np.nan, -2], [np.nan, np.nan, np.nan], [5, 0, 7]], np.float32)
    close(tnp.nansum(x, axis=1), np.nansum(x, axis=1))
    close(tnp.nanprod(x), np.nanprod(x))
    close(tnp.nanmax(x[::2], axis=1), np.nanmax(x[::2], axis=1))
    assert np.isnan(np.asarray(tnp.nanmin(x, axis=1))[1])
    for function in ("nanvar", "nanstd"):
        for axis in (None, 1):
            got = getattr(tnp, function)(x[::2], axis=axis, ddof=1, keepdims=True)
            close(got, getattr(np, function)(x[::2], axis=axis, ddof=1, keepdims=True), 8)
    close(tnp.nanmean(x[::2], axis=1), np.nanmean(x[::2], axis=1))
    close(tnp.nansum(np.arange(3, dtype=np.int32)), np.int32(3))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_places_and_running_sums(axis):
    x = np.float32([[1, np.nan, -2], [np.nan, 4, np.nan], [5, 0, 7]])
    close(tnp.nancumsum(x, axis), np.nancumsum(x, axis))
    close(tnp.nancumprod(x, axis), np.nancumprod(x, axis))
    close(tnp.nanargmax(x, axis), np.nanargmax(x, axis).astype(np.int32))
    close(tnp.nanargmin(x, axis), np.nanargmin(x, axis).astype(np.int32))
    close(tnp.nanargmax(np.int8([3, 4, 4])), np.int32(1))


def test_extremes_of_complex_numbers():
    x = np.complex64([[1 + 2j, np.nan, 1 + 3j], [np.nan, 2j, -1j]])
    for name in ("nanmax", "nanmin"):
        function, reference = getattr(tnp, name), getattr(np, name)
        close(function(x, 1), reference(x, 1))
        kept = reference(x, initial=1 + 4j, where=[True, True, False])
        close(function(x, initial=1 + 4j, where=np.array([True, True, False])), kept)
    assert np.isnan(tnp.nanmax(np.complex64([np.nan])))


def test_nothing_left():
    x = np.float32([[np.nan, np.nan], [np.nan, 1]])
    close(tnp.nanargmin(x, 1), np.int32([-1, 1]))
    assert tfn.grad(tnp.nansum)(x).tolist() == [[0, 0], [0, 1]]
