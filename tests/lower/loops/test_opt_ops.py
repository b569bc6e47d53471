"""Opt-ops: each keeps the meaning of a nest or is refused with a reason, and can be replayed."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import covering
from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import assert_close, jaxpr, matmul, p, softmax
from tests.lower.graphs import draw as values_of
from tests.lower.random_graphs import STEPS, _sort, graphs
from tfn.dtypes import FLOAT32, INT32
from tfn.errors import SplitError
from tfn.lower.codegen.linearize import linearize
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import heuristics
from tfn.lower.loops.loop_nest import Nest, in_order, nest, simplified
from tfn.lower.loops.opt_ops import (
    OPT_OPS,
    Bind,
    Fuse,
    Merge,
    Pipeline,
    Reorder,
    ReorderReductions,
    ShareScan,
    Split,
    SplitAt,
    StageTile,
    SumLanesLast,
    Tile,
    UnrollRecurrence,
    WarpProduct,
    from_rows,
    replay,
    show,
    steps_as_one,
    to_rows,
)
from tfn.lower.math import decompose
from tfn.lower.target.target import Target
from tfn.trace import build, interpreter
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, walk


def nests(*outputs: UOp) -> list[Nest]:
    kernels = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    return [nest(decompose.decompose([kernel.body])[0]) for kernel in kernels]


def only(*outputs: UOp) -> Nest:
    (n,) = nests(*outputs)
    return n


def buffers(n: Nest) -> list[np.ndarray]:
    """The same contents each time, for every parameter of a nest."""
    params = {u.arg.index: u for u in walk([n.body]) if u.op is Op.PARAM}
    return [
        values_of(params[i].shape, params[i].dtype, i) if i in params else np.zeros(0, FLOAT32)
        for i in range(max(params, default=-1) + 1)
    ]


def meaning(n: Nest, tiles: int = 0) -> list[np.ndarray]:
    """All buffers after the nest; after its instructions, if `tiles` are given."""
    memory = buffers(n)
    if tiles:
        interpreter.instructions(linearize(n), 0, tiles, memory)
    else:
        interpreter.nest(n.body, memory)
    return memory


def keeps_the_meaning(before: Nest, after: Nest) -> None:
    check([after.body], Stage.SPLIT)
    for got, expected in zip(meaning(after), meaning(before), strict=True):
        assert_close(got, expected, 1e-4, 1e-4, after.opts)


def all_ranges(n: Nest) -> list[UOp]:
    return sorted(
        {*n.loops, *(u for u in walk([n.body]) if u.op is Op.RANGE)}, key=lambda r: r.arg.number
    )


def numbers(loops: Sequence[UOp]) -> tuple[int, ...]:
    return tuple(r.arg.number for r in loops)


PLACES = (Place.UPCAST, Place.LANE, Place.LOOP, Place.LOCAL)


def change(draw: st.DrawFn, n: Nest) -> Nest:
    """One opt-op, drawn; it may be refused."""
    rs = all_ranges(n)
    r = draw(st.sampled_from(rs))
    amount = draw(st.integers(1, 9))
    kind = draw(st.sampled_from(sorted(OPT_OPS)))
    number = r.arg.number
    if kind == "split":
        return Split(number, amount, draw(st.sampled_from(PLACES))).apply(n)
    if kind == "split_at":
        return SplitAt(number, amount).apply(n)
    if kind == "tile":
        lanes = draw(st.sampled_from([2, 4, 8]))
        return Tile(number, draw(st.integers(1, 3)), lanes).apply(n)
    if kind == "bind":
        return Bind(
            number, draw(st.sampled_from([Place.PARALLEL, Place.UPCAST, Place.GROUP]))
        ).apply(n)
    if kind == "reorder":
        return Reorder(numbers(draw(st.permutations(n.loops)))).apply(n)
    if kind == "reorder_reductions":
        return ReorderReductions(numbers(draw(st.permutations(rs)))).apply(n)
    if kind == "stage":
        return StageTile(number, draw(st.integers(0, 3))).apply(n)
    if kind == "pipeline":
        return Pipeline(amount).apply(n)
    other = draw(st.sampled_from(rs)).arg.number
    if kind == "warp_product":
        depth = draw(st.sampled_from(rs)).arg.number
        return WarpProduct(number, other, depth, draw(st.sampled_from([1, 16]))).apply(n)
    if kind == "merge":
        return Merge(number, other).apply(n)
    return Fuse(number, other, Place.LOOP).apply(n)


def has_an_order(n: Nest) -> bool:
    """Whether what it means is known for any contents of its buffers.

    A scatter without an order has indices of another kernel, which differ; drawn ones may not.
    """
    stores = (u for u in n.body.src if u.op is Op.STORE and u.arg is None)
    return not any(u.op is Op.LOAD for store in stores for u in walk([store.src[1]]))


SIMPLE = tuple(step for step in STEPS if step is not _sort)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Nest, Nest]:
    """A nest of some graph, and the same after a few opt-ops."""
    drawn = nests(*draw(graphs(most=6, steps=SIMPLE, outputs=1)))
    found = [n for n in drawn if all_ranges(n) and has_an_order(n)]
    before = draw(st.sampled_from(found)) if found else only(p(0, 7) + 1.0)
    after = before
    for _ in range(draw(st.integers(1, 5))):
        try:
            after = change(draw, after)
        except SplitError as error:
            assert error.what
    return before, after


@given(changes())
@settings(max_examples=covering.examples(150))
def test_opt_ops_keep_the_meaning(pair: tuple[Nest, Nest]) -> None:
    keeps_the_meaning(*pair)


def can_run(n: Nest) -> bool:
    """Whether `linearize` takes a nest: it has one vector axis, and threads are outside.

    Groups of threads are linearised by `codegen.grid`, and tested there.
    """
    if any(r.arg.place in (Place.GROUP, Place.LOCAL) for r in all_ranges(n)):
        return False
    lanes = [r for r in all_ranges(n) if r.arg.place is Place.LANE]
    parallel = [r for r in all_ranges(n) if r.arg.place is Place.PARALLEL]
    return len(lanes) <= 1 and parallel in ([], [n.loops[0]] if n.loops else [])


@given(changes())
@settings(max_examples=covering.examples(150))
def test_transformed_nests_can_be_linearized(pair: tuple[Nest, Nest]) -> None:
    before, after = pair
    if can_run(after):
        is_parallel = bool(after.loops) and after.loops[0].arg.place is Place.PARALLEL
        tiles = after.loops[0].arg.size if is_parallel else 1
        for got, expected in zip(meaning(after, tiles), meaning(before), strict=True):
            assert_close(got, expected, 1e-4, 1e-4, after.opts)


@given(changes())
@settings(max_examples=60)
def test_opt_ops_are_replayed_from_rows(pair: tuple[Nest, Nest]) -> None:
    before, after = pair
    assert from_rows(to_rows(after.opts)) == after.opts
    replayed = replay(before, from_rows(json.loads(json.dumps(to_rows(after.opts)))))
    assert replayed.opts == after.opts
    assert simplified(replayed).body is simplified(after).body and replayed.loops == after.loops


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
def test_schedules_of_the_heuristics_are_replayed(target: Target) -> None:
    x, w = p(0, 33, 65), p(1, 65, 70)
    graphs_ = [
        matmul(x, w),
        softmax(x),
        build.permute(x, (1, 0)) * 2.0,
        build.add_up(x, (0,)),
        build.pad(x, (1, 1), (1, 1)),
        matmul(build.permute(w, (1, 0)), w),
        build.reshape(build.permute(w, (1, 0)), (65 * 70,)) + 1,
    ]
    for before in nests(*graphs_):
        chosen = heuristics.choose(before, target)
        replayed = simplified(replay(before, chosen.opts))
        assert replayed.body is chosen.body and replayed.loops == chosen.loops


def test_split_with_a_rest() -> None:
    n = only(p(0, 10) * 2.0)
    (r,) = n.loops
    after = Split(r.arg.number, 4, Place.UPCAST).apply(n)
    outer, inner = after.newest(2)
    assert (outer.arg.size, inner.arg.size) == (3, 4)
    assert inner.src, "the last block is not full"
    assert after.loops == (outer, inner)
    assert after.opts == (Split(0, 4, Place.UPCAST),)
    keeps_the_meaning(n, after)
    whole = Split(r.arg.number, 5, Place.UPCAST).apply(n)
    inner = whole.newest(2)[1]
    assert not inner.src
    keeps_the_meaning(n, whole)


def test_tile() -> None:
    n = only(p(0, 100) * 2.0)
    after = Tile(n.loops[0].arg.number, 3, 8).apply(n)
    outer = after.newest(3)[0]
    assert [r.arg.size for r in after.loops] == [5, 3, 8]
    assert [r.arg.place for r in after.loops] == [Place.LOOP, Place.UPCAST, Place.LANE]
    assert after.loops[0] is outer
    keeps_the_meaning(n, after)


def test_reduced_ranges_are_split_like_loops() -> None:
    n = only(build.add_up(p(0, 3, 23), (1,)))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    after = Split(fold.src[1].arg.number, 5, Place.UPCAST).apply(n)
    assert after.loops == n.loops
    keeps_the_meaning(n, after)


def test_reduced_ranges_are_reordered() -> None:
    n = only(build.add_up(p(0, 3, 5, 7), (1, 2)))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    a, b = numbers(fold.src[1:])
    after = ReorderReductions((b, a)).apply(n)
    (fold_after,) = (u for u in walk([after.body]) if u.op is Op.FOLD)
    assert fold_after.src[1:] == fold.src[:0:-1]
    assert ReorderReductions((a, b)).apply(n) is n
    keeps_the_meaning(n, after)


def test_the_order_of_an_argmax_is_kept() -> None:
    n = only(build.reduce(p(0, 3, 35), Op.MAX, (1,), index=INT32))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    after = Split(fold.src[1].arg.number, 7, Place.LOOP).apply(n)
    a, b = after.newest(2)
    assert ReorderReductions(numbers((b, a))).apply(after) is after
    keeps_the_meaning(n, after)
    keeps_the_meaning(n, Split(b.arg.number, 4, Place.UPCAST).apply(after))


def test_merge_where_addresses_allow() -> None:
    n = only(p(0, 5, 7) * 2.0)
    after = Merge(*numbers(n.loops)).apply(n)
    assert [r.arg.size for r in after.loops] == [35]
    keeps_the_meaning(n, after)
    transposed = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    assert not steps_as_one(transposed, *transposed.loops)
    iota = only(build.iota((5, 7), 1, FLOAT32) + p(0, 5, 7))
    assert not steps_as_one(iota, *iota.loops), "the range itself is a value"
    padded = only(build.pad(p(0, 5, 7), (0, 1), (0, 0)))
    assert not steps_as_one(padded, *padded.loops), "the range is in a predicate"
    row = only(p(0, 5, 7) + build.broadcast_to(p(1, 7), (5, 7)))
    assert not steps_as_one(row, *row.loops), "another address steps otherwise"


def test_split_at_the_divisor_of_an_index() -> None:
    n = only(build.reshape(build.permute(p(0, 34, 20), (1, 0)), (680,)) * 2.0)
    (r,) = n.loops
    after = SplitAt(r.arg.number, 34).apply(n)
    assert [r.arg.size for r in after.loops] == [20, 34] and after.opts == (SplitAt(0, 34),)
    assert not {Op.MOD, Op.FLOORDIV} & {u.op for u in walk([after.body])}
    keeps_the_meaning(n, after)
    chosen = heuristics.choose(n, HOST)
    assert chosen.opts[0] == SplitAt(0, 34)


def test_fuse_by_division() -> None:
    n = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    after = Fuse(*numbers(n.loops), Place.PARALLEL).apply(n)
    m = after.newest(1)[0]
    assert after.loops == (m,) and m.arg.size == 35 and m.arg.place is Place.PARALLEL
    keeps_the_meaning(n, after)


def test_opts_are_recorded_in_order() -> None:
    n = only(matmul(p(0, 9, 20), p(1, 20, 33)))
    rows, columns = n.loops
    n = Tile(columns.arg.number, 2, 16).apply(n)
    n = Split(rows.arg.number, 3, Place.UPCAST).apply(n)
    a = n.newest(2)[0]
    n = Bind(a.arg.number, Place.PARALLEL).apply(n)
    outer = a.arg.number
    assert n.opts == (Tile(1, 2, 16), Split(0, 3, Place.UPCAST), Bind(outer, Place.PARALLEL))
    texts = ["tile(r1, 2, 16)", "split(r0, 3, upcast)", f"bind(r{outer}, parallel)"]
    assert [show(opt) for opt in n.opts] == texts


def scattered() -> Nest:
    x, at, u = p(0, 4, 6), p(1, 3, 5, 1, dtype=INT32), p(2, 3, 5, 1, 6)
    return nests(build.scatter(x, at, u, Op.WHERE))[1]


def test_ordered_iterations_stay_in_order() -> None:
    n = scattered()
    ordered = [r for r in n.loops if r.arg.number in in_order(n.body)]
    unordered = [r for r in n.loops if r not in ordered]
    assert len(ordered) == 2 and len(unordered) == 1
    a, b = ordered
    for opt in (
        Split(a.arg.number, 2, Place.UPCAST),
        Tile(a.arg.number, 1, 4),
        Bind(a.arg.number, Place.PARALLEL),
        Fuse(a.arg.number, b.arg.number, Place.LOOP),
        Merge(a.arg.number, b.arg.number),
        Reorder(numbers([b, a, *unordered])),
    ):
        with pytest.raises(SplitError):
            opt.apply(n)
    keeps_the_meaning(n, Reorder(numbers([*unordered, a, b])).apply(n))
    keeps_the_meaning(n, Tile(unordered[0].arg.number, 1, 4).apply(n))


def test_errors_give_the_reason() -> None:
    n = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    a, b = n.loops
    after = Split(a.arg.number, 4, Place.UPCAST).apply(n)
    outer, inner = after.newest(2)
    a, b, outer, inner = numbers([a, b, outer, inner])
    cases = {
        "positive amounts": (n, Split(a, 0, Place.UPCAST)),
        "3 of 7 are left": (n, Split(a, 4, Place.LOOP)),
        "cannot tile r0 by 2 x 0": (n, Tile(a, 2, 0)),
        "inner part of a split": (after, Bind(inner, Place.PARALLEL)),
        "bounded by r2, which must be outside": (after, Reorder((inner, outer, b))),
        "each loop once": (n, Reorder((a, a))),
        "not whole neighbours": (n, Fuse(b, a, Place.LOOP)),
        "cannot split r2": (after, Split(outer, 2, Place.UPCAST)),
        "there is no loop r9\n  got: loops r0, r1": (n, Split(9, 4, Place.UPCAST)),
        "cannot merge r0 and r1": (n, Merge(a, b)),
    }
    for words, (before, opt) in cases.items():
        with pytest.raises(SplitError, match=words):
            opt.apply(before)
    assert not steps_as_one(after, after.loop(outer), after.loop(b)), "it bounds another loop"


@pytest.mark.parametrize(
    "row",
    [
        (),
        ("melt", 0),
        ("split", 0, 4),
        ("split", 0, 4, "nowhere"),
        ("split", "0", 4, "loop"),
        ("reorder", 0, "r1"),
        (1, 2),
        ("bind", 0, 1),
        ("split", 0, True, "loop"),
    ],
)
def test_rows_of_another_version_are_refused(row: tuple[object, ...]) -> None:
    with pytest.raises(SplitError, match="not one of this version's"):
        from_rows([row])


EXAMPLES = (
    Split(0, 2, Place.LANE),
    SplitAt(0, 2),
    Tile(0, 1, 2, Place.UNIT),
    Bind(0, Place.UPCAST),
    Reorder((1, 0)),
    ReorderReductions((1, 0)),
    SumLanesLast(2),
    Merge(0, 1),
    Fuse(0, 1, Place.LOOP),
    StageTile(3, 1, 8),
    StageTile(3, 1, 0, 4, swizzled=True),
    WarpProduct(0, 1, 2, 16),
    ShareScan(2, 8, 256),
    UnrollRecurrence(1, 4),
    Pipeline(2),
)


def test_every_opt_op_is_printed_and_kept_on_disk() -> None:
    assert {show(opt).partition("(")[0] for opt in EXAMPLES} == set(OPT_OPS)
    assert from_rows(to_rows(EXAMPLES)) == EXAMPLES
