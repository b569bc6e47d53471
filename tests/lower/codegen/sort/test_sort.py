"""Radix sort kernel: every dtype, every kind of float, stable, by several keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.covering import covering, in_turn
from tests.lower.graphs import Value, assert_close, p, run_compiled, run_oracle
from tfn.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    REALS,
    UINT32,
    WITHOUT_INFINITY,
    DType,
    highest,
    lowest,
)
from tfn.hw.cpu.target import host
from tfn.lower.codegen.sort.plan import MAX_INSERTION_ELEMENTS, plan_of, scratch
from tfn.lower.codegen.sort.row_sort import MIN_ELEMENTS_FOR_BUCKETS, MIN_ELEMENTS_TO_SKIP_PASSES
from tfn.lower.codegen.sort.sort import assumed, instructions
from tfn.lower.report.verify import accesses
from tfn.trace import build, interpreter
from tfn.trace.argument import Sort
from tfn.trace.op import Op
from tfn.trace.spec import Stage
from tfn.trace.spec import check as check_stage
from tfn.trace.uop import UOp

REAL = REALS
HOST = host()
LIMIT = MAX_INSERTION_ELEMENTS
SHAPES = [(1, MIN_ELEMENTS_FOR_BUCKETS + 1), (70, 1 << 20), (3, 1031), (5, 40)]
SIZES = (1, 2, 3, 17, 255, 256, 257, 1000)


def draw(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Value:
    """Few different values, so that many are equal, special ones among them."""
    random = np.random.default_rng(seed)
    if dtype == BOOL:
        return random.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        special = [lowest(dtype), highest(dtype), 0, 1, 2, 127]
    else:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 100.0, -100.0, np.inf, -np.inf, np.nan, -np.nan]
    return np.array(special, dtype)[random.integers(0, len(special), shape)]


def check(outputs: list[UOp], values: list[Value]) -> list[Value]:
    """Compare with the oracle; of floats also the sign of each zero, so that stability shows."""
    results = run_compiled(outputs, values)
    for got, want in zip(results, run_oracle(outputs, values), strict=True):
        assert_close(got, want)
        if got.dtype in FLOATS:
            with np.errstate(invalid="ignore"):  # of a NaN that signals
                number = ~np.isnan(got.astype(np.float64))
            assert (np.signbit(got) == np.signbit(want))[number].all()
    return results


@covering("n, dtype", SIZES, REAL, ids=lambda value: getattr(value, "name", None))
def test_every_dtype_and_every_size(n: int, dtype: DType) -> None:
    keys = p(0, 2, n, dtype=dtype)
    check(build.sort([keys, build.iota((2, n), 1)]), [draw((2, n), dtype, n)])


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_random_bits(dtype: DType) -> None:
    bits = np.random.default_rng(1).integers(0, 256, 500 * dtype.itemsize, np.uint8)
    values = (bits[:500] & 1).astype(bool) if dtype == BOOL else bits.view(dtype)
    check(build.sort([p(0, 500, dtype=dtype), build.iota((500,), 0)]), [values])


def test_equal_keys_keep_their_order() -> None:
    keys = draw((3, 1000), INT32, 5)
    _, order = check(build.sort([p(0, 3, 1000, dtype=INT32), build.iota((3, 1000), 1)]), [keys])
    assert np.array_equal(order, np.argsort(keys, axis=1, kind="stable"))


@pytest.mark.parametrize("dtype", FLOATS - WITHOUT_INFINITY, ids=lambda d: d.name)
def test_nan_sorts_last_and_zeros_are_equal(dtype: DType) -> None:
    """In types that have infinities, which have a negative zero too."""
    x = np.array([np.nan, 0.0, -np.nan, -0.0, np.inf, 0.0, -np.inf, -0.0], dtype)
    keys, order = check(build.sort([p(0, 8, dtype=dtype), build.iota((8,), 0)]), [x])
    assert order.tolist() == [6, 1, 3, 5, 7, 4, 0, 2]
    assert np.signbit(keys.astype(np.float64))[1:5].tolist() == [False, True, False, True]


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_several_keys_with_payloads(keys: int) -> None:
    shape = (4, 100)
    dtypes = (INT32, FLOAT32, BFLOAT16, BOOL)
    operands = [p(i, *shape, dtype=d) for i, d in enumerate(dtypes)] + [build.iota(shape, 1)]
    values = [draw(shape, d, i) for i, d in enumerate(dtypes)]
    check(build.sort(operands, keys), values)


def test_unused_results_are_not_written() -> None:
    keys, order = build.sort([p(0, 5, 30), build.iota((5, 30), 1)])
    x = draw((5, 30), FLOAT32)
    check([order], [x])
    check([keys * 2.0], [x])
    check([order, keys, order + 1], [x])


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (1, 1), (2, 1, 3)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    check(build.sort([p(0, *shape)]), [draw(shape, FLOAT32)])


def test_computed_operands() -> None:
    x = p(0, 6, 40)
    check(
        build.sort([build.flip(x, (1,)) * -1.0, build.permute(build.permute(x, (1, 0)), (1, 0))]),
        [draw((6, 40), FLOAT32)],
    )


def sorting(*shape: int, keys: DType = FLOAT32) -> UOp:
    """The body of a kernel that sorts keys, and gives the index of each."""
    src = tuple(
        UOp(Op.PARAM, (), p(i + 3, *shape, dtype=d).arg) for i, d in enumerate((keys, INT32))
    )
    node = UOp(Op.SORT, src, Sort(1))
    return UOp(Op.TUPLE, tuple(UOp(Op.GET, (node,), i) for i in range(2)))


def keys_only(*shape: int, dtype: DType = FLOAT32) -> UOp:
    """The body of a kernel that sorts keys only."""
    node = UOp(Op.SORT, (p(2, *shape, dtype=dtype),), Sort(1))
    return UOp(Op.TUPLE, (UOp(Op.GET, (node,), 0),))


@pytest.mark.parametrize(("rows", "size"), [(7, 30), (100, 5), (3, 300), (66, 33), (1, 40000)])
def test_groups_of_rows_are_tiles(rows: int, size: int) -> None:
    """Tiles may be run in any order."""
    body = sorting(rows, size)
    items, tiles = instructions(body, HOST)
    check_stage(items, Stage.LINEAR)
    assert tiles == plan_of(body).groups <= min(rows, 64)
    room = scratch(body.src[0].src[0], (0, 1)).shape[0]
    if size > 1000:  # too long for the interpreter, and tested compiled
        assert room < 3 * size
        return
    x = draw((rows, size), FLOAT32)
    numbers = np.broadcast_to(np.arange(size, dtype=np.int32), x.shape).reshape(-1)
    results = [np.zeros(x.size, d) for d in (np.float32, np.int32)]
    buffers = [*results, np.full(room, 113, np.uint64), x.reshape(-1), numbers]
    for tile in reversed(range(tiles)):
        interpreter.instructions(items, tile, tile + 1, buffers)
    order = np.argsort(x + 0.0, axis=1, kind="stable")
    assert np.array_equal(results[1].reshape(x.shape), order)


def test_code_does_not_grow_with_the_row() -> None:
    def count(n: int) -> int:
        return len(instructions(sorting(1, n), HOST)[0])

    assert count(MIN_ELEMENTS_TO_SKIP_PASSES) == count(1 << 11) < 450
    assert count(1 << 19) == count(MIN_ELEMENTS_FOR_BUCKETS - 4) < 550
    assert count(MIN_ELEMENTS_FOR_BUCKETS) == count(1 << 20) == count(1 << 26) < 1300


def test_long_rows() -> None:
    n = (1 << 15) + 1
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, n).astype(np.int32)
    check([build.sort([p(0, n, dtype=INT32), build.iota((n,), 0)])[1]], [keys])
    wide = np.random.default_rng(0).integers(-(2**63), 2**63, n)
    check(build.sort([p(0, n, dtype=INT64), build.iota((n,), 0)]), [wide])


# Keys only, and rows that do not fit a cache.


@covering(
    "size, dtype",
    [1, 2, LIMIT, LIMIT + 1, 64, 257, 1031],
    REAL,
    ids=lambda value: getattr(value, "name", None),
)
def test_keys_only(size: int, dtype: DType) -> None:
    for i in range(2):
        (result,) = build.sort([p(0, 3, size, dtype=dtype)])
        check([result], [draw((3, size), dtype, i)])
    if size == 1:  # nothing is sorted
        return
    keys, _ = build.sort([p(0, 3, size, dtype=dtype), p(1, 3, size)])
    check([keys], [draw((3, size), dtype), draw((3, size), FLOAT32)])


def test_uncached_rows_are_prefetched() -> None:
    def prefetches(n: int, l2_bytes: int) -> bool:
        items, _ = instructions(keys_only(1, n), replace(HOST, l2_bytes=l2_bytes))
        return any(u.op is Op.PREFETCH for u in items)

    assert not prefetches(1000, 1 << 20) and prefetches(1 << 20, 1 << 20)
    assert prefetches(50_000, 1 << 10) and not prefetches(20, 1)  # insertion sort is local


@pytest.mark.parametrize("keys", [UINT32, FLOAT64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", in_turn(2, SHAPES))
def test_sort_accesses_are_proved_in_bounds(shape: tuple[int, int], keys: DType) -> None:
    body = sorting(*shape, keys=keys)
    items, tiles = instructions(body, HOST)
    check_stage(items, Stage.LINEAR)
    assert not accesses.check(items, tiles, assumed(body, items)).unproved


@pytest.mark.parametrize("keys", [UINT32, FLOAT32, FLOAT64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", in_turn(2, SHAPES))
def test_keys_only_accesses_are_proved_in_bounds(shape: tuple[int, int], keys: DType) -> None:
    body = keys_only(*shape, dtype=keys)
    items, tiles = instructions(body, HOST)
    check_stage(items, Stage.LINEAR)
    assert not accesses.check(items, tiles, assumed(body, items)).unproved
