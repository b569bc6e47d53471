"""Pooling over one to three axes."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.nn.waves import agrees, wave
from tfn import nn
from tfn import numpy as jnp
from tfn.errors import ArgumentError


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_blocks(rank: int) -> None:
    sizes = (4, 6, 2)[:rank]
    x = wave(2, *sizes, 3)
    cut = np.asarray(x).reshape(2, *(m for n in sizes for m in (n // 2, 2)), 3)
    axes = tuple(range(2, 2 * rank + 1, 2))
    np.testing.assert_array_equal(nn.max_pool(x, 2), cut.max(axes))
    np.testing.assert_allclose(nn.avg_pool(x, 2), cut.mean(axes), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        nn.adaptive_avg_pool(x, tuple(n // 2 for n in sizes)), cut.mean(axes), rtol=1e-5, atol=1e-6
    )


def test_windows_that_overlap_or_leave_the_image() -> None:
    x = wave(2, 4, 6, 3)
    assert nn.max_pool(x, (3, 2), 1).shape == (2, 2, 5, 3)
    assert nn.max_pool(x, 3, 2, [(1, 1), (1, 1)]).shape == (2, 2, 3, 3)
    ones = jnp.ones((1, 3, 3, 1))
    np.testing.assert_array_equal(nn.avg_pool(ones, 2, 1, "SAME"), ones)
    corner = nn.avg_pool(ones, 2, 1, "SAME", count_include_pad=True)[0, 2, 2, 0]
    assert corner.item() == 0.25


def test_gradient_of_max_pool_goes_to_the_largest() -> None:
    x = jnp.asarray(np.array([[1, 2], [4, 3]], np.float32).reshape(1, 2, 2, 1))
    slope = tfn.grad(lambda x: nn.max_pool(x, 2).sum())(x)
    np.testing.assert_array_equal(slope[0, :, :, 0], [[0, 0], [1, 0]])


def test_adaptive() -> None:
    x = wave(1, 2, 5, 7).transpose(0, 2, 3, 1)
    y = nn.adaptive_avg_pool(x, (3, 4))
    assert y.shape == (1, 3, 4, 2)
    agrees(
        y.transpose(0, 3, 1, 2),
        [  # as PyTorch
            -0.24238,
            0.42257,
            0.55786,
            -0.01217,
            -0.28517,
            -0.37789,
            0.01298,
            0.37991,
            0.7059,
        ],
    )
    np.testing.assert_allclose(nn.adaptive_avg_pool(x, 1)[:, 0, 0], x.mean((1, 2)), atol=1e-6)
    assert nn.adaptive_avg_pool(x, (2, 9)).shape == (1, 2, 9, 2)
    for sizes in (0, (2, 2, 2)):
        with pytest.raises(ArgumentError):
            nn.adaptive_avg_pool(x, sizes)
