"""Dependence analysis: the ranges that a value depends on."""

from __future__ import annotations

from hypothesis import given, settings

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, p
from tests.lower.random_graphs import graphs
from tfn.dtypes import FLOAT32, INT64
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.index.dependence import dependences
from tfn.trace.argument import Fold, Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk

R, S, T = (UOp(Op.RANGE, (), Range(n, size)) for n, size in enumerate((3, 4, 5)))
X = p(0, 60)


def load(index: UOp) -> UOp:
    return UOp(Op.LOAD, (X, index))


def test_ranges_come_in_the_order_of_their_numbers() -> None:
    body = load(T * 12 + R * 4 + S)
    assert dependences(body)[body] == (R, S, T)
    assert dependences(body)[T * 12] == (T,)
    assert dependences(body)[X] == ()


def test_a_fold_ends_its_ranges() -> None:
    total = UOp(Op.FOLD, (load(R * 4 + S), S), Fold(Op.ADD))
    depends = dependences(total * load(T))
    assert depends[total] == (R,)
    assert depends[total * load(T)] == (R, T)


def test_a_bounded_range_depends_on_itself_alone() -> None:
    """Its bound limits its values, but is not a source of them."""
    bounded = UOp(Op.RANGE, (const(7, INT64) - R * 4,), Range(3, 4))
    assert dependences(load(bounded))[load(bounded)] == (bounded,)


def test_constants_depend_on_nothing() -> None:
    assert dependences(const(1.0, FLOAT32)) == {const(1.0, FLOAT32): ()}


@given(graphs(most=8))
@settings(max_examples=30)
def test_dependences_by_their_definition(outputs: list[UOp]) -> None:
    """The ranges that can be reached, but for those that a fold in between reduces."""
    for kernel in ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST)):
        if not isinstance(kernel, ranges.IndexedKernel) or kernel.body.op is not Op.SINK:
            continue
        depends = dependences(kernel.body)
        for node in walk([kernel.body]):
            if node.op is Op.RANGE:
                expected = {node}
            else:
                sources = node.src[:1] if node.op is Op.FOLD else node.src
                expected = {r for s in sources for r in depends[s]} - set(
                    node.src[1:] if node.op is Op.FOLD else ()
                )
            assert set(depends[node]) == expected
