"""Convolution padding and polyphase decomposition: the same values, from fewer products."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.covering import together
from tests.lower.graphs import assert_close, assert_matches_oracle, conv, inputs, ops, p, run_oracle
from tfn.dtypes import FLOAT32
from tfn.lower.graph.conv_padding import pad_explicitly, polyphase
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def test_padding_axes_of_size_1_through_a_reshape() -> None:
    """They are indistinguishable, so the value is padded as it is."""
    x, w = p(0, 3, 1, 2, 1, 1, 1), p(1, 3, 4, 1, 5)
    arg = Conv((1, 1), ((1, 3), (2, 2)), (1, 1), (1, 1), 1, 1, FLOAT32)
    u = build.conv(build.reshape(x, (6, 1, 1, 1)), w, arg)
    values = inputs([u])
    assert_close(run_oracle([pad_explicitly(u)], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("padding", [(0, 0), (1, 2), (-1, 0), (-1, 2)])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_becomes_a_value(padding: tuple[int, int], dilation: int, stride: int) -> None:
    u = conv(p(0, 2, 6, 5, 3), p(1, 2, 3, 3, 4), stride, padding, dilation)
    rewritten = pad_explicitly(u)
    assert not any(map(any, rewritten.arg.padding)) and rewritten.arg.dilation_x == (1, 1)
    assert rewritten.shape == u.shape
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)
    assert pad_explicitly(rewritten) is rewritten


def test_a_padded_copy_keeps_its_order_in_memory() -> None:
    """The gradient to weights reads inputs by channels: they are padded in that order."""
    x, ct = p(0, 2, 6, 5, 4), p(1, 6, 5, 2, 1)
    by_channel = build.reshape(
        build.permute(build.reshape(x, (1, 2, 6, 5, 4, 1)), (4, 0, 5, 2, 3, 1)), (4, 6, 5, 2)
    )
    arg = Conv((1, 1), ((1, 1), (0, 2)), (1, 1), (1, 1), 1, 1, FLOAT32)
    u = build.conv(by_channel, ct, arg)
    rewritten = pad_explicitly(u)
    (pad,) = ops([rewritten], Op.PAD)
    assert pad.shape == (2, 8, 7, 4) and pad.src[0] is x
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)
    mixed = build.reshape(build.permute(x, (0, 3, 1, 2)), (2, 6, 5, 4))  # axes are regrouped
    v = build.conv(mixed, p(1, 6, 5, 4, 1), arg)
    assert_close(
        run_oracle([pad_explicitly(v)], values_of := inputs([v]))[0],
        run_oracle([v], values_of)[0],
        1e-5,
        1e-5,
    )


def dilated(
    x: UOp,
    w: UOp,
    steps: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: int = 1,
    groups: int = 1,
    batches: int = 1,
) -> UOp:
    n = len(steps)
    arg = Conv((1,) * n, padding, steps, (dilation,) * n, groups, batches, x.dtype)
    return build.conv(x, w, arg)


CASES = [
    (size, window, step, padding, dilation)
    for size, window, step, padding, dilation in product(
        (1, 2, 5), (1, 2, 3, 4), (2, 3), ((0, 0), (1, 0), (2, 3), (-1, 2)), (1, 2, 3)
    )
    if step % 2 + dilation % 2
    and (step, dilation) != (3, 3)
    and (size - 1) * step + sum(padding) >= (window - 1) * dilation
]


@together("size, window, step, padding, dilation", CASES)
def test_polyphase_of_a_dilated_input(
    size: int, window: int, step: int, padding: tuple[int, int], dilation: int
) -> None:
    u = dilated(p(0, 2, size, 3), p(1, window, 3, 2), (step,), (padding,), dilation)
    rewritten = polyphase(u, pad_explicitly)
    assert rewritten.shape == u.shape and len(ops([rewritten], Op.CONV)) <= min(step, window)
    values = inputs([u])
    assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)


def test_polyphase_of_several_axes_and_groups() -> None:
    graphs = [
        dilated(p(0, 2, 3, 4, 2), p(1, 3, 2, 2, 5), (2, 3), ((1, 1), (0, 2))),
        dilated(p(0, 2, 3, 4, 4), p(1, 3, 3, 2, 6), (2, 1), ((1, 2), (1, 1)), groups=2),
        dilated(p(0, 4, 3, 4, 2), p(1, 3, 3, 2, 6), (2, 2), ((1, 2), (1, 1)), batches=2),
        dilated(p(0, 1, 2, 3, 2, 2), p(1, 2, 3, 1, 2, 3), (2, 2, 3), ((1, 1), (1, 1), (0, 1))),
    ]
    for u in graphs:
        values = inputs([u])
        rewritten = polyphase(u, pad_explicitly)
        assert_close(run_oracle([rewritten], values)[0], run_oracle([u], values)[0], 1e-5, 1e-5)
        assert_matches_oracle([u], values, rtol=1e-5)


def test_no_zeros_between_dilated_elements() -> None:
    """Not even a zero, which an infinite weight would make NaN."""
    u = dilated(p(0, 1, 4, 1), p(1, 3, 1, 1), (2,), ((0, 0),))
    x, w = np.ones((1, 4, 1), np.float32), np.array([1, np.inf, 2], np.float32).reshape(3, 1, 1)
    expected = np.array([3, np.inf, 3, np.inf, 3], np.float32).reshape(1, 5, 1)
    np.testing.assert_array_equal(run_oracle([u], [x, w])[0], expected)
    assert_matches_oracle([u], [x, w])


def test_strided_and_dilated_stays_whole() -> None:
    arg = Conv((2,), ((1, 1),), (3,), (1,), 1, 1, FLOAT32)
    u = build.conv(p(0, 1, 4, 2), p(1, 3, 2, 2), arg)
    assert polyphase(u, lambda conv: conv) is u
