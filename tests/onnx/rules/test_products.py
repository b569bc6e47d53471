"""Reductions, contractions, convolutions and sorts, saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.onnx.saved import floats, holds, integers, operations
from tfn import lax, nn
from tfn import numpy as tnp

PLANES = ("NHWC", "HWIO", "NHWC")


def test_reductions() -> None:
    def function(x: Any) -> Any:
        places = tnp.argmax(x, 1), tnp.argmin(x, 0)
        return places, x.max(), x.sum((0, 1)), x.prod(1), x.mean(0), tnp.any(x > 1, 0)

    holds(function, floats(4, 5))


def test_products_of_matrices() -> None:
    a, b = floats(2, 3, 4), floats(2, 4, 3)
    holds(lambda a, b: (a @ b, a[0] @ b[0], a @ b[0], a[0, 0] @ b[0], a[0] @ b[0, :, 0]), a, b)
    sums = "bij,bjk->ik", "bij,bjk->kbi", "bij,ajk->baik"
    holds(lambda a, b: [tnp.einsum(s, a, b) for s in sums], a, b)
    assert operations(lambda a, b: a @ b, a, b) == ["MatMul"]


def test_products_of_narrow_integers_are_wide() -> None:
    numbers = (((1,), (0,)), ((), ()))
    narrow = lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type="int32")
    holds(narrow, integers(99, 4, 5).astype(np.int8), integers(99, 5, 6).astype(np.int8))


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_their_gradients(groups: int) -> None:
    def function(x: Any, w: Any) -> Any:
        options = {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "feature_group_count": groups}
        pads = ((1, 2), (-1, 2))
        return lax.conv_general_dilated(x, w, (1, 2), pads, dimension_numbers=PLANES, **options)

    x, w = floats(2, 6, 7, 4), floats(3, 3, 4 // groups, 6)
    holds(function, x, w)
    holds(tfn.grad(lambda x, w: (function(x, w) ** 2).sum(), argnums=(0, 1)), x, w)


def test_pools_and_their_gradients() -> None:
    pools = lambda x: (nn.max_pool(x, (2, 2), (2, 2)), nn.avg_pool(x, (2, 2), (2, 2)))
    holds(pools, floats(2, 4, 4, 3))
    holds(tfn.grad(lambda x: sum((y**2).sum() for y in pools(x))), floats(2, 4, 4, 3))


def test_sorts() -> None:
    holds(lambda x: (tnp.sort(x), tnp.argsort(x, 0), lax.top_k(x, 3)), floats(4, 6))
    holds(lambda x: (tnp.argsort(x), tnp.lexsort((x[0], x[1]))), integers(3, 4, 16))


def test_not_a_number_comes_last() -> None:
    holds(lambda x: tnp.sort(x), np.array([np.nan, 1, -2, np.nan, 0.5], np.float32))


def test_fourier_transforms_and_linear_solvers_are_products_and_loops() -> None:
    holds(lambda x: (tnp.abs(tnp.fft.rfft(x)), tnp.fft.irfft(tnp.fft.rfft(x))), floats(3, 8))
    positive = lambda x: x @ x.T + tnp.eye(3)
    holds(lambda x: (tnp.linalg.inv(positive(x)), tnp.linalg.cholesky(positive(x))), floats(3, 5))
