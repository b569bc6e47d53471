"""Rules of COND: the graphs that they build."""

from __future__ import annotations

import numpy as np

from tests.transforms.cases import leaf, run
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.batch import batch
from tfn.transforms.body import closed, fresh
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

i = leaf(np.zeros((), np.int32))
x, w = leaf(np.ones(3)), leaf(np.ones(3))


def conds(outputs: list[UOp]) -> list[UOp]:
    return [u for u in walk(outputs) if u.op is Op.COND]


def choice() -> list[UOp]:
    """sin(sin(x)) w, or tanh(x) w, or w."""
    twice = UOp(Op.SIN, (UOp(Op.SIN, (x,)),)) * w
    bodies = [[twice, x], [UOp(Op.TANH, (x,)) * w, x], [w, w]]
    return build.choose(i, [closed(outputs, [x, w]) for outputs in bodies], [x, w])


def test_residuals_of_one_type_share_places() -> None:
    dx = fresh(x)
    slopes = push(choice(), {x: dx})
    forward, linear = conds([s for s in slopes if s is not None])
    assert len(forward.src[1].src) == 2 + 2  # the branch that keeps most keeps two
    assert linear.src[0] is i and dx in linear.src
    assert not {Op.SIN, Op.COS, Op.TANH} & {u.op for f in linear.src[1:4] for u in walk(f.src)}


def test_a_result_that_moves_in_no_branch_has_no_tangent() -> None:
    both = [closed([x, w], [x, w]), closed([x * 2.0, w], [x, w])]
    moved, fixed = push(build.choose(i, both, [x, w]), {x: fresh(x)})
    assert moved is not None and fixed is None


def test_the_transposed_choice_is_a_choice() -> None:
    dx, ct = fresh(x), fresh(x)
    (slope, _) = push(choice(), {x: dx})
    (back,) = pull([slope], [dx], [ct])
    assert back is not None and dx not in set(walk([back]))
    assert len(conds([back])) == 2
    for k, expected in ((0, np.cos(np.sin(0.5)) * np.cos(0.5)), (1, 1 - np.tanh(0.5) ** 2), (2, 0)):
        at = {i: np.array(k, np.int32), x: np.full(3, 0.5), w: np.full(3, 2.0), ct: np.ones(3)}
        np.testing.assert_allclose(run([back], at)[0], np.full(3, 2 * expected))


def test_an_index_for_all_lanes_evaluates_one_branch() -> None:
    many = leaf(np.ones((2, 3)))
    first, second = batch(choice(), {x: many}, 2)
    assert first.many and second.many and len(conds([first.graph])) == 1
    index = leaf(np.zeros(2, np.int32))
    (apart, _) = batch(choice(), {i: index}, 2)
    assert not conds([apart.graph])


def test_lanes_that_chose_another_branch_cannot_be_heard() -> None:
    """Half of the lanes would divide by zero, and so would their derivatives."""
    scalar = leaf(np.ones(()))
    weight = leaf(np.ones(()))
    inverse = closed([weight / scalar], [scalar, weight])
    same = closed([scalar * weight], [scalar, weight])
    (y,) = build.choose(i, [same, inverse], [scalar, weight])
    index, many = leaf(np.zeros(4, np.int32)), leaf(np.ones(4))
    (lanes,) = batch([y], {i: index, scalar: many}, 4)
    total = build.add_up(lanes.graph, (0,))
    dx, dw, ct = fresh(many), fresh(weight), fresh(total)
    back = pull(push([total], {many: dx, weight: dw}), [dx, dw], [ct])
    at = {many: np.array([0.0, 2.0, 0.0, 4.0]), weight: np.array(3.0), ct: np.array(1.0)}
    graphs = [total, *(u for u in back if u is not None)]
    for chosen, expected in (
        ([0, 1, 0, 1], [2.25, [3, -3 / 4, 3, -3 / 16], 0.75]),
        ([0, 0, 0, 0], [18.0, [3, 3, 3, 3], 6.0]),
    ):
        found = run(graphs, at | {index: np.array(chosen, np.int32)})
        for value, exact in zip(found, expected):
            np.testing.assert_allclose(value, exact)
