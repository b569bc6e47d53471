"""Sorts on grids by digits: every dtype, several keys, stable; their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.check_passes import GRID, HOST, check_passes
from tests.lower.codegen.sort.test_sort import draw
from tests.lower.graphs import Value, jaxpr, p, run_oracle
from tfn.dtypes import BOOL, FLOAT32, FLOATS, INT32, INT64, REALS, DType, uint8
from tfn.lower import pipeline
from tfn.lower.codegen.sort.group_sort import TILE_ELEMENTS
from tfn.lower.fuse.grid_sort import sort_on_grid
from tfn.trace import build
from tfn.trace.argument import Sort
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LONG = TILE_ELEMENTS + 953
"""A prime number of elements: two tiles, the second of them not whole."""


def by_digits(values: list[Value], keys: int = 1) -> list[Value]:
    """The results of a long sort, by the oracle of its steps; every bit is that of a sort."""
    operands = [p(i, *x.shape, dtype=x.dtype) for i, x in enumerate(values)]
    node = UOp(Op.SORT, tuple(operands), Sort(keys))
    results = sort_on_grid(node, GRID)
    assert results is not None
    got, want = run_oracle(results, values), run_oracle(build.several(node), values)
    for x, y in zip(got, want, strict=True):
        assert np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()
    return got


@pytest.mark.parametrize("dtype", in_turn(3, REALS), ids=lambda d: d.name)
def test_every_dtype(dtype: DType) -> None:
    keys = draw((2, LONG), dtype, 3)
    random = np.random.default_rng(1).integers(0, 256, LONG * dtype.itemsize, np.uint8)
    keys[0] = (random & 1).astype(bool) if dtype == BOOL else random.view(dtype)
    if dtype in FLOATS:  # not every conversion keeps the bits of NaNs that signal
        with np.errstate(invalid="ignore"):
            keys[0][np.isnan(keys[0].astype(np.float64))] = np.nan
    numbers = np.broadcast_to(np.arange(LONG, dtype=np.int32), (2, LONG)).copy()
    _, order = by_digits([keys, numbers])
    wide = keys.astype(np.float64) if dtype in FLOATS else keys
    np.testing.assert_array_equal(order, np.argsort(wide, axis=1, kind="stable"))


@pytest.mark.parametrize("size", [TILE_ELEMENTS + 1, 2 * TILE_ELEMENTS, LONG])
def test_keys_of_the_padding_come_last(size: int) -> None:
    """Keys whose bits are all ones are equal to those of the padding, and before it."""
    keys = np.full((1, size), 255, np.uint8)
    keys[0, ::3] = 7
    by_digits([keys, np.arange(size, dtype=np.int64)[None]])


def test_several_keys_the_last_of_which_is_sorted_first() -> None:
    shape = (2, LONG)
    values = [draw(shape, d, i) for i, d in enumerate((BOOL, INT64, FLOAT32))]
    by_digits(values, 2)
    by_digits(values, 3)


def test_the_kernels_have_the_values_of_a_sort() -> None:
    """Threads in lockstep: no pass changes a value, and no two threads race."""
    outputs = build.sort([p(0, LONG, dtype=INT32), build.iota((LONG,), 0)])
    check_passes(jaxpr(outputs), [draw((LONG,), INT32, 1)], GRID)


def test_short_rows_are_sorted_by_groups() -> None:
    results = sort_on_grid(UOp(Op.SORT, (p(0, 3, 100),), Sort(1)), GRID)
    assert results is not None and results[0].src[0].arg == Sort(1, shared=True)
    again = sort_on_grid(results[0].src[0], GRID)
    assert again is None
    assert sort_on_grid(UOp(Op.SORT, (p(0, 3, 0),), Sort(1)), GRID) is None


def test_kernels_of_a_pass() -> None:
    """Digits; a sort of each tile; begins, counts, three of a scan, offsets; two scatters."""
    size = 1 << 20
    program = pipeline.lower(jaxpr(build.sort([p(0, size, dtype=uint8.dtype)])[:1]), GRID)
    shapes = [(k.kernel.tiles, k.kernel.threads) for k in program.launches]
    tiles = size // TILE_ELEMENTS
    assert (tiles, 256) in shapes and min(threads for _, threads in shapes) > 1
    assert len(shapes) == 10
    many = pipeline.lower(jaxpr(build.sort([p(0, size, dtype=INT64)])[:1]), GRID)
    assert len({k.kernel.name for k in many.launches}) < 30 < len(many.launches)


def test_no_tile_is_copied_for_its_shape() -> None:
    """A sort reads values of another shape where they lie, on every target."""
    x = UOp(Op.GBARRIER, (p(0, 12) * 2.0,))
    for target in (HOST, GRID):
        outputs = build.sort([build.reshape(x, (3, 4))])
        program = pipeline.lower(jaxpr(outputs), target)
        assert len(program.launches) == 2
        check_passes(jaxpr(outputs), [draw((12,), FLOAT32, 2)], target)
