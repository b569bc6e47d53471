"""Rules of SCAN: the number of loops, their residuals, their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.transforms.cases import leaf, run
from tfn.dtypes import INT32
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk
from tfn.transforms.batch import batch
from tfn.transforms.body import closed, fresh
from tfn.transforms.jvp import push
from tfn.transforms.transpose import pull

LENGTH = 4
w, c, x = leaf(np.ones(3)), leaf(np.ones(3)), leaf(np.ones(3))
xs = leaf(np.ones((LENGTH, 3)))


def scans(outputs: Sequence[UOp | None]) -> list[UOp]:
    return [u for u in walk([u for u in outputs if u is not None]) if u.op is Op.SCAN]


def recurrent() -> list[UOp]:
    """h = sin(w h + x), with h stacked."""
    new = UOp(Op.SIN, (w * c + x,))
    return build.scan(closed([new, c], [w, c, x]), [w], [c], [xs], LENGTH)


def test_residuals_are_stacked_once_and_read_backwards() -> None:
    last, ys = recurrent()
    dw = fresh(w)
    slopes = push([last, ys], {w: dw})
    forward, linear = scans(slopes)
    assert forward.src[1:] == (w, c, xs)
    assert forward.src[0].src[:2] == last.src[0].src[0].src  # the same steps, and residuals
    assert linear.arg.carries == 1 and not linear.arg.reverse
    (ct,) = pull(slopes[:1], [dw], [fresh(last)])
    (back,) = [u for u in scans([ct]) if u.arg.reverse]
    assert back.arg.carries == 2  # the cotangent of h, and the sum of those of w
    assert len(scans([ct])) == 2


def test_loop_invariant_residuals_are_not_stacked() -> None:
    scale = UOp(Op.EXP, (w,))
    (last,) = build.scan(closed([c * scale], [w, c]), [w], [c], [], LENGTH)
    (slope,) = push([last], {c: fresh(c)})
    (linear,) = scans([slope])
    assert linear.src[1] is UOp(Op.EXP, (w,))


def test_slices_are_read_where_they_are() -> None:
    (last,) = build.scan(closed([c * x], [c, x]), [], [c], [xs], LENGTH)
    (slope,) = push([last], {c: fresh(c)})
    (linear,) = scans([slope])
    assert xs in linear.src


def test_only_carries_that_move_get_tangents() -> None:
    i = leaf(np.zeros((), np.int32))
    body = closed([i + 1, c, x * w, c * 1.0], [w, i, c, x, fresh(w)])
    moved = build.scan(body, [w], [i, c, x], [xs], LENGTH)
    tangents = push(moved, {x: fresh(x)})
    assert [t is None for t in tangents] == [True, True, False, True]
    (linear,) = scans([tangents[2]])
    assert linear.arg.carries == 1
    assert INT32 not in {s.dtype for s in linear.src}


def test_a_carry_that_gets_a_tangent_from_another() -> None:
    body = closed([x, c], [c, x])
    swapped = build.scan(body, [], [c, x], [], 3)
    dc, dx = fresh(c), fresh(x)
    slopes = push(swapped, {c: dc})
    values: dict[UOp, Any] = {c: np.ones(3), x: np.ones(3), dc: np.full(3, 2.0), dx: np.ones(3)}
    assert [v.tolist() for v in run([s for s in slopes if s is not None], values)] == [
        [0, 0, 0],
        [2, 2, 2],
    ]


def test_a_loop_with_known_carries_is_split_to_be_transposed() -> None:
    """Linear in c alone; x doubles beside it and is not linear in anything."""
    body = closed([x * 2.0, c * x], [x, c])
    _, last = build.scan(body, [], [x, c], [], 3)
    ct = fresh(c)
    (back,) = pull([last], [c], [ct])
    assert back is not None
    (found,) = run([back], {x: np.ones(3), ct: np.full(3, 3.0)})
    assert found.tolist() == [24.0] * 3
    assert c not in set(walk([back]))


def test_lanes_share_what_is_the_same() -> None:
    i = leaf(np.zeros((), np.int32))
    counted = build.scan(closed([i + 1, c * x], [i, c, x]), [], [i, c], [xs], LENGTH)
    many = leaf(np.ones((2, 3)))
    count, last = batch(counted, {c: many}, 2)
    assert not count.many and last.many
    assert c not in set(walk([count.graph]))
    (loop,) = scans([last.graph])
    assert loop.src[1].shape == () and loop.src[2] is many and loop.src[3] is xs
