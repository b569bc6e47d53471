"""Winograd's convolutions of integers: the same sums to the last bit, where these fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.graph.test_conv_product import AVX2
from tests.lower.graphs import assert_matches_oracle, p, run_compiled
from tfn.dtypes import INT32, DType, int8, int16, uint8
from tfn.lower.graph.packing import prepare
from tfn.lower.graph.winograd import fits
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

ONES = Conv((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1, 1, INT32)


def conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    of: tuple[DType, DType] = (uint8.dtype, int8.dtype),
    arg: Conv = ONES,
    zero: bool = True,
) -> UOp:
    """A convolution of bytes, widened and less a zero point."""
    image, window = p(0, *x, dtype=of[0]), build.cast(p(1, *w, dtype=of[1]), int16.dtype)
    image = build.cast(image, int16.dtype)
    if zero:
        point = build.cast(p(2, dtype=of[0]), int16.dtype)
        image = image - build.broadcast_to(point, x)
    return build.conv(image, window, arg)


@pytest.mark.parametrize(
    "u",
    [
        conv((2, 7, 10, 16), (3, 3, 16, 17)),
        conv((1, 13, 11, 18), (3, 3, 18, 16), arg=replace(ONES, padding=((0, 2), (1, 0)))),
        conv((1, 12, 12, 17), (3, 3, 17, 16), of=(int8.dtype, uint8.dtype)),
    ],
    ids=["odd rows, two images", "uneven padding", "odd channels"],
)
def test_results_are_the_same(u: UOp) -> None:
    assert fits(u)
    (prepared,) = prepare([u], AVX2)
    (dot,) = (node for node in walk([prepared]) if node.op is Op.DOT)
    assert dot.src[0].shape[0] == 16, "products of matrices"
    assert_matches_oracle([u])


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_are_exact(sign: int) -> None:
    u = conv((1, 12, 12, 16), (3, 3, 16, 16))
    values = [np.full((1, 12, 12, 16), 255, np.uint8), np.full((3, 3, 16, 16), 127 * sign, np.int8)]
    (got,) = run_compiled([u], [*values, np.array(0, np.uint8)])
    assert got[0, 2, 2, 0] == sign * 255 * 127 * 9 * 16


@pytest.mark.parametrize(
    ("u", "expected"),
    [
        (conv((1, 8, 16, 16), (3, 3, 16, 16), zero=False), True),
        (conv((1, 8, 16, 2048), (3, 3, 2048, 16)), False),
        (conv((1, 8, 16, 1024), (3, 3, 1024, 16)), True),
        (conv((1, 8, 16, 16), (3, 3, 16, 16), of=(uint8.dtype, int16.dtype)), False),
        (conv((1, 8, 16, 16), (3, 3, 16, 16), of=(int16.dtype, int8.dtype)), False),
        (conv((1, 8, 15, 16), (3, 3, 16, 16)), False),
        (conv((1, 8, 16, 8), (3, 3, 8, 16)), False),
        (conv((1, 8, 16, 16), (3, 3, 16, 8)), False),
        (conv((1, 8, 16, 16), (5, 5, 16, 16)), False),
        (conv((1, 8, 16, 16), (3, 1, 16, 16)), False),
        (conv((1, 8, 16, 16), (3, 3, 16, 16), arg=replace(ONES, strides=(2, 2))), False),
        (conv((1, 8, 16, 16), (3, 3, 16, 16), arg=replace(ONES, dilation_w=(1, 2))), False),
    ],
    ids=[
        "bytes", "sums beyond 32 bits", "sums just within", "weights of 16 bits",
        "images of 16 bits", "few pixels", "few channels", "few features", "5 x 5",
        "3 x 1", "strides", "gaps",
    ],
)  # fmt: skip
def test_factors_and_sums_fit_in_their_types(u: UOp, expected: bool) -> None:
    assert fits(u) == expected
