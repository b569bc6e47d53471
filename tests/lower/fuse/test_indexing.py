"""Indexing: the value of a node at an index, predicates, and positions."""

from __future__ import annotations

from tests.lower.graphs import p
from tfn.dtypes import BOOL, FLOAT32, INT32, INT64
from tfn.lower.fuse.indexing import (
    INT32_INDEX_LIMIT,
    Index,
    Indexer,
    conjunction,
    flat,
    unflat,
    within,
)
from tfn.trace import build
from tfn.trace.argument import Iota, Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)
R, S = (UOp(Op.RANGE, (), Range(n, size)) for n, size in enumerate((5, 7)))


def test_flat_and_unflat() -> None:
    assert flat((5, 7), (R, S)) is R * 7 + S
    assert flat((), ()) is ZERO
    assert flat((5, 1), (R, ZERO)) is R
    assert unflat((5, 7), flat((5, 7), (R, S))) == (R, S)
    assert unflat((35,), flat((5, 7), (R, S))) == (R * 7 + S,)
    assert unflat((1, 5, 1), R) == (ZERO, R, ZERO)


def test_predicates() -> None:
    assert within(R, 0, 5) is None, "it always holds"
    assert within(R, 5, 9) is const(False, BOOL)
    predicate = within(R, 2, 9)
    assert predicate is not None
    assert (
        conjunction(None, predicate) is predicate is conjunction(predicate, None)
        and conjunction(None, None) is None
    )
    assert conjunction(predicate, const(False, BOOL)) is const(False, BOOL)


def test_requests_are_memoised() -> None:
    x = p(0, 5, 7)
    indexer = Indexer(())
    first = indexer.value(x * x + x, (R, S), None)
    assert indexer.value(x * x + x, (R, S), None) is first
    requests = [node for node, index, predicate in indexer.memo if node is x]
    assert len(requests) == 1
    indexer.value(x, (S, R), None)
    assert len([node for node, index, predicate in indexer.memo if node is x]) == 2


def test_buffers_are_numbered_outputs_first() -> None:
    x, y = p(0, 5), p(1, 5)
    out = UOp(Op.GBARRIER, (x + y,), 0)
    indexer = Indexer([out])
    indexer.value(y + x, (R,), None)
    assert list(indexer.operands) == [out, y, x]
    assert [u.arg.index for u in indexer.operands.values()] == [0, 1, 2]
    assert all(u.shape == (5,) for u in indexer.operands.values())


def test_barriers_of_other_kernels_are_loaded() -> None:
    x = p(0, 5)
    barrier = UOp(Op.GBARRIER, (x + 1.0,), 0)
    assert Indexer(()).value(barrier, (R,), None).op is Op.LOAD
    assert Indexer([barrier]).value(barrier, (R,), None).op is Op.ADD


def test_ranges() -> None:
    indexer = Indexer(())
    one, five = indexer.axes((1, 5))
    assert one is ZERO and five.arg == Range(0, 5)
    assert indexer.range(5).arg == Range(1, 5)


def test_predicates_reach_the_loads() -> None:
    x = p(0, 5, 7)
    predicate = S < 3
    value = Indexer(()).value(build.permute(x, (1, 0)) * 2.0, (S, R), predicate)
    (load,) = (u for u in value.src if u.op is Op.LOAD)
    assert load.src[1:] == (R * 7 + S, predicate)


def test_deep_graphs_need_no_recursion() -> None:
    x = p(0, 5)
    for _ in range(5_000):
        x = x + 1.0
    assert Indexer(()).value(x, (R,), None).op is Op.ADD


def test_bound_parameters_are_not_loaded() -> None:
    x, requests = p(0, 5), []

    def bound(param: UOp, index: Index, predicate: UOp | None) -> UOp:
        requests.append((param, index, predicate))
        return const(3.0, FLOAT32)

    indexer = Indexer((), bound=bound)
    indexer.memo[x, (R,), None] = const(2.0, FLOAT32)
    assert indexer.value(x + 1.0, (R,), None) is const(2.0, FLOAT32) + 1.0
    assert indexer.value(build.flip(x, (0,)), (R,), None) is const(3.0, FLOAT32)
    assert [param for param, _, _ in requests] == [x] and not indexer.operands


def test_floating_counts_are_converted_from_32_bits_where_they_fit() -> None:
    """AVX2 converts integers of 64 bits one by one: an edit distance took half as long again."""
    for size, dtype in ((33, INT32), (INT32_INDEX_LIMIT, INT64)):
        node = UOp(Op.IOTA, (), Iota(size, FLOAT32))
        value = Indexer(()).value(node, (R,), None)
        assert value is build.cast(build.cast(R, dtype), FLOAT32)
