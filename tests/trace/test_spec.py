"""The graph verifier: legal and illegal nodes at each stage."""

from __future__ import annotations

import pytest

from tfn.dtypes import BOOL, FLOAT32, INT64
from tfn.trace.argument import Access, Fold, Leaf, Param, Place, Range
from tfn.trace.build import dot, reshape, scan
from tfn.trace.grid_argument import LocalMemory, Staged
from tfn.trace.jaxpr import function
from tfn.trace.op import Op
from tfn.trace.spec import FORMS, OPS, Stage, check
from tfn.trace.uop import UOp, const

buffer, out = (UOp(Op.PARAM, (), Param(i, (24,), FLOAT32)) for i in range(2))
r, s = (UOp(Op.RANGE, (), Range(i, 4)) for i in range(2))
load = UOp(Op.LOAD, (buffer, r * 4 + s))
total = UOp(Op.FOLD, (load, s), Fold(Op.ADD))
store = UOp(Op.STORE, (out, r, total))
sink = UOp(Op.SINK, (store,))


def test_every_stage_has_ops_and_forms():
    assert set(OPS) == set(FORMS) == set(Stage)
    assert all(set(FORMS[stage]) <= OPS[stage] for stage in Stage)


def test_graphs_at_their_stage():
    x = UOp(Op.PARAM, (), Param(0, (4, 6), FLOAT32))
    check([dot(x, reshape(x, (6, 4)), ((1,), (0,)))], Stage.JAXPR)
    check([UOp(Op.GBARRIER, (x,), 0)], Stage.KERNELS)
    check([sink], Stage.RANGES)
    check([sink], Stage.SPLIT)
    check([UOp(Op.LOAD, (buffer, const(0, INT64)), Access(0, 1, 1))], Stage.LINEAR)


def split_range():
    return UOp(Op.RANGE, (const(9, INT64) - r * 4,), Range(7, 4, Place.LANE))


@pytest.mark.parametrize(
    ("root", "stage", "words"),
    [
        (sink, Stage.JAXPR, "RANGE is not legal at stage JAXPR"),
        (reshape(buffer, (4, 6)), Stage.RANGES, "RESHAPE is not legal at stage RANGES"),
        (UOp(Op.LEAF, (), Leaf((), FLOAT32)), Stage.JAXPR, "LEAF is not legal"),
        (UOp(Op.GBARRIER, (buffer,)), Stage.KERNELS, "malformed at stage KERNELS"),
        (split_range(), Stage.RANGES, "malformed at stage RANGES"),
        (UOp(Op.LOAD, (load, r)), Stage.RANGES, "malformed"),
        (UOp(Op.FOLD, (load, r + s), Fold(Op.ADD)), Stage.RANGES, "malformed"),
        (UOp(Op.FOLD, (load, s), Fold(Op.MAX, INT64)), Stage.RANGES, "malformed"),
        (UOp(Op.FOLD, (UOp(Op.TUPLE, (load, s)), s), Fold(Op.MAX)), Stage.RANGES, "malformed"),
        (UOp(Op.SINK, (load,)), Stage.SPLIT, "malformed"),
        (UOp(Op.STORE, (out, r, const(True, BOOL))), Stage.RANGES, "malformed"),
        (load, Stage.LINEAR, "malformed at stage LINEAR"),  # its range is no number of a thread
        (UOp(Op.LOAD, (buffer, const(0, INT64))), Stage.LINEAR, "malformed at stage LINEAR"),
        (UOp(Op.BARRIER, (), 1), Stage.SPLIT, "BARRIER is not legal at stage SPLIT"),
        (UOp(Op.BARRIER), Stage.LINEAR, "malformed at stage LINEAR"),
        (UOp(Op.LOCAL_MEMORY, (), LocalMemory(0, (0,), FLOAT32)), Stage.LINEAR, "malformed"),
        (UOp(Op.STAGED, (load, r), Staged(1)), Stage.RANGES, "STAGED is not legal"),
        (UOp(Op.STAGED, (load,), Staged(1)), Stage.SPLIT, "malformed at stage SPLIT"),
        (UOp(Op.STAGED, (load, split_range()), Staged(1)), Stage.SPLIT, "malformed"),
    ],
)
def test_illegal_nodes_are_named(root, stage, words):
    with pytest.raises(AssertionError, match=words):
        check([root], stage)


def test_ranges_with_a_bound_belong_to_split():
    check([split_range()], Stage.SPLIT)


def test_functions_inside_loops_are_checked_too():
    x = UOp(Op.PARAM, (), Param(0, (), FLOAT32))
    good = function([x * 2.0], (Param(0, (), FLOAT32),))
    check(scan(good, [], [x], [], 3), Stage.JAXPR)
    bad = function([x * UOp(Op.LEAF, (), Leaf((), FLOAT32))], (Param(0, (), FLOAT32),))
    with pytest.raises(AssertionError, match="LEAF is not legal"):
        check(scan(bad, [], [x], [], 3), Stage.JAXPR)
