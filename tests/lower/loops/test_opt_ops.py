"""Opt-ops: each keeps the meaning of a nest, is refused with a reason where it would not, and is
recorded so that it can be done again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.check_passes import HOST, SMALL
from tests.lower.drawn import STEPS, _sort, graphs
from tests.lower.graphs import draw as values_of
from tests.lower.graphs import jaxpr, matmul, p, same, softmax
from tfn.dtypes import FLOAT32, INT32
from tfn.errors import SplitError
from tfn.lower.codegen.linearize import linearize
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops import heuristics
from tfn.lower.loops.opt_ops import (
    Nest,
    fuse,
    in_order,
    merge,
    name,
    nest,
    part,
    place,
    reorder,
    reorder_folds,
    replay,
    split,
    tidy,
    tile,
)
from tfn.lower.math import decompose
from tfn.trace import build, interpreter
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, walk


def nests(*outputs: UOp) -> list[Nest]:
    found = ranges.stages(boundaries.kernels(jaxpr(outputs).function, HOST))
    return [nest(decompose.decompose([s.body])[0]) for s in found]


def only(*outputs: UOp) -> Nest:
    (found,) = nests(*outputs)
    return found


def buffers(n: Nest) -> list[np.ndarray]:
    """The same contents each time, for every parameter of a nest."""
    found = {u.arg.index: u for u in walk([n.body]) if u.op is Op.PARAM}
    return [
        values_of(found[i].shape, found[i].dtype, i) if i in found else np.zeros(0, FLOAT32)
        for i in range(max(found, default=-1) + 1)
    ]


def meaning(n: Nest, tiles: int = 0) -> list[np.ndarray]:
    """All buffers after the nest; after its instructions, if `tiles` are given."""
    found = buffers(n)
    if tiles:
        interpreter.instructions(linearize(n), 0, tiles, found)
    else:
        interpreter.nest(n.body, found)
    return found


def keeps_the_meaning(before: Nest, after: Nest) -> None:
    check([after.body], Stage.SPLIT)
    for got, want in zip(meaning(after), meaning(before), strict=True):
        same(got, want, 1e-4, 1e-4, after.opts)


def all_ranges(n: Nest) -> list[UOp]:
    return sorted(
        {*n.loops, *(u for u in walk([n.body]) if u.op is Op.RANGE)}, key=lambda r: r.arg.number
    )


PLACES = (Place.UPCAST, Place.LANE, Place.LOOP)


def change(draw: st.DrawFn, n: Nest) -> Nest:
    """One opt-op, drawn; it may be refused."""
    rs = all_ranges(n)
    r = draw(st.sampled_from(rs))
    amount = draw(st.integers(1, 9))
    kind = draw(
        st.sampled_from(
            ["split", "split", "tile", "place", "reorder", "folds", "merge", "fuse", "tidy"]
        )
    )
    if kind == "split":
        return split(n, r, amount, draw(st.sampled_from(PLACES)))[0]
    if kind == "tile":
        return tile(n, r, draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 8])))[0]
    if kind == "place":
        return place(n, r, draw(st.sampled_from([Place.PARALLEL, Place.UPCAST])))[0]
    if kind == "reorder":
        return reorder(n, draw(st.permutations(n.loops)))
    if kind == "folds":
        return reorder_folds(n, {u: draw(st.integers(0, 50)) for u in rs})
    if kind == "tidy":
        return tidy(n)
    other = draw(st.sampled_from(rs))
    if kind == "merge":
        return merge(n, r, other) or n
    return fuse(n, r, other, Place.LOOP)[0]


SIMPLE = tuple(step for step in STEPS if step is not _sort)


@st.composite
def changes(draw: st.DrawFn) -> tuple[Nest, Nest]:
    """A nest of some graph, and the same after a few opt-ops."""
    found = [n for n in nests(*draw(graphs(most=6, steps=SIMPLE, outputs=1))) if all_ranges(n)]
    before = draw(st.sampled_from(found)) if found else only(p(0, 7) + 1.0)
    after = before
    for _ in range(draw(st.integers(1, 5))):
        try:
            after = change(draw, after)
        except SplitError as error:
            assert error.what
    return before, after


@given(changes())
@settings(max_examples=150)
def test_opt_ops_keep_the_meaning(pair: tuple[Nest, Nest]) -> None:
    keeps_the_meaning(*pair)


def can_run(n: Nest) -> bool:
    """What `linearize` asks of a nest: one vector axis, and threads outside."""
    lanes = [r for r in all_ranges(n) if r.arg.place is Place.LANE]
    shared = [r for r in all_ranges(n) if r.arg.place is Place.PARALLEL]
    return len(lanes) <= 1 and shared in ([], [n.loops[0]] if n.loops else [])


@given(changes())
@settings(max_examples=150)
def test_what_was_split_can_be_put_in_order(pair: tuple[Nest, Nest]) -> None:
    before, after = pair
    if can_run(after):
        shared = bool(after.loops) and after.loops[0].arg.place is Place.PARALLEL
        tiles = after.loops[0].arg.size if shared else 1
        for got, want in zip(meaning(after, tiles), meaning(before), strict=True):
            same(got, want, 1e-4, 1e-4, after.opts)


@given(changes())
@settings(max_examples=60)
def test_what_was_done_can_be_done_again(pair: tuple[Nest, Nest]) -> None:
    before, after = pair
    again = replay(before, after.opts)
    assert again.opts == after.opts
    assert tidy(again).body is tidy(after).body and again.loops == after.loops


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
def test_what_was_chosen_can_be_replayed(target: object) -> None:
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
        again = tidy(replay(before, chosen.opts))
        assert again.body is chosen.body and again.loops == chosen.loops


# One by one.


def test_split_with_a_rest() -> None:
    n = only(p(0, 10) * 2.0)
    (r,) = n.loops
    after, outer, inner = split(n, r, 4, Place.UPCAST)
    assert (outer.arg.size, inner.arg.size) == (3, 4)
    assert inner.src, "the last block is not full"
    assert after.loops == (outer, inner)
    assert after.opts == ("split(r0, 4, upcast)",)
    keeps_the_meaning(n, after)
    whole, _, inner = split(n, r, 5, Place.UPCAST)
    assert not inner.src
    keeps_the_meaning(n, whole)


def test_tile() -> None:
    n = only(p(0, 100) * 2.0)
    after, outer = tile(n, n.loops[0], 3, 8)
    assert [r.arg.size for r in after.loops] == [5, 3, 8]
    assert [r.arg.place for r in after.loops] == [Place.LOOP, Place.UPCAST, Place.LANE]
    assert after.loops[0] is outer
    keeps_the_meaning(n, after)


def test_a_fold_is_split_like_a_loop() -> None:
    n = only(build.add_up(p(0, 3, 23), (1,)))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    after, _, _ = split(n, fold.src[1], 5, Place.UPCAST)
    assert after.loops == n.loops
    keeps_the_meaning(n, after)


def test_folds_step_with_the_longest_stride_outside() -> None:
    n = only(build.add_up(p(0, 3, 5, 7), (1, 2)))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    after = reorder_folds(n, {fold.src[1]: 1, fold.src[2]: 100})
    (fold_after,) = (u for u in walk([after.body]) if u.op is Op.FOLD)
    assert fold_after.src[1:] == fold.src[:0:-1]
    assert reorder_folds(n, {fold.src[1]: 100}) is n
    keeps_the_meaning(n, after)


def test_a_fold_that_gives_an_index_keeps_its_order() -> None:
    n = only(build.reduce(p(0, 3, 35), Op.MAX, (1,), index=INT32))
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    after, a, b = split(n, fold.src[1], 7, Place.LOOP)
    assert reorder_folds(after, {a: 1, b: 100}) is after
    keeps_the_meaning(n, after)
    keeps_the_meaning(n, split(after, b, 4, Place.UPCAST)[0])


def test_merge_where_addresses_allow() -> None:
    n = only(p(0, 5, 7) * 2.0)
    after = merge(n, *n.loops)
    assert after is not None and [r.arg.size for r in after.loops] == [35]
    keeps_the_meaning(n, after)
    turned = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    assert merge(turned, *turned.loops) is None
    counted = only(build.iota((5, 7), 1, FLOAT32) + p(0, 5, 7))
    assert merge(counted, *counted.loops) is None, "the range itself is a value"
    padded = only(build.pad(p(0, 5, 7), (0, 1), (0, 0)))
    assert merge(padded, *padded.loops) is None, "the range is in a gate"
    row = only(p(0, 5, 7) + build.broadcast_to(p(1, 7), (5, 7)))
    assert merge(row, *row.loops) is None, "another address steps otherwise"


def test_part_by_what_divides_the_index() -> None:
    n = only(build.reshape(build.permute(p(0, 34, 20), (1, 0)), (680,)) * 2.0)
    (r,) = n.loops
    after = part(n, r, 34)
    assert [r.arg.size for r in after.loops] == [20, 34] and after.opts == ("part(r0, 34)",)
    assert not {Op.MOD, Op.FLOORDIV} & {u.op for u in walk([after.body])}
    keeps_the_meaning(n, after)
    chosen = heuristics.choose(n, HOST)
    assert chosen.opts[0] == "part(r0, 34)"


def test_fuse_by_division() -> None:
    n = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    after, m = fuse(n, *n.loops, Place.PARALLEL)
    assert after.loops == (m,) and m.arg.size == 35 and m.arg.place is Place.PARALLEL
    keeps_the_meaning(n, after)


def test_opts_are_recorded_in_order() -> None:
    n = only(matmul(p(0, 9, 20), p(1, 20, 33)))
    rows, columns = n.loops
    n, _ = tile(n, columns, 2, 16)
    n, a, _ = split(n, rows, 3, Place.UPCAST)
    n, _ = place(n, a, Place.PARALLEL)
    assert n.opts == ("tile(r1, 2, 16)", "split(r0, 3, upcast)", f"place({name(a)}, parallel)")


# Refusals.


def scattered() -> Nest:
    x, at, u = p(0, 4, 6), p(1, 3, 5, 1, dtype=INT32), p(2, 3, 5, 1, 6)
    return nests(build.scatter(x, at, u, Op.WHERE))[1]


def test_iterations_with_an_order_keep_it() -> None:
    n = scattered()
    ordered = [r for r in n.loops if r.arg.number in in_order(n.body)]
    free = [r for r in n.loops if r not in ordered]
    assert len(ordered) == 2 and len(free) == 1
    a, b = ordered
    for refused in (
        lambda: split(n, a, 2, Place.UPCAST),
        lambda: tile(n, a, 1, 4),
        lambda: place(n, a, Place.PARALLEL),
        lambda: fuse(n, a, b, Place.LOOP),
        lambda: reorder(n, [b, a, *free]),
    ):
        with pytest.raises(SplitError):
            refused()
    assert merge(n, a, b) is None
    outside = reorder(n, [*free, a, b])
    keeps_the_meaning(n, outside)
    keeps_the_meaning(n, tile(n, free[0], 1, 4)[0])


def test_refusals_say_why() -> None:
    n = only(build.permute(p(0, 5, 7), (1, 0)) * 2.0)
    a, b = n.loops
    done, outer, inner = split(n, a, 4, Place.UPCAST)
    cases = {
        "positive amounts": lambda: split(n, a, 0, Place.UPCAST),
        "3 of 7 are left": lambda: split(n, a, 4, Place.LOOP),
        "cannot tile r0 by 2 x 0": lambda: tile(n, a, 2, 0),
        "inner part of a split": lambda: place(done, inner, Place.PARALLEL),
        "bounded by r2, which must be outside": lambda: reorder(done, [inner, outer, b]),
        "each loop once": lambda: reorder(n, [a, a]),
        "not whole neighbours": lambda: fuse(n, b, a, Place.LOOP),
        "cannot split r2": lambda: split(done, outer, 2, Place.UPCAST),
        "cannot replay": lambda: replay(n, ["split(r9, 4, upcast)"]),
        "cannot replay melt": lambda: replay(n, ["melt(r0)"]),
        "cannot merge": lambda: replay(n, ["merge(r0, r1)"]),
    }
    for words, refused in cases.items():
        with pytest.raises(SplitError, match=words):
            refused()
    assert merge(done, outer, b) is None, "it decides how far another loop runs"
