"""Kept values: in which orders of loops a result holds them."""

from __future__ import annotations

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, p
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import memos
from tfn.lower.loops.loop_nest import Nest, folds, nest
from tfn.lower.loops.opt_ops import Bind, Reorder, Split
from tfn.lower.loops.restructuring import merge_loops
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes


def quotients() -> Nest:
    """Exponentials by their sum, in rows."""
    e = UOp(Op.EXP, (p(0, 6, 1000),))
    total = build.reshape(build.reduce(e, Op.ADD, (1,)), (6, 1))
    outputs = [e / build.expand(total, e.shape)]
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    assert isinstance(stage, ranges.IndexedKernel)
    return nest(stage.body)


def keeps(n: Nest) -> bool:
    checked = memos.checked(n)
    assert checked.loops == n.loops and checked.opts == n.opts
    return any(u.op is Op.MEMO for u in nodes(checked.body))


def test_rows_are_kept_by_loops_outside_of_those_that_read_them() -> None:
    n = quotients()
    rows, columns = (r.arg.number for r in n.loops)
    assert keeps(n)
    assert keeps(Bind(rows, Place.PARALLEL).apply(n))
    assert keeps(Split(columns, 8, Place.LANE).apply(n))


def test_no_row_is_kept_where_it_would_be_overwritten() -> None:
    n = quotients()
    rows, columns = (r.arg.number for r in n.loops)
    assert not keeps(Reorder((columns, rows)).apply(n))
    assert not keeps(Bind(columns, Place.PARALLEL).apply(Reorder((columns, rows)).apply(n)))


def test_vectors_along_rows_and_rows_in_registers_keep_nothing() -> None:
    n = quotients()
    assert not keeps(Split(n.loops[0].arg.number, 2, Place.LANE).apply(n))
    (fold,) = folds(n.body)
    assert not keeps(Bind(fold.src[1].arg.number, Place.UPCAST).apply(n))


def test_nothing_is_kept_of_values_computed_again() -> None:
    body = memos.computed_again(quotients().body)
    assert not any(u.op is Op.MEMO for u in nodes(body))
    assert body.src[0].src[2].src[0].op is Op.EXP


def test_rows_along_two_axes_are_merged_as_others_are() -> None:
    e = UOp(Op.EXP, (p(0, 2, 3, 1000),))
    total = build.reshape(build.reduce(e, Op.ADD, (2,)), (2, 3, 1))
    function = jaxpr([e / build.expand(total, e.shape)]).function
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(function, HOST))
    assert isinstance(stage, ranges.IndexedKernel)
    n = merge_loops(nest(stage.body), HOST)
    assert [r.arg.size for r in n.loops] == [6, 1000] and keeps(n)
