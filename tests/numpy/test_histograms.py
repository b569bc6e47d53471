"""Counts in bins against NumPy."""

from functools import partial

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ArgumentError, DTypeError, ShapeError


def test_bincount():
    x = np.int32([1, 3, 3, 0, 9])
    close(tnp.bincount(x), np.bincount(x).astype(np.int32))
    close(tnp.bincount(x, minlength=12), np.bincount(x, minlength=12).astype(np.int32))
    close(tnp.bincount(x, length=4), np.bincount(x)[:4].astype(np.int32))
    w = np.float32([1, 2, 3, 4, 5])
    close(tnp.bincount(x, w), np.bincount(x, w).astype(np.float32))
    close(tnp.bincount(np.zeros(0, np.int32)), np.zeros(0, np.int32))
    with pytest.raises(DTypeError, match="bincount needs integers"):
        tnp.bincount(w)


@pytest.mark.parametrize("bins", [1, 7, np.float64([-2, -1, 0.5, 0.75, 3])])
@pytest.mark.parametrize("density", [False, True])
def test_histogram(bins, density):
    x = sample("float64", (50,), 3, special=False)
    x[:3] = [-2, 0.5, 3]
    w = sample("float64", (50,), 4, special=False)
    for options in ({}, {"range": (-1.0, 1.5)}, {"weights": w}):
        got = tnp.histogram(x, bins, density=density, **options)
        want = np.histogram(x, bins, density=density, **options)
        for a, b in zip(got, want):
            close(a, np.float64(b), 512)
        if "range" not in options:
            jitted = tfn.jit(partial(tnp.histogram, bins=bins, density=density, **options))(x)
            close(jitted[0], got[0], 64)


def test_histograms_of_few_elements():
    close(tnp.histogram(np.full(4, 3.0), 2)[0], np.histogram(np.full(4, 3.0), 2)[0] * 1.0)
    close(tnp.histogram(np.zeros(0), 2)[1], np.histogram(np.zeros(0), 2)[1])
    assert tnp.histogram(np.int8([1, 2, 2]), 2)[0].dtype == np.float32
    with pytest.raises(ArgumentError, match="a histogram knows no bins 'odd'"):
        tnp.histogram(np.ones(3), "odd")
    with pytest.raises(ShapeError, match="weight for each"):
        tnp.histogram(np.ones(3), 2, weights=np.ones(2))


def test_histograms_of_points():
    points = sample("float64", (40, 3), 5, special=False)
    got, edges = tnp.histogramdd(points, (2, 3, 4), density=True)
    want, lines = np.histogramdd(points, (2, 3, 4), density=True)
    close(got, want, 512)
    for a, b in zip(edges, lines, strict=True):
        close(a, b, 128)
    line = np.linspace(-3, 3, 5)
    for bins in (4, line, [3, line]):
        got = tnp.histogram2d(points[:, 0], points[:, 1], bins)
        want = np.histogram2d(points[:, 0], points[:, 1], bins)
        for a, b in zip(got, want, strict=True):
            close(a, b, 128)
    with pytest.raises(ArgumentError, match="for each column"):
        tnp.histogramdd(points, [2])


@pytest.mark.parametrize("bins", [1, 7, 131, 4099])
@pytest.mark.parametrize("ends", [(-4, 4), (0.0, 1.0), (-3.3, 1e3), (1e6, 1e6 + 1)])
def test_equal_bins_hold_what_is_between_their_borders(bins, ends):
    """Arithmetic finds the nearest border; where borders collide, a search does."""
    random = np.random.default_rng(0)
    borders = np.asarray(tnp.histogram_bin_edges(np.float32([0]), bins, ends))
    below, above = (np.nextafter(borders, np.float32(far)) for far in (-np.inf, np.inf))
    x = np.concatenate([random.uniform(ends[0] - 1, ends[1] + 1, 300), borders, below, above])
    x = np.append(x, [np.nan, np.inf, -np.inf]).astype(np.float32)
    assert (np.diff(borders) >= 0).all()
    place = np.searchsorted(borders, x, side="right") - 1
    place[x == borders[-1]] = bins - 1
    place = place[~np.isnan(x) & (place >= 0) & (place < bins)]
    np.testing.assert_array_equal(
        tnp.histogram(x, bins, ends)[0], np.bincount(place, minlength=bins)
    )


@pytest.mark.parametrize("bins", [1, 5, 16, 17, np.float32([-1, 0, 0, 2, 2])])
def test_few_bins_count_by_comparisons(bins):
    """Borders themselves, numbers outside, NaN and bins without width, as in NumPy."""
    x = np.float32([-1, 0, 0, 2, 2, 2.5, -3, 1.25, np.nan, np.inf] * 40)
    ends = None if isinstance(bins, np.ndarray) else (-1.0, 2.0)
    count, edges = tnp.histogram(x, bins, ends)
    expected, borders = np.histogram(x, bins, ends)
    close(count, expected.astype(np.float32))
    np.testing.assert_allclose(edges, borders, rtol=1e-5)
    run = partial(tnp.histogram, bins=bins, range=ends)
    text = str(tfn.show(lambda x: run(x)[0], tfn.ShapeDtypeStruct((400,), "float32"), at="kernels"))
    few = len(np.atleast_1d(borders)) <= 17
    assert ("gather" in text or "scatter" in text) is not few


def test_counts_beyond_the_integers_of_float32():
    x = np.zeros(2**24 + 4, np.float32)
    assert tnp.histogram(x, 20, (0, 1))[0][0] == len(x)


def test_ends_of_a_range_keep_their_precision():
    ends = (1132.2738833025414, 1132.3613876034174)
    borders = np.asarray(tnp.histogram_bin_edges(np.zeros(1), 4, ends))
    np.testing.assert_allclose(borders, np.linspace(*ends, 5), rtol=1e-15)
