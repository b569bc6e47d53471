"""Matrix units (AMX): contractions of all layouts and sizes, checked after every pass."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.check_passes import check_passes
from tests.lower.graphs import draw, jaxpr, p
from tests.lower.loops.test_beam_search import run
from tests.lower.loops.test_opt_ops import nests
from tests.lower.loops.test_tensorize import AMX, last, product, unit_sizes
from tfn.dtypes import BFLOAT16, FLOAT32, INT64, DType, int8, uint8
from tfn.lower import pipeline
from tfn.lower.codegen.linearize import linearize
from tfn.lower.graph.packing import prepare
from tfn.lower.loops.beam_search import candidates
from tfn.lower.loops.heuristics import choose
from tfn.lower.report.verify import accesses
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

SIZES = [(32, 32, 32), (17, 33, 16), (48, 100, 50), (33, 64, 31), (16, 32, 65), (70, 129, 96)]


def checked(*outputs: UOp) -> None:
    values = [draw(u.shape, u.dtype, i) for i, u in enumerate(jaxpr(list(outputs)).params)]
    stages = check_passes(jaxpr(list(outputs)), values, AMX, tolerance=2e-2)
    assert stages


@pytest.mark.parametrize("sizes", in_turn(2, SIZES), ids=str)
@pytest.mark.parametrize("contract", [(1, 0), (0, 0), (1, 1)], ids=["nn", "tn", "nt"])
def test_matrix_unit_layouts(sizes: tuple[int, int, int], contract: tuple[int, int]) -> None:
    rows, depth, columns = sizes
    a = (rows, depth) if contract[0] else (depth, rows)
    b = (columns, depth) if contract[1] else (depth, columns)
    x, y = p(0, *a, dtype=BFLOAT16), p(1, *b, dtype=BFLOAT16)
    product_ = build.dot(x, y, ((contract[0],), (contract[1],)), dtype=FLOAT32)
    assert unit_sizes(last(product_)) == [16, 32]
    checked(product_)


@pytest.mark.parametrize("kind", [int8.dtype, uint8.dtype], ids=str)
def test_matrix_unit_int8(kind: DType) -> None:
    for sizes in ((32, 64, 32), (19, 67, 40)):
        checked(product(*sizes, kind))


def test_operands_that_alias_in_cache() -> None:
    """Rows that map to the same sets of the L1 cache are packed first."""
    checked(product(32, 1024, 256))


def test_batched_contraction() -> None:
    x, y = p(0, 3, 20, 40, dtype=BFLOAT16), p(1, 3, 40, 33, dtype=BFLOAT16)
    checked(build.dot(x, y, ((2,), (1,)), ((0,), (0,)), FLOAT32))


def test_epilogue_is_applied_row_by_row() -> None:
    bias, scale = p(2, 50), p(3, 33)
    total = product(33, 40, 50) + build.expand(build.reshape(bias, (1, 50)), (33, 50))
    total = total * build.expand(build.reshape(scale, (33, 1)), (33, 50))
    checked(build.cast(build.maximum(total, const(0.0, FLOAT32, (33, 50))), BFLOAT16))


def test_masked_contraction() -> None:
    """The scores of causal attention."""
    rows, columns = (build.iota((64, 64), axis, INT64) for axis in (0, 1))
    checked(build.where(columns <= rows, product(64, 64, 64), const(-1.0, FLOAT32, (64, 64))))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_tile_loads_are_in_bounds(sizes: tuple[int, int, int]) -> None:
    program = pipeline.lower(jaxpr([product(*sizes)]), AMX)
    for kernel in program.kernels:
        items = pipeline.instructions(kernel, AMX)
        assert not accesses.check(items, kernel.tiles).unproved
    assert any(u.op is Op.TILE for u in items)


def test_one_loop_over_rows_for_all_columns() -> None:
    items = linearize(last(product(64, 64, 96)))
    assert sum(u.op is Op.MMA for u in items) == sum(u.op is Op.SPILL for u in items) == 4
    assert sum(u.op is Op.TILE for u in items) == 4
    assert sum(u.op is Op.ROW for u in items) == 4
    assert sum(u.op is Op.LOOP for u in items) == 3  # blocks, along the sum, rows


def test_beam_search_candidates_give_the_same_bits() -> None:
    n = nests(*prepare([product(64, 64, 96)], AMX))[-1]
    expected = run(choose(n, AMX))
    others = candidates(n, AMX, 4, 6)
    assert others
    for nest in others:
        for got, want in zip(run(nest), expected, strict=True):
            assert np.array_equal(got, want)
