"""Vector quantization."""

import numpy as np
import pytest
import scipy.cluster.vq

import tfn
from tfn.errors import ShapeError
from tfn.scipy.cluster import vq

RNG = np.random.default_rng(0)


def test_codes_and_distances_are_those_of_scipy():
    points, codes = RNG.standard_normal((20, 3)), RNG.standard_normal((4, 3))
    for p, c in ((points, codes), (points[:, 0], codes[:, 0])):
        want = scipy.cluster.vq.vq(p.reshape(20, -1), c.reshape(4, -1))
        for run in (vq.vq, tfn.jit(vq.vq)):
            for got, value in zip(run(p, c), want, strict=True):
                np.testing.assert_allclose(got, value, rtol=1e-12)
    slope = tfn.grad(lambda p: vq.vq(p, codes)[1].sum())(points)
    np.testing.assert_allclose(np.linalg.norm(slope, axis=1), 1)
    with pytest.raises(ShapeError):
        vq.vq(points, codes[:, :2])
    with pytest.raises(ShapeError):
        vq.vq(points, codes[:, 0])
