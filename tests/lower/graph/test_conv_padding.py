"""Convolutions without padding and without holes: the same values, from fewer products."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.lower.graphs import agree, by_definition, conv, inputs, ops, p, same
from tfn.dtypes import FLOAT32
from tfn.lower.graph.conv_padding import in_phases, pad_explicitly
from tfn.trace import build
from tfn.trace.argument import Conv
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def test_axes_of_size_1_that_a_reshape_has_moved() -> None:
    """Which of them the padded ones are cannot be told: the value is padded as it is."""
    x, w = p(0, 3, 1, 2, 1, 1, 1), p(1, 3, 4, 1, 5)
    arg = Conv((1, 1), ((1, 3), (2, 2)), (1, 1), (1, 1), 1, 1, FLOAT32)
    u = build.conv(build.reshape(x, (6, 1, 1, 1)), w, arg)
    values = inputs([u])
    same(by_definition([pad_explicitly(u)], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)


@pytest.mark.parametrize("padding", [(0, 0), (1, 2), (-1, 0), (-1, 2)])
@pytest.mark.parametrize("spread", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_becomes_a_value(padding: tuple[int, int], spread: int, stride: int) -> None:
    u = conv(p(0, 2, 6, 5, 3), p(1, 2, 3, 3, 4), stride, padding, spread)
    made = pad_explicitly(u)
    assert not any(map(any, made.arg.padding)) and made.arg.dilation_x == (1, 1)
    assert made.shape == u.shape
    values = inputs([u])
    same(by_definition([made], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)
    assert pad_explicitly(made) is made


def test_what_is_padded_keeps_its_order_in_memory() -> None:
    """The gradient to weights reads inputs by channels: they are padded as they lie."""
    x, ct = p(0, 2, 6, 5, 4), p(1, 6, 5, 2, 1)
    by_channel = build.reshape(
        build.permute(build.reshape(x, (1, 2, 6, 5, 4, 1)), (4, 0, 5, 2, 3, 1)), (4, 6, 5, 2)
    )
    arg = Conv((1, 1), ((1, 1), (0, 2)), (1, 1), (1, 1), 1, 1, FLOAT32)
    u = build.conv(by_channel, ct, arg)
    made = pad_explicitly(u)
    (pad,) = ops([made], Op.PAD)
    assert pad.shape == (2, 8, 7, 4) and pad.src[0] is x
    values = inputs([u])
    same(by_definition([made], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)
    mixed = build.reshape(build.permute(x, (0, 3, 1, 2)), (2, 6, 5, 4))  # axes are regrouped
    v = build.conv(mixed, p(1, 6, 5, 4, 1), arg)
    same(
        by_definition([pad_explicitly(v)], values_of := inputs([v]))[0],
        by_definition([v], values_of)[0],
        1e-5,
        1e-5,
    )


def apart(
    x: UOp,
    w: UOp,
    steps: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    spread: int = 1,
    groups: int = 1,
    batches: int = 1,
) -> UOp:
    n = len(steps)
    arg = Conv((1,) * n, padding, steps, (spread,) * n, groups, batches, x.dtype)
    return build.conv(x, w, arg)


CASES = [
    (size, window, step, padding, spread)
    for size, window, step, padding, spread in product(
        (1, 2, 5), (1, 2, 3, 4), (2, 3), ((0, 0), (1, 0), (2, 3), (-1, 2)), (1, 2, 3)
    )
    if step % 2 + spread % 2
    and (step, spread) != (3, 3)
    and (size - 1) * step + sum(padding) >= (window - 1) * spread
]


@pytest.mark.parametrize(("size", "window", "step", "padding", "spread"), CASES)
def test_elements_that_are_apart_are_brought_together(
    size: int, window: int, step: int, padding: tuple[int, int], spread: int
) -> None:
    u = apart(p(0, 2, size, 3), p(1, window, 3, 2), (step,), (padding,), spread)
    made = in_phases(u, pad_explicitly)
    assert made.shape == u.shape and len(ops([made], Op.CONV)) <= min(step, window)
    values = inputs([u])
    same(by_definition([made], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)


def test_phases_of_several_axes_and_groups_mean_the_same() -> None:
    graphs = [
        apart(p(0, 2, 3, 4, 2), p(1, 3, 2, 2, 5), (2, 3), ((1, 1), (0, 2))),
        apart(p(0, 2, 3, 4, 4), p(1, 3, 3, 2, 6), (2, 1), ((1, 2), (1, 1)), groups=2),
        apart(p(0, 4, 3, 4, 2), p(1, 3, 3, 2, 6), (2, 2), ((1, 2), (1, 1)), batches=2),
        apart(p(0, 1, 2, 3, 2, 2), p(1, 2, 3, 1, 2, 3), (2, 2, 3), ((1, 1), (1, 1), (0, 1))),
    ]
    for u in graphs:
        values = inputs([u])
        made = in_phases(u, pad_explicitly)
        same(by_definition([made], values)[0], by_definition([u], values)[0], 1e-5, 1e-5)
        agree([u], values, rtol=1e-5)


def test_between_elements_that_are_apart_there_is_nothing() -> None:
    """Not even a zero, which an infinite weight would make NaN."""
    u = apart(p(0, 1, 4, 1), p(1, 3, 1, 1), (2,), ((0, 0),))
    x, w = np.ones((1, 4, 1), np.float32), np.array([1, np.inf, 2], np.float32).reshape(3, 1, 1)
    want = np.array([3, np.inf, 3, np.inf, 3], np.float32).reshape(1, 5, 1)
    np.testing.assert_array_equal(by_definition([u], [x, w])[0], want)
    agree([u], [x, w])


def test_what_has_strides_too_is_padded() -> None:
    arg = Conv((2,), ((1, 1),), (3,), (1,), 1, 1, FLOAT32)
    u = build.conv(p(0, 1, 4, 2), p(1, 3, 2, 2), arg)
    assert in_phases(u, lambda whole: whole) is u
