"""Axes of operands and results, and ops on parts of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
from tests.lower.graphs import p
from tfn import lax
from tfn.trace import build
from tfn.trace.axes import (
    AXES,
    PART,
    axis_groups,
    part,
    reduced_axes,
    result_axis,
    running_op,
    source_axes,
)
from tfn.trace.op import Op
from tfn.trace.oracle import evaluate
from tfn.trace.uop import UOp, walk

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
    assert reduced_axes(total, 0, 1) == (1,) and reduced_axes(total, 0, 2) is None
    assert reduced_axes(X + X, 0, 0) is None


sizes = st.lists(st.sampled_from([1, 2, 3, 4]), max_size=4).map(tuple)


@given(sizes, st.data())
def test_groups_of_axes_are_equal_products(shape: tuple[int, ...], data: st.DataObject) -> None:
    other = tuple(data.draw(st.permutations(shape)))
    groups = list(axis_groups(shape, other))
    for sizes, k in ((shape, 0), (other, 1)):
        assert [i for pair in groups for i in pair[k]] == [i for i, n in enumerate(sizes) if n > 1]
    for left, right in groups:
        assert prod(shape[axis] for axis in left) == prod(other[axis] for axis in right)


CUTS = [
    X + 1.0,
    -X,
    build.permute(X, (2, 0, 1)),
    build.expand(p(0, 1, 3), (4, 3)),
    build.reshape(X, (2, 15)),
    build.reduce(X, Op.MAX, (1,)),
    build.pad(X, (0, 1, 0), (0, 0, 2)),
    build.shrink(X, (0, 1, 0), (2, 3, 5)),
    build.flip(X, (1,)),
    build.concat([X, X], 1),
    build.full_like(X, 2.0),
    DOT,
]
"""Values of ops of which blocks are taken."""


def test_every_op_with_a_row_of_parts_is_cut() -> None:
    assert {*PART} - {Op.GATHER} <= {u.op for u in CUTS}


@pytest.mark.parametrize("u", CUTS, ids=lambda u: u.op.value)
def test_blocks_are_those_of_the_whole(u: UOp) -> None:
    rng = np.random.default_rng(0)
    leaves = [s for s in walk([u]) if s.op is Op.PARAM]
    inputs = {s: rng.standard_normal(s.shape).astype(np.float32) for s in leaves}
    (whole,) = evaluate([u], inputs)
    for axis, n in enumerate(u.shape):
        axes = source_axes(u, axis)
        if axes is not None:
            src = [_rows(s, at, n) for s, at in zip(u.src, axes, strict=True)]
            block = part(u, src, (*u.shape[:axis], n - 1, *u.shape[axis + 1 :]))
            assert block.shape == (*u.shape[:axis], n - 1, *u.shape[axis + 1 :])
            (value,) = evaluate([block], inputs)
            np.testing.assert_array_equal(value, np.take(whole, range(1, n), axis))


def _rows(s: UOp, axis: int | None, n: int) -> UOp:
    """All rows of a source but the first; all of one that is read whole."""
    start = [int(i == axis) for i in range(s.ndim)]
    return build.shrink(s, tuple(start), s.shape)


def test_each_axis_is_of_one_factor_and_each_factor_of_one_size() -> None:
    for u in CUTS:
        relation = AXES[u.op](u)
        assert [len(row) for row in relation.operands] == [s.ndim for s in u.src]
        assert len(relation.result) == u.ndim
        for s, row in zip((*u.src, u), (*relation.operands, relation.result), strict=True):
            for n, factor in zip(s.shape, row, strict=True):
                if factor is not None and factor not in {*relation.windows, *relation.even}:
                    assert n == relation.sizes[factor]


def test_loops_that_run_no_monoid_are_no_running_sum() -> None:
    def op_of(f: Callable[..., Any]) -> Any:
        jaxpr = tfn.make_jaxpr(lambda xs: lax.scan(f, xs[0], xs))(np.ones((4, 2), np.float32))
        (node,) = {u.src[0] for u in jaxpr.outputs}
        return running_op(node)

    assert op_of(lambda c, x: (c + x, c + x)) is Op.ADD
    assert op_of(lambda c, x: (c + x, c)) is None and op_of(lambda c, x: (c - x, c - x)) is None
    assert op_of(lambda c, x: (x + x, x + x)) is None
