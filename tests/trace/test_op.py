"""The list of ops: closed, and each in the groups that it belongs to."""

from __future__ import annotations

from tfn.trace.op import BINARY, COMPARE, ELEMENTWISE, MONOIDS, MOVEMENT, UNARY, Op


def test_names_are_unique():
    assert len({op.value for op in Op}) == len(Op)


def test_groups_do_not_overlap():
    groups = [UNARY, BINARY, COMPARE, MOVEMENT]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))
    assert UNARY | BINARY | COMPARE < ELEMENTWISE
    assert not ELEMENTWISE & MOVEMENT
    assert set(MONOIDS) <= BINARY
