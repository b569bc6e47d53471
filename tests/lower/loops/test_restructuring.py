"""Loop restructuring: parts of a concatenation, and groups of an axis, are loops of their own."""

from __future__ import annotations

import pytest

import tfn.numpy as tnp
from tests.lower.graphs import assert_matches_oracle, p
from tests.lower.loops.test_heuristics import LANES, both_targets, lanes, only
from tfn import Array, ShapeDtypeStruct, make_jaxpr
from tfn.lower.codegen.linearize import linearize
from tfn.lower.loops.loop_nest import folds
from tfn.lower.loops.restructuring import MAX_CONCATENATED_PARTS
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import walk


@both_targets
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_parts_of_a_concatenation_are_a_loop_each(parts: int, target: Target) -> None:
    """As of queries, keys and values: loads need no predicates."""
    values = [build.permute(p(i, 16, 64, 32), (0, 2, 1)) for i in range(parts)]
    n = only(target, build.concat(values, 2))
    predicates = [u.src[2] for u in linearize(n) if u.op is Op.LOAD and len(u.src) > 2]
    assert bool(predicates) == (parts > MAX_CONCATENATED_PARTS)
    assert_matches_oracle([build.concat(values, 2)], rtol=0)


@pytest.mark.parametrize("sizes", [(64, 64, 32), (7, 7, 7), (96, 32), (40, 24, 64), (1, 63)])
def test_concatenations_of_any_lengths(sizes: tuple[int, ...]) -> None:
    values = [p(i, 3, n) * float(i + 1) for i, n in enumerate(sizes)]
    whole = build.concat(values, 1)
    assert_matches_oracle([whole, build.pad(whole, (0, 32), (0, 32), (0, 0))], rtol=0)


@both_targets
def test_groups_of_an_axis_are_a_loop_of_their_own(target: Target) -> None:
    """Statistics of groups of channels, read by images with channels, rows and columns."""
    x, group, scale = p(0, 2, 8, 21, 21), p(1, 2, 4, 1), p(2, 8)
    y = build.reshape(x, (2, 4, 882)) - build.broadcast_to(group, (2, 4, 882))
    y = build.reshape(y, x.shape) * build.broadcast_in_dim(scale, x.shape, (1,))
    n = only(target, y)
    assert {r.arg.size for r in lanes(n)} == {LANES[target]}
    loads = [u for u in walk([n.body]) if u.op is Op.LOAD and u.src[0].arg.index == 2]
    assert loads and not any(r in walk([u]) for u in loads for r in lanes(n))
    assert_matches_oracle([y])


@both_targets
@pytest.mark.parametrize(("product", "blocks"), [("nqs,nrs->nqr", "loop"), ("nqr,nrs->nqs", "sum")])
def test_products_read_the_index_of_gathered_blocks_once(
    product: str, blocks: str, target: Target
) -> None:
    """Rows of a block follow each other in memory, so they are the loop within that over blocks."""

    def attend(x: Array, pages: Array, table: Array) -> Array:
        return tnp.einsum(product, x, pages[table].reshape(32, 128, 128))

    shapes = [ShapeDtypeStruct(shape, "float32") for shape in ((32, 3, 128), (9, 32, 128))]
    jaxpr = make_jaxpr(attend)(*shapes, ShapeDtypeStruct((32, 4), "int32"))
    n = only(target, *jaxpr.function.src)
    (fold,) = folds(n.body)
    (index,) = [u for u in walk([fold]) if u.op is Op.LOAD and u.dtype == "int32"]
    (block,) = [r for r in walk([index]) if r.op is Op.RANGE and r.arg.size == 4]
    assert (fold.src[1] is block) == (blocks == "sum")
    order = [r for r in n.loops if r.arg.place is Place.LOOP]
    assert (order[0] is block) == (blocks == "loop")
