"""Beam search: candidates with the same bits, and the fastest of them by a given measure."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.check_passes import HOST, SMALL
from tests.lower.graph.test_packing import UNIT
from tests.lower.graphs import matmul, p, softmax
from tests.lower.loops.test_opt_ops import nests, only
from tfn.dtypes import BFLOAT16
from tfn.lower.codegen.linearize import linearize
from tfn.lower.graph.packing import prepare
from tfn.lower.loops import loop_nest
from tfn.lower.loops.beam_search import (
    candidates,
    estimated_instructions,
    reduction_order,
    search,
)
from tfn.lower.loops.heuristics import choose
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Split, Tile, replay
from tfn.lower.target.target import Target
from tfn.trace import build, interpreter
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import walk

KERNELS = {
    "product": matmul(p(0, 13, 8), p(1, 8, 40)),
    "elementwise": build.unary(Op.NEG, p(0, 5, 33)) + p(1, 5, 33),
    "transpose": build.permute(p(0, 17, 20), (1, 0)) * 2.0,
    "softmax": softmax(p(0, 6, 20)),
    "columns": build.add_up(p(0, 9, 35), (0,)),
    "scalar": build.add_up(p(0, 40), (0,)),
}


def run(n: Nest) -> list[np.ndarray]:
    params = {u.arg.index: u for u in walk([n.body]) if u.op is Op.PARAM and u.arg.index >= 0}
    random = np.random.default_rng(0)
    buffers = [
        random.standard_normal(params[i].shape).astype(params[i].dtype) for i in range(len(params))
    ]
    tiles = [r.arg.size for r in n.loops[:1] if r.arg.place is Place.PARALLEL]
    interpreter.instructions(linearize(n), 0, tiles[0] if tiles else 1, buffers)
    return buffers


@pytest.mark.parametrize("target", [HOST, SMALL], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", in_turn(2, KERNELS))
def test_candidates_give_the_same_bits(name: str, target: Target) -> None:
    n = only(KERNELS[name])
    chosen = choose(n, target)
    expected = run(chosen)
    others = candidates(n, target, 4, 8)
    assert others or name == "scalar"
    for nest in others:
        assert reduction_order(nest) == reduction_order(chosen) and nest.opts != chosen.opts
        for got, want in zip(run(nest), expected, strict=True):
            assert got.tobytes() == want.tobytes()
        assert loop_nest.simplified(replay(n, nest.opts)).body is nest.body


def test_a_matrix_unit_has_its_own_vector_axis() -> None:
    x, y = p(0, 32, 8, dtype=BFLOAT16), p(1, 8, 32, dtype=BFLOAT16)
    n = nests(*prepare([build.dot(x, y, ((1,), (0,)))], UNIT))[-1]
    expected = run(choose(n, UNIT))
    others = candidates(n, UNIT, 6, 24)
    assert others
    for nest in others:
        for got, want in zip(run(nest), expected, strict=True):
            assert got.tobytes() == want.tobytes()


def test_register_tiles_are_estimated_below_single_rows() -> None:
    n = only(matmul(p(0, 256, 256), p(1, 256, 256)))
    tiled = choose(n, HOST)
    lane = next(r for r in n.loops if r.arg.number == 1)
    narrow = Tile(lane.arg.number, 1, 16).apply(n)
    counts = [estimated_instructions(nest, HOST) for nest in (tiled, narrow, n)]
    assert counts == sorted(set(counts))


def test_gathers_and_spills_are_estimated() -> None:
    n = only(matmul(p(0, 256, 256), p(1, 256, 256)))
    rows, columns = n.loops
    across = Tile(rows.arg.number, 1, 16).apply(n)
    along = Tile(columns.arg.number, 1, 16).apply(n)
    assert estimated_instructions(along, HOST) < estimated_instructions(across, HOST)
    vectors = Tile(columns.arg.number, 4, 16).apply(n)
    many = Split(rows.arg.number, 13, Place.UPCAST).apply(vectors)
    few = Split(rows.arg.number, 6, Place.UPCAST).apply(vectors)
    assert estimated_instructions(few, HOST) < estimated_instructions(many, HOST)


def test_the_fastest_wins_and_ties_keep_the_heuristic() -> None:
    n = only(KERNELS["product"])
    chosen = choose(n, HOST)
    others = candidates(n, HOST, 6, 24)
    favourite = others[-1].opts

    def measure(nest: Nest) -> float:
        return {favourite: 1.0, chosen.opts: 5.0}.get(nest.opts, inf)

    result = search(n, HOST, measure)
    assert (result.opts, result.ns, result.heuristic_ns) == (favourite, 1.0, 5.0)
    assert result.measured == len(others) + 1
    late = search(n, HOST, lambda nest: 5.0 if nest.opts == chosen.opts else None)
    assert (late.opts, late.ns, late.measured) == (chosen.opts, 5.0, 1)
    slower = search(n, HOST, lambda nest: float(nest.opts != chosen.opts))
    assert slower.opts == chosen.opts and slower.ns == slower.heuristic_ns


def test_nests_of_an_earlier_search_are_measured_first() -> None:
    n = only(KERNELS["product"])
    earlier, measured = loop_nest.simplified(n), []

    def measure(nest: Nest) -> float | None:
        measured.append(nest.opts)
        return 5.0 if len(measured) == 1 else 1.0 if nest is earlier else None

    result = search(n, HOST, measure, [earlier])
    assert measured[1] == earlier.opts == result.opts and (result.ns, result.measured) == (1.0, 2)


def test_the_best_is_measured_again() -> None:
    n = only(KERNELS["product"])
    lucky, measured = candidates(n, HOST, 6, 24)[3].opts, []

    def measure(nest: Nest) -> float:
        measured.append(nest.opts)
        return 1.0 if nest.opts == lucky and measured.count(lucky) == 1 else 5.0

    result = search(n, HOST, measure)
    assert result.opts == choose(n, HOST).opts and result.ns == result.heuristic_ns == 5.0
