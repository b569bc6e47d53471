"""Partial vectors: the first lanes in parts, where there are no masks for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.check_passes import HOST, SMALL
from tests.lower.graphs import assert_matches_oracle, p
from tfn.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType, uint8
from tfn.lower.codegen.partial_vectors import split_partial_vectors
from tfn.lower.target.target import Target
from tfn.trace import build, interpreter
from tfn.trace.argument import Access, Scatter
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

AVX2 = replace(SMALL, vector_bytes=32)


def partial(dtype: DType, lanes: int, count: int) -> tuple[UOp, ...]:
    """The first `count` lanes of a vector of `lanes`, loaded and stored."""
    x, y = p(1, 64, dtype=dtype), p(0, 64, dtype=dtype)
    mask = UOp(Op.LT, (UOp(Op.LANES, (), lanes), const(count, INT64, (lanes,))))
    access = Access(3, lanes, 1)
    value = UOp(Op.LOAD, (x, const(2, INT64), mask), access)
    return mask, value, UOp(Op.STORE, (y, const(2, INT64), value, mask), access)


@pytest.mark.parametrize("dtype", [uint8.dtype, FLOAT32, FLOAT64, BOOL], ids=str)
@pytest.mark.parametrize("target", [SMALL, AVX2], ids=["sse", "avx2"])
def test_the_first_lanes_are_smaller_vectors(dtype: DType, target: Target) -> None:
    lanes = 8
    for count in range(1, lanes):
        items = split_partial_vectors(partial(dtype, lanes, count), target)
        stores = [u for u in items if u.op is Op.STORE]
        assert len(stores) == count.bit_count()
        assert sum(len(u.src) == 4 for u in stores) == count % 2, "one lane has a mask, but no more"
        x = (np.arange(64) % 7 - 2).astype(dtype)
        buffers = [np.zeros(64, dtype), x]
        interpreter.instructions(items, 0, 1, buffers)
        want = np.zeros(64, dtype)
        want[5 : 5 + count] = x[5 : 5 + count]
        np.testing.assert_array_equal(buffers[0], want)


def test_masks_stay_where_they_are_fast() -> None:
    items = partial(FLOAT32, 8, 5)
    assert split_partial_vectors(items, HOST) == items
    loads = [u for u in split_partial_vectors(items, AVX2) if u.op is Op.LOAD]
    assert [len(u.src) for u in loads] == [3]
    assert all(len(u.src) == 2 for u in split_partial_vectors(items, SMALL) if u.op is Op.LOAD)


@pytest.mark.parametrize("dtype", [uint8.dtype, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("columns", [1, 3, 7, 13, 31, 47])
def test_rows_of_any_length(columns: int, dtype: DType) -> None:
    x, row = p(0, 9, columns, dtype=dtype), p(1, columns, dtype=dtype)
    total = x + build.broadcast_in_dim(row, x.shape, (1,))
    assert_matches_oracle([total, build.permute(x, (1, 0)) * 2])


@pytest.mark.parametrize("start", [-5, -1, 0, 7, 56, 57, 60])
def test_vectors_under_other_masks_are_loaded_whole_where_all_of_it_is_memory(start: int) -> None:
    """Bytes from 3 on of eight, some of which lie before the buffer, or behind its end."""
    x, y = p(1, 64, dtype=uint8.dtype), p(0, 8, dtype=uint8.dtype)
    lanes = UOp(Op.LANES, (), 8)
    first, end = (const(min(max(i - start, -1), 9), INT64, (8,)) for i in (-1, 64))
    after, before = UOp(Op.LT, (first, lanes)), UOp(Op.LT, (lanes, end))
    some = UOp(Op.LT, (const(2, INT64, (8,)), lanes))
    mask = [after, before, some, after & before, (after & before) & some]
    value = UOp(Op.LOAD, (x, const(start, INT64), mask[-1]), Access(0, 8, 1))
    store = UOp(Op.STORE, (y, const(0, INT64), value), Access(0, 8, 1))
    items = split_partial_vectors((*mask, value, store), AVX2)
    assert [len(u.src) for u in items if u.op is Op.LOAD] == [2, 3]
    assert sum(u.op is Op.LOOP for u in items) == 1, "the mask is used where memory ends"
    buffers = [np.zeros(8, np.uint8), np.arange(1, 65, dtype=np.uint8)]
    interpreter.instructions(items, 0, 1, buffers)
    inside = [i >= 3 and 0 <= start + i < 64 for i in range(8)]
    want = [start + i + 1 if inside[i] else 0 for i in range(8)]
    np.testing.assert_array_equal(buffers[0], want)


@pytest.mark.parametrize("dtype", [uint8.dtype, FLOAT32], ids=str)
def test_padded_rows(dtype: DType) -> None:
    for shape in ((3, 5, 9), (2, 33), (70,), (4, 56)):
        x = p(0, *shape, dtype=dtype)
        low = (2,) * x.ndim
        assert_matches_oracle([build.pad(x, low, (1,) * x.ndim)])


def test_masks_of_one_lane_are_defined_once_and_before_loops() -> None:
    """One that a loop defined would be used after the loop."""
    mask, value, store = partial(FLOAT32, 4, 3)
    single, other_value, other = partial(FLOAT32, 4, 1)
    loop = UOp(Op.LOOP, (const(0, INT64), const(2, INT64)), 1)
    items = (mask, single, value, loop, store, UOp(Op.END, (loop,)), other_value, other)
    for given in (items, items[:1] + items[2:6] + (single,) + items[6:]):
        split = split_partial_vectors(given, SMALL)
        assert split.count(single) == 1 and split.index(single) < split.index(loop)


@pytest.mark.parametrize("condition", [False, True])
def test_a_mask_of_all_lanes_or_none_is_a_branch(condition: bool) -> None:
    x, y = p(1, 64), p(0, 64)
    value = UOp(Op.LOAD, (x, const(2, INT64)), Access(0, 8, 1))
    mask = UOp(Op.SPLAT, (const(condition, BOOL),), 8)
    store = UOp(Op.STORE, (y, const(2, INT64), value, mask), Access(0, 8, 1))
    assert split_partial_vectors((value, mask, store), HOST) == (value, mask, store)
    items = split_partial_vectors((value, mask, store), AVX2)
    assert items[-1].src[3] is mask.src[0]
    buffers = [np.zeros(64, np.float32), np.arange(64, dtype=np.float32)]
    interpreter.instructions(items, 0, 1, buffers)
    want = np.zeros(64, np.float32)
    want[2:10] = np.arange(2, 10) if condition else 0
    np.testing.assert_array_equal(buffers[0], want)


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.WHERE])
@pytest.mark.parametrize("columns", [8, 13, 64])
def test_rows_that_are_scattered_outside_are_dropped(op: Op, columns: int) -> None:
    """Of the rows of embeddings or of neighbours each is in bounds, or not, as a whole."""
    indices = np.array([[3], [-1], [0], [5], [4], [3], [2**31 - 1]], np.int32)
    if op is Op.WHERE:
        indices[5] = 1  # no row is set twice
    x, at = p(0, 5, columns), p(1, 7, 1, dtype=INT32)
    u = UOp(Op.SCATTER, (x, at, p(2, 7, 1, columns)), Scatter(0, op))
    rows = np.random.default_rng(0).normal(size=(12, columns)).astype(np.float32)
    assert_matches_oracle([u], [rows[:5], indices, rows[5:, None]])
