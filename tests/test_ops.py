"""Segments against NumPy's unbuffered updates, with those that are outside or empty."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn import ops
from tfn.errors import ShapeError

IDS = np.array([3, 0, 3, -1, 9, 0, 2])
X = np.random.default_rng(0).normal(size=(7, 2)).astype("float32")
CASES = {
    "segment_sum": (np.add, 0),
    "segment_prod": (np.multiply, 1),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    combine, start = CASES[name]
    expected = np.full((5, 2), start, "float32")
    inside = (IDS >= 0) & (IDS < 5)
    combine.at(expected, IDS[inside], X[inside])
    actual = tfn.jit(lambda x, i: getattr(ops, name)(x, i, num_segments=5))(X, IDS)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_the_number_of_segments_is_that_of_the_last():
    assert ops.segment_sum(tnp.array([1, 2, 3]), tnp.array([0, 2, 2])).tolist() == [1, 0, 5]
    assert ops.segment_sum(tnp.ones((2, 3)), np.array([[0, 1, 1], [1, 1, 0]])).tolist() == [2, 4]


def test_gradients():
    slope = tfn.grad(lambda x: (ops.segment_sum(x, IDS, 5)[3] ** 2).sum())(X)
    expected = np.zeros_like(X)
    expected[[0, 2]] = 2 * (X[0] + X[2])
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_each_element_has_a_segment():
    with pytest.raises(ShapeError, match=r"f32\[3\], i32\[2\]"):
        ops.segment_max(tnp.ones(3), tnp.array([0, 1]), 2)
