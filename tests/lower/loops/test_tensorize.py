"""Matrix units: which a target has, and which contractions are put on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import p
from tests.lower.loops.test_opt_ops import nests
from tfn.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, DType, int8, int16, uint8
from tfn.lower.graph.packing import prepare
from tfn.lower.loops import loop_nest
from tfn.lower.loops.heuristics import choose
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Tile, replay
from tfn.lower.loops.tensorize import units
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp

AMX = replace(HOST, features="+amx-bf16,+amx-int8,+avx512bf16,+avx512vnni")
"""A machine with a unit that multiplies whole matrices."""


def product(rows: int, depth: int, columns: int, kind: DType = BFLOAT16) -> UOp:
    x, y = p(0, rows, depth, dtype=kind), p(1, depth, columns, dtype=kind)
    return build.dot(x, y, ((1,), (0,)), dtype=INT32 if kind.kind in "iu" else FLOAT32)


def last(u: UOp, target: object = AMX) -> Nest:
    return choose(nests(*prepare([u], target))[-1], target)


def taken(n: Nest) -> list[int]:
    """How many rows and neighbours are multiplied at once."""
    return sorted(r.arg.size for r in loop_nest.ranges(n.body) if r.arg.place is Place.UNIT)


def test_larger_units_come_first() -> None:
    assert [(u.rows, u.depth) for u in units(AMX, BFLOAT16)] == [(16, 32), (1, 2)]
    assert [(u.rows, u.depth) for u in units(AMX, int8.dtype)] == [(16, 64)]
    assert [u.together for u in units(AMX, uint8.dtype)] == [4]
    assert [u.rows for u in units(AMX, int16.dtype)] == [1]
    assert not list(units(AMX, FLOAT16)) and not list(units(HOST, BFLOAT16))


def test_what_the_process_may_not_use_is_not_there() -> None:
    refused = replace(AMX, lacks=frozenset({Op.MMA}))
    assert [u.rows for u in units(refused, BFLOAT16)] == [1]
    assert taken(last(product(64, 64, 64), refused)) == [2]


def test_large_products_are_multiplied_as_matrices_and_small_ones_in_pairs() -> None:
    assert taken(last(product(64, 64, 64))) == [16, 32]
    assert taken(last(product(16, 32, 16))) == [16, 32]
    assert taken(last(product(40, 33, 50))) == [16, 32]
    assert taken(last(product(40, 70, 50, int8.dtype))) == [16, 64]
    assert taken(last(product(40, 20, 50))) == [2]
    assert taken(last(product(8, 64, 64))) == []


def test_four_sums_are_open_at_once() -> None:
    n = last(product(256, 64, 128))
    upcast = [r.arg.size for r in n.loops if r.arg.place is Place.UPCAST]
    assert upcast == [2, 2]
    narrow = last(product(256, 64, 16))
    assert [r.arg.size for r in narrow.loops if r.arg.place is Place.UPCAST] == [2, 1]


def test_operands_that_lie_otherwise_are_left_alone() -> None:
    """What `prepare` has not laid out is multiplied by vectors, as ever."""
    (n,) = nests(product(64, 64, 64))
    assert taken(choose(n, AMX)) == []
    (n,) = nests(product(64, 64, 64, FLOAT32))
    assert taken(choose(n, AMX)) == []


@pytest.mark.parametrize("rows", [2048, 2000])
def test_blocks_that_the_second_cache_holds_stay_there(rows: int) -> None:
    """Of 4096 columns, a few hundred at a time, for all rows."""
    n = last(product(rows, 1024, 4096))
    outer = [r.arg.size for r in n.loops if r.arg.place in (Place.PARALLEL, Place.LOOP)]
    columns = outer[-1] if outer[-1] > 1 else outer[-2]
    assert 1 < columns * 32 * 1024 * 2 <= AMX.l2_bytes // 2 + 64 * 1024
    assert outer[0] >= 16


def test_opt_ops_are_recorded() -> None:
    plain = nests(*prepare([product(100, 64, 90)], AMX))[-1]
    done = choose(plain, AMX)
    assert any(isinstance(opt, Tile) and opt.place is Place.UNIT for opt in done.opts)
    assert loop_nest.simplified(replay(plain, done.opts)).body is done.body
