"""Distances against SciPy's."""

import math

import numpy as np
import pytest
import scipy.spatial.distance as theirs

import tfn
from tfn.errors import TfnError
from tfn.scipy.spatial import distance

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((5, 4)), RNG.standard_normal((7, 4))
W = np.float64([0.5, 2, 0, 1])
OPTIONS = {"minkowski": {"p": 3}, "seuclidean": {"V": W + 1}, "mahalanobis": {"VI": np.diag(W + 1)}}
UNWEIGHTED = ("seuclidean", "mahalanobis")


@pytest.mark.parametrize("metric", distance._METRICS)
def test_distances_are_those_of_scipy(metric, mostly_uncompiled):
    a, b = (np.round(x) for x in (A, B)) if metric in ("hamming", "jaccard", "canberra") else (A, B)
    options = [{}, OPTIONS.get(metric, {})] + [{"w": W}] * (metric not in UNWEIGHTED)
    for each in options:
        np.testing.assert_allclose(
            distance.cdist(a, b, metric, **each), theirs.cdist(a, b, metric, **each), 1e-12, 1e-12
        )
        found = distance.pdist(b, metric, **each)
        np.testing.assert_allclose(found, theirs.pdist(b, metric, **each), 1e-12, 1e-12)


def test_vectors_of_pairs_become_matrices_and_back():
    pairs = distance.pdist(B)
    square = distance.squareform(pairs)
    np.testing.assert_array_equal(square, theirs.squareform(np.asarray(pairs)))
    np.testing.assert_array_equal(distance.squareform(square), pairs)
    assert distance.squareform(np.zeros(0)).shape == theirs.squareform(np.zeros(0)).shape
    assert distance.pdist(A[:1]).shape == (0,)


def test_a_function_of_two_points_is_a_metric():
    got = distance.cdist(A, B, lambda u, v: abs(u - v).sum())
    np.testing.assert_allclose(got, theirs.cdist(A, B, "cityblock"), rtol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "minkowski", "mahalanobis", "seuclidean"])
def test_points_that_are_the_same_have_finite_slopes(metric, uncompiled):
    slope = tfn.grad(lambda x: distance.cdist(x, x, metric, **OPTIONS.get(metric, {})).sum())(B)
    assert np.isfinite(slope).all()


def test_wrong_calls(uncompiled):
    for call in (
        lambda: distance.cdist(A, B[:, :2]),
        lambda: distance.pdist(A[0]),
        lambda: distance.cdist(A, B, "manhattan"),
        lambda: distance.cdist(A, B, "euclidean", p=3),
        lambda: distance.squareform(np.zeros(4)),
        lambda: distance.squareform(np.zeros(3), force="tovector"),
        lambda: distance.squareform(math.nan),
    ):
        with pytest.raises(TfnError):
            call()
