"""Quantiles and medians against NumPy."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError
from tfn.numpy.quantiles import METHODS


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(method):
    x = sample("float32", (5, 6), 2, special=False)
    q = np.float32([0, 0.1, 0.5, 0.99, 1])
    for axis in (None, 0, 1):
        close(tnp.quantile(x, q, axis, method=method), np.quantile(x, q, axis, method=method), 16)
    close(
        tnp.quantile(x, 0.3, 1, keepdims=True),
        np.quantile(x, np.float32(0.3), 1, keepdims=True),
        16,
    )
    close(tnp.percentile(x, 25), np.percentile(x, 25), 16)


def test_median():
    x = sample("float32", (4, 7), 3, special=False)
    for axis in (None, 0, 1):
        close(tnp.median(x, axis), np.median(x, axis), 4)
    assert np.isnan(tnp.median(np.float32([1, np.nan, 3])))
    assert tnp.median(np.int32([1, 2])) == 1.5
    assert np.isnan(tnp.median(tnp.zeros(0)))


@pytest.mark.parametrize("method", in_turn(2, METHODS))
def test_methods_over_several_axes(method):
    x = sample("float64", (4, 5, 3), 2, special=False)
    holes = np.where(np.abs(x) > 2.5, np.nan, x)
    q = np.float64([[0, 0.11, 0.5], [0.9, 0.73, 1]])
    for axis in (None, 1, (0, 2)):
        options = {"axis": axis, "method": method, "keepdims": axis != 1}
        close(tnp.quantile(x, q, **options), np.quantile(x, q, **options), 512)
        got = tnp.nanquantile(holes, q[0], **options)
        close(got, np.nanquantile(holes, q[0], **options), 512)


def test_of_nothing_but_nan():
    x = np.float32([[np.nan, np.nan], [1, np.nan]])
    close(tnp.nanmedian(x, 1), np.float32([np.nan, 1]))
    close(tnp.nanpercentile(x, 50), np.float32(1))
    close(tnp.median(x, 1), np.float32([np.nan, np.nan]))
    with pytest.raises(ArgumentError, match="no method 'best'"):
        tnp.quantile(x, 0.5, method="best")


def test_gradient_goes_to_the_neighbours():
    got = tfn.grad(lambda x: tnp.quantile(x, 0.25))(tnp.array([5.0, 1.0, 3.0]))
    close(got, np.float32([0, 0.5, 0.5]))
