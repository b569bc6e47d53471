"""Filters of images against SciPy's."""

import numpy as np
import pytest
import scipy.ndimage as theirs

import tfn
from tests.covering import in_turn
from tfn.errors import TfnError
from tfn.scipy import ndimage as ours

RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 6))
CUBE = RNG.standard_normal((4, 5, 3))
W = RNG.standard_normal((3, 4))
CROSS = np.bool_([[0, 1, 0], [1, 1, 1], [0, 1, 0]])
MODES = ("reflect", "mirror", "nearest", "wrap", "constant")

CALLS = {
    "correlate": [{"weights": W}, {"weights": W, "origin": (1, -1)}],
    "convolve": [{"weights": W}, {"weights": W, "origin": (-1, 1)}],
    "correlate1d": [{"weights": W[0]}, {"weights": W[0], "axis": 0, "origin": 1}],
    "convolve1d": [{"weights": W[0]}, {"weights": W[0, :3], "axis": 0, "origin": -1}],
    "gaussian_filter1d": [{"sigma": 0.8}, {"sigma": 1, "axis": 0, "order": 2, "radius": 2}],
    "gaussian_filter": [{"sigma": 0.7}, {"sigma": (1, 0.5), "order": (0, 1)},
        {"sigma": 1, "axes": 1, "truncate": 2}, {"sigma": 1, "order": 3, "radius": (3, 1)}],
    "gaussian_laplace": [{"sigma": 0.9}],
    "gaussian_gradient_magnitude": [{"sigma": 0.9}],
    "sobel": [{}, {"axis": 0}],
    "prewitt": [{}, {"axis": 0}],
    "laplace": [{}],
    "uniform_filter": [{}, {"size": (2, 5)}, {"size": 4, "origin": 1}],
    "maximum_filter": [{"size": 3}, {"size": (2, 4)}, {"footprint": CROSS}],
    "minimum_filter": [{"size": 3, "origin": 1}, {"footprint": CROSS}],
    "median_filter": [{"size": 3}, {"size": (2, 3)}, {"footprint": CROSS}],
    "rank_filter": [{"rank": 1, "size": 3}, {"rank": -2, "footprint": CROSS}],
}  # fmt: skip


@pytest.mark.parametrize("name", in_turn(2, CALLS))
def test_filters_are_those_of_scipy(name, mostly_uncompiled):
    for i, options in enumerate(CALLS[name]):
        for mode in MODES[i % 2 :: 2]:
            each = {**options, "mode": mode, "cval": 2.5}
            got = getattr(ours, name)(X, **each)
            want = getattr(theirs, name)(X, **each)
            np.testing.assert_allclose(got, want, 1e-6, 1e-6, err_msg=str(each))


@pytest.mark.parametrize("name", ["sobel", "uniform_filter", "laplace"])
def test_other_ranks_and_modes_by_axis(name, uncompiled):
    for x in (CUBE, X[0], (9 * X).astype(np.int32)):
        mode = ["wrap", "nearest", "constant"][: x.ndim]
        got = getattr(ours, name)(x, mode=mode)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, getattr(theirs, name)(x, mode=mode), 1e-6, 1e-6)


def test_float64_keeps_its_digits(uncompiled):
    np.testing.assert_allclose(ours.gaussian_filter(X, 1.3), theirs.gaussian_filter(X, 1.3), 1e-12)


def test_filters_are_differentiated_and_mapped(uncompiled):
    kernel = np.float64([1, 2, 4])
    slope = tfn.grad(lambda x: ours.correlate1d(x, kernel, mode="wrap").sum())(X)
    np.testing.assert_allclose(slope, np.full_like(X, 7))
    each = tfn.vmap(lambda x: ours.sobel(x))(CUBE)
    np.testing.assert_allclose(each[1], theirs.sobel(CUBE[1]), 1e-6, 1e-6)


def test_wrong_calls(uncompiled):
    for call in (
        lambda: ours.correlate(X, W[0]),
        lambda: ours.sobel(X, mode="odd"),
        lambda: ours.sobel(X, axis=2),
        lambda: ours.median_filter(X),
        lambda: ours.median_filter(X, footprint=np.zeros((3, 3))),
        lambda: ours.uniform_filter(X, 3, origin=2),
        lambda: ours.gaussian_filter(X, (1, 2, 3)),
        lambda: ours.rank_filter(X, 9, 3),
        lambda: ours.sobel(X, output=np.float64),
    ):
        with pytest.raises(TfnError):
            call()
