"""Predicates: conjunctions of bounds, and the intervals that they imply."""

from __future__ import annotations

import pytest

from tests.lower.random_indices import RANGES, index
from tfn.dtypes import (
    BOOL,
    INT32,
    INT64,
    UINT64,
)
from tfn.lower.index.predicates import implied
from tfn.lower.index.simplify import simplify
from tfn.trace.argument import Param, Range
from tfn.trace.build import eq, maximum, minimum, ne, where
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

r, s, t = RANGES
flag = UOp(Op.PARAM, (), Param(3, (), BOOL))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r < 4, const(True, BOOL)),
        (r * 4 + s < 12, r < 3),
        (r * 4 + s <= 11, r < 3),
        (r * 4 + s < 13, r * 4 + s < 13),
        (index(3) < r * 4 + s, index(0) < r),
        (r - s < r, index(0) < s),
        (r + 1 < s + 1, r < s),
        (r <= s, r <= s),
        (r * 2 < t * 2, r < t),
        (t // 2 < 1, t < 2),
        (eq(r * 2, index(3)), const(False, BOOL)),
        (eq(r * 2, index(4)), eq(r, index(2))),
        (ne(r, index(9)), const(True, BOOL)),
        ((r < 3) & (r < 2), r < 2),
        ((r < 2) & flag & (r < 3) & flag, (r < 2) & flag),
        ((r < 2) & (index(1) < r), const(False, BOOL)),
        ((r < 2) & (s < 2), (r < 2) & (s < 2)),
        (maximum(r, s + 4), s + 4),
        (minimum(r, index(3)), r),
        (minimum(minimum(t, index(4)), index(2)), minimum(t, index(2))),
        (where(r < 4, r, s), r),
    ],
)
def test_comparisons_and_conjunctions(before, after):
    assert simplify(before) is after


def test_a_predicate_implies_intervals() -> None:
    r, s = (UOp(Op.RANGE, (), Range(i, 768)) for i in range(2))
    low = const(255, INT64) < r
    assert implied(low & (r < 512) & (r < 600)) == {r: (256, 511)}
    assert implied((s < 5) & low)[s][1] == 4
    assert implied(ne(r, s)) == {}
    unsigned = UOp(Op.BITCAST, (r - 300,), UINT64)
    assert implied((unsigned < 3) & low)[r - 300] == (0, 2)
    assert r - 300 not in implied(unsigned < (1 << 63) + 1)
    at = (r - 256) // 256 * 1000 + (r - 256) % 256
    assert simplify(at, implied(low & (r < 512))) is simplify(r - 256)


def test_one_unsigned_comparison_bounds_both_sides() -> None:
    x = UOp(Op.PARAM, (), Param(0, (), INT64))
    bits = UOp(Op.BITCAST, (x,), UINT64)
    assert implied(bits < const(7, UINT64))[x] == (0, 6)
    assert implied((bits < const(7, UINT64)) & (x < 5) & (const(1, INT64) < x))[x] == (2, 4)
    assert implied(bits < const(1 << 63, UINT64))[x] == (0, (1 << 63) - 1)
    assert x not in implied(bits < const((1 << 63) + 1, UINT64))  # -2**63 has these bits
    assert x not in implied(const(7, UINT64) < bits)
    narrow = UOp(Op.PARAM, (), Param(0, (), INT32))
    assert narrow not in implied(UOp(Op.CAST, (narrow,), UINT64) < const(7, UINT64))
