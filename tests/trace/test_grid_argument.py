"""Arguments of grids: tiles that are copied ahead, and places of swizzled rows."""

from __future__ import annotations

import numpy as np

from tfn.dtypes import BFLOAT16, FLOAT32, int8
from tfn.trace.banks import degree
from tfn.trace.grid_argument import SWIZZLE_BYTES, GroupMma, Staged, WarpMma, swizzled

ROW = SWIZZLE_BYTES // 2  # elements of 16 bits


def test_swizzled_rows_meet_each_bank_once() -> None:
    """Eight rows at one place, and eight places of one row, of 16 bytes each."""
    for begin in range(0, 512, 8):
        row, place = begin // ROW * ROW, begin % ROW
        for starts in (
            [row + 8 * i for i in range(8)],
            [ROW * i + place for i in range(8)],
        ):
            words = [swizzled(i, 2) // 2 + j for i in starts for j in range(4)]
            assert degree(words) == 1
    for itemsize in (2, 4):
        places = swizzled(np.arange(4096), itemsize)
        np.testing.assert_array_equal(np.sort(places), np.arange(4096))
    # The bytes of an element are where those of another dtype at its place are.
    pairs = swizzled(np.arange(2048), 4) * 2, swizzled(np.arange(0, 4096, 2), 2)
    np.testing.assert_array_equal(*pairs)


def test_a_tile_that_a_pending_product_reads_is_not_copied_ahead_of() -> None:
    assert [Staged(0, stages=n).ahead for n in (1, 2, 4)] == [0, 1, 3]
    staged = [Staged(0, stages=n, swizzled=True) for n in (1, 2, 3, 4)]
    assert [(s.pending, s.ahead) for s in staged] == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_products_are_as_deep_as_their_operands_fill_registers() -> None:
    assert [WarpMma(d, 0).depth for d in (FLOAT32, BFLOAT16, int8.dtype)] == [8, 16, 32]
    groups = [GroupMma(d, 64, False, False, 0, 0) for d in (FLOAT32, BFLOAT16, int8.dtype)]
    assert [group.depth for group in groups] == [32, 64, 128]
