"""Axis propagation: from an axis of a value to those of its sources, and back."""

from __future__ import annotations

import pytest

from tests.lower.graphs import p
from tfn.lower.graph.axis_maps import reduced_axes, result_axis, source_axes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp

X, Y = p(0, 2, 3, 5), p(1, 2, 7, 5)
DOT = build.dot(X, Y, ((2,), (2,)), ((0,), (0,)))
RESHAPED_IOTA = build.reshape(build.iota((30,), 0), (2, 3, 5))


@pytest.mark.parametrize(
    ("u", "expected"),
    [
        (-X, [[0], [1], [2]]),
        (X + X, [[0, 0], [1, 1], [2, 2]]),
        (DOT, [[0, 0], [1, None], [None, 1]]),
        (build.permute(X, (2, 0, 1)), [[2], [0], [1]]),
        (build.add_up(X, (1,)), [[0], [2]]),
        (build.expand(p(0, 1, 3), (4, 3)), [[None], [1]]),
        (build.reshape(X, (2, 15)), [[0], None]),
        (build.reshape(X, (2, 1, 3, 5)), [[0], None, [1], [2]]),
        (RESHAPED_IOTA, [[None], [None], [None]]),
        (build.pad(X, (0, 1, 0), (0, 0, 0)), [[0, None], None, [2, None]]),
        (build.shrink(X, (0, 1, 0), (2, 3, 5)), [[0], None, [2]]),
        (build.flip(X, (1,)), [[0], None, [2]]),
        (build.concat([X, X], 1), [[0, 0], None, [2, 2]]),
        (build.gather(X, build.iota((1,), 0), (2, 3, 5)), [None, None, None]),
    ],
)
def test_source_axes_and_result_axes(u: UOp, expected: list[list[int | None] | None]) -> None:
    axes_of_sources = [source_axes(u, axis) for axis in range(len(expected))]
    assert [None if axes is None else list(axes) for axes in axes_of_sources] == expected
    for axis, axes in enumerate(expected):
        for index, at in enumerate(axes or ()):
            assert at is None or result_axis(u, index, at) == axis


def test_reduced_axes() -> None:
    assert reduced_axes(DOT, 0, 2) == (2, 2) and reduced_axes(DOT, 0, 1) is None
    assert result_axis(DOT, 0, 2) is None
    total = build.reduce(X, Op.MAX, (1,))
    assert reduced_axes(total, 0, 1) == [1] and reduced_axes(total, 0, 2) is None
    assert reduced_axes(X + X, 0, 0) is None
