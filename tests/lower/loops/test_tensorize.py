"""Tensorization: which contractions are mapped to which matrix units."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, p
from tests.lower.loops.test_opt_ops import nests
from tfn.dtypes import BFLOAT16, FLOAT32, INT32, DType, int8, uint8
from tfn.lower.graph.packing import prepare
from tfn.lower.loops import loop_nest
from tfn.lower.loops.heuristics import choose
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.loops.opt_ops import Tile, replay
from tfn.lower.target.target import Target
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

AMX = replace(HOST, features="+amx-bf16,+amx-int8,+avx512bf16,+avx512bw,+avx512vnni")
"""A target with AMX tiles, and with dot products of pairs."""


def product(rows: int, depth: int, columns: int, kind: DType = BFLOAT16) -> UOp:
    x, y = p(0, rows, depth, dtype=kind), p(1, depth, columns, dtype=kind)
    return build.dot(x, y, ((1,), (0,)), dtype=INT32 if kind.kind in "iu" else FLOAT32)


def last(u: UOp, target: Target = AMX) -> Nest:
    return choose(nests(*prepare([u], target))[-1], target)


def unit_sizes(n: Nest) -> list[int]:
    """The sizes of the ranges on a matrix unit: rows, and elements along the sum."""
    return sorted(r.arg.size for r in loop_nest.ranges(n.body) if r.arg.place is Place.UNIT)


def test_pairs_are_used_where_tile_registers_are_not_granted() -> None:
    refused = replace(AMX, lacks=frozenset({Op.MMA}))
    assert unit_sizes(last(product(64, 64, 64), refused)) == [2]


def test_large_products_use_tiles_and_small_ones_pairs() -> None:
    assert unit_sizes(last(product(64, 64, 64))) == [16, 32]
    assert unit_sizes(last(product(16, 32, 16))) == [16, 32]
    assert unit_sizes(last(product(40, 33, 50))) == [16, 32]
    assert unit_sizes(last(product(40, 70, 50, int8.dtype))) == [16, 64]
    assert unit_sizes(last(product(40, 20, 50))) == [2]
    assert unit_sizes(last(product(8, 64, 64))) == []


def test_four_tiles_of_sums_are_open_at_once() -> None:
    n = last(product(256, 64, 128))
    upcast = [r.arg.size for r in n.loops if r.arg.place is Place.UPCAST]
    assert upcast == [2, 2]
    narrow = last(product(256, 64, 16))
    assert [r.arg.size for r in narrow.loops if r.arg.place is Place.UPCAST] == [2, 1]


def test_operands_in_another_layout_are_not_tensorized() -> None:
    """They are multiplied by vectors."""
    n = nests(product(64, 64, 64))[-1]
    assert unit_sizes(choose(n, AMX)) == []
    (n,) = nests(product(64, 64, 64, FLOAT32))
    assert unit_sizes(choose(n, AMX)) == []


@pytest.mark.parametrize("rows", [2048, 2000])
def test_blocks_of_columns_fit_in_half_of_l2(rows: int) -> None:
    """4096 columns are taken a few hundred at a time, each block for all rows."""
    n = last(product(rows, 1024, 4096))
    outer = [r.arg.size for r in n.loops if r.arg.place in (Place.PARALLEL, Place.LOOP)]
    columns = outer[-1] if outer[-1] > 1 else outer[-2]
    assert 1 < columns * 32 * 1024 * 2 <= AMX.l2_bytes // 2 + 64 * 1024
    assert outer[0] >= 16


def test_opt_ops_are_recorded() -> None:
    plain = nests(*prepare([product(100, 64, 90)], AMX))[-1]
    chosen = choose(plain, AMX)
    assert any(isinstance(opt, Tile) and opt.place is Place.UNIT for opt in chosen.opts)
    assert loop_nest.simplified(replay(plain, chosen.opts)).body is chosen.body


@pytest.mark.parametrize("kind", [int8.dtype, uint8.dtype])
def test_few_rows_of_bytes_are_pairs_without_a_copy_in_panels(kind: DType) -> None:
    refused = replace(AMX, lacks=frozenset({Op.MMA}))
    u = product(5, 64, 100, kind)
    prepared = prepare([u], refused)
    assert [v.src[0].shape for v in walk(prepared) if v.op is Op.GBARRIER] == [(5, 64)]
    assert unit_sizes(last(u, refused)) == [2]
    assert unit_sizes(last(product(3, 64, 100, kind), refused)) == []
    assert unit_sizes(last(product(5, 63, 100, kind), refused)) == []
    if "avx512vnni" in HOST.features:
        assert_matches_oracle([u])
