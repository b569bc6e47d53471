"""Loop nests: loops by number, and which of them may be split."""

from __future__ import annotations

import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import jaxpr, matmul, p
from tfn.errors import SplitError
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.loops.loop_nest import Nest, folds, fresh_number, is_whole, name, nest
from tfn.lower.loops.opt_ops import Split
from tfn.trace.argument import Place


def product() -> Nest:
    outputs = [matmul(p(0, 9, 20), p(1, 20, 33))]
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    return nest(stage.body)


def test_loops_are_ordered_by_number_without_those_of_reductions() -> None:
    n = product()
    (fold,) = folds(n.body)
    assert [r.arg.size for r in n.loops] == [9, 33] and fold.src[1] not in n.loops
    assert [n.loop(r.arg.number) for r in n.loops] == [*n.loops]
    assert n.loop(fold.src[1].arg.number) is fold.src[1]


def test_the_error_of_an_unknown_loop_lists_the_loops() -> None:
    with pytest.raises(SplitError, match=r"no loop r7\n  got: loops r0, r1, r2"):
        product().loop(7)


def test_new_loops_have_the_highest_numbers() -> None:
    n = product()
    number = fresh_number(n.body)
    after = Split(n.loops[1].arg.number, 11, Place.LOOP).apply(n)
    outer, inner = after.newest(2)
    assert (name(outer), name(inner)) == (f"r{number}", f"r{number + 1}")
    assert after.loops == (n.loops[0], outer, inner)


def test_a_loop_that_bounds_another_is_not_whole() -> None:
    n = product()
    assert all(is_whole(n, r) for r in n.loops)
    after = Split(n.loops[1].arg.number, 16, Place.UPCAST).apply(n)
    outer, inner = after.newest(2)
    assert inner.src and not is_whole(after, outer) and not is_whole(after, inner)
