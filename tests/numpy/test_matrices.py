"""Structured matrices against NumPy."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.numpy.values import close, sample
from tfn.errors import ShapeError


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 5])
def test_diagonals(k):
    for shape in [(3, 4), (4, 3), (1, 1), (0, 2)]:
        close(tnp.eye(*shape, k=k), np.eye(*shape, k=k, dtype=np.float32))
        close(tnp.tri(*shape, k=k, dtype=int), np.tri(*shape, k=k, dtype=np.int32))
    x = sample("float32", (2, 3, 4))
    close(tnp.tril(x, k), np.tril(x, k))
    close(tnp.triu(x, k), np.triu(x, k))
    with pytest.raises(ShapeError, match="tril needs at least two axes"):
        tnp.tril(tnp.ones(3))


def test_diagonals_far_outside():
    for k in (2**32, -(2**32)):
        close(tnp.eye(2, k=k), np.zeros((2, 2), np.float32))
        close(tnp.tri(2, k=k), np.full((2, 2), k > 0, np.float32))
        close(tnp.triu(tnp.ones((2, 3)), k), np.full((2, 3), k < 0, np.float32))


def test_vander():
    x = np.float32([2, -1, 3])
    for count in (None, 0, 1, 5):
        for increasing in (False, True):
            close(tnp.vander(x, count, increasing), np.vander(x, count, increasing))
    with pytest.raises(ShapeError, match="vander needs a vector"):
        tnp.vander(tnp.ones((2, 2)))
