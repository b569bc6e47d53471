"""The rows of CUSTOM and LINEAR: who is asked, about what, and over which axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.transforms.cases import leaf
from tfn.trace import oracle
from tfn.trace.argument import Custom, Linear
from tfn.trace.build import several
from tfn.trace.op import Op
from tfn.trace.uop import UOp
from tfn.transforms.batch import batch
from tfn.transforms.body import Lanes, closed, fresh
from tfn.transforms.custom_rules import Tangents, lanes
from tfn.transforms.jvp import push
from tfn.transforms.scan_rules import Batch, Pull
from tfn.transforms.transpose import forward, pull

X, Y, DX = (np.array(v) for v in ([1.0, 2.0], [3.0, 5.0], [0.5, -1.0]))


@dataclass(frozen=True)
class Scale:
    """The linear function dx -> r dx, which says how often it was asked by factors."""

    back: float = 10.0

    def forward(self, pull: Pull, u: UOp) -> list[UOp]:
        return [u.src[0] * u.src[1] * 100.0]

    def transpose(
        self, pull: Pull, u: UOp, cts: Tangents, differentiated: Sequence[int]
    ) -> Tangents:
        assert list(differentiated) == [1]
        return [None if cts[0] is None else u.src[0] * cts[0] * self.back]


def scaled(r: UOp, dx: UOp) -> UOp:
    arg = Linear("scale", 1, ((dx.shape, dx.dtype),), Scale())
    return several(UOp(Op.LINEAR, (r, dx), arg))[0]


def run(u: UOp | None, **given: np.ndarray) -> np.ndarray:
    assert u is not None
    return oracle.evaluate([u], NAMED | {PLACES[k]: v for k, v in given.items()})[0]


R, D, CT = leaf(X), leaf(DX), leaf(DX)
PLACES = {"r": R, "d": D, "ct": CT}
NAMED = {R: X, D: DX, CT: Y}


def test_transposed_and_forward() -> None:
    node = scaled(R, D)
    (back,) = pull([node], [D], [CT])
    assert (run(back) == 10 * X * Y).all()
    (ahead,) = forward([node])
    assert (run(ahead) == 100 * X * DX).all()
    assert forward([None, R * D]) == [None, R * D]


def test_pushed_it_is_written_out_first() -> None:
    d = fresh(D)
    (slope,) = push([scaled(R, D)], {D: d})
    assert slope is not None
    assert (oracle.evaluate([slope], NAMED | {d: Y})[0] == 100 * X * Y).all()


def test_lanes_are_summed_where_they_share_an_operand() -> None:
    rows = np.stack([X, 2 * X, -X])
    many = leaf(rows)
    (all_lanes,) = batch([scaled(R, D)], {R: many}, 3)
    assert all_lanes.many and all_lanes.graph.shape == (3, 2)
    ct = leaf(np.ones((3, 2)))
    (back,) = pull([all_lanes.graph], [D], [ct])
    values = NAMED | {many: rows, ct: np.ones((3, 2))}
    assert back is not None and (oracle.evaluate([back], values)[0] == 10 * rows.sum(0)).all()
    (ahead,) = forward([all_lanes.graph])
    assert ahead is not None
    assert (oracle.evaluate([ahead], values)[0] == 100 * rows * DX).all()


@dataclass(frozen=True)
class Once:
    """Rules by a LINEAR node, as those of reverse mode are."""

    def jvp(self, push: object, u: UOp, tangents: Tangents) -> Tangents:
        assert tangents[2] is None
        return [None if tangents[1] is None else scaled(u.src[2], tangents[1])]

    def batched(
        self, batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
    ) -> list[Lanes]:
        return lanes(batch, u, src, mapped, size)


def product(x: UOp, y: UOp) -> UOp:
    a, b = fresh(x), fresh(y)
    f = closed([a * b], [a, b])
    return several(UOp(Op.CUSTOM, (f, x, y), Custom("product", Once())))[0]


def test_rules_of_one_lane_serve_lanes_of_lanes() -> None:
    x, y, dx = leaf(X), leaf(Y), leaf(DX)
    rows, table = np.stack([X, 2 * X]), np.arange(12.0).reshape(3, 2, 2)
    many, more, dmany = leaf(rows), leaf(table), leaf(table)
    (first,) = batch([product(x, y)], {y: many}, 2)
    assert first.graph.src[0].op is Op.CUSTOM
    (twice,) = batch([first.graph], {many: more}, 3)
    (slope,) = push([twice.graph], {x: dx})
    assert slope is not None and slope.shape == (3, 2, 2)
    (back,) = pull([slope], [dx], [dmany])
    assert back is not None
    ones = np.ones((3, 2, 2))
    found = oracle.evaluate([back], {x: X, more: table, dmany: ones})[0]
    assert (found == 10 * table.sum((0, 1))).all()
    value = oracle.evaluate([twice.graph], {x: X, more: table})[0]
    assert (value == X * table).all()


def test_unbatched_results_stay_unbatched() -> None:
    x, y = leaf(X), leaf(Y)
    (same,) = batch([product(x, y)], {leaf(X): leaf(np.stack([X, X]))}, 2)
    assert (not same.many and same.graph is product(x, y)) or same.graph.src[0].op is Op.CUSTOM
