"""Radix sort kernel: every dtype, every kind of float, stable, by several keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

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
    UINT64,
    WITHOUT_INFINITY,
    DType,
    highest,
    lowest,
)
from tfn.hw.cpu.target import host
from tfn.lower import pipeline
from tfn.lower.codegen.sort import sort
from tfn.lower.codegen.sort.key_encoding import bit_width
from tfn.lower.codegen.sort.plan import MAX_INSERTION_ELEMENTS
from tfn.lower.codegen.sort.sort import (
    MIN_ELEMENTS_FOR_BUCKETS,
    MIN_ELEMENTS_TO_SKIP_PASSES,
    assumed,
    instructions,
    plan_of,
    scratch,
)
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


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_every_dtype_at_every_size(dtype: DType) -> None:
    for n in SIZES:
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


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
@pytest.mark.parametrize("size", [1, 2, LIMIT, LIMIT + 1, 64, 257, 1031])
def test_keys_only(size: int, dtype: DType) -> None:
    for i in range(2):
        (result,) = build.sort([p(0, 3, size, dtype=dtype)])
        check([result], [draw((3, size), dtype, i)])
    if size == 1:  # nothing is sorted
        return
    keys, _ = build.sort([p(0, 3, size, dtype=dtype), p(1, 3, size)])
    check([keys], [draw((3, size), dtype), draw((3, size), FLOAT32)])


def test_keys_only_scratch_is_as_wide_as_the_keys() -> None:
    for dtype, word in ((BFLOAT16, UINT32), (FLOAT32, UINT32), (INT64, UINT64)):
        node = keys_only(1, 5000, dtype=dtype).src[0].src[0]
        assert scratch(node, (0,)).dtype == word
    node = sorting(1, 5000).src[0].src[0]
    assert scratch(node, (0,)).dtype == UINT32
    assert scratch(node, (1,)).dtype == scratch(node, (0, 1)).dtype == UINT64


def test_uncached_rows_are_prefetched() -> None:
    def prefetches(n: int, l2_bytes: int) -> bool:
        items, _ = instructions(keys_only(1, n), replace(HOST, l2_bytes=l2_bytes))
        return any(u.op is Op.PREFETCH for u in items)

    assert not prefetches(1000, 1 << 20) and prefetches(1 << 20, 1 << 20)
    assert prefetches(50_000, 1 << 10) and not prefetches(20, 1)  # insertion sort is local


@pytest.mark.parametrize("dtype", [INT32, FLOAT32, FLOAT64], ids=lambda d: d.name)
def test_every_distribution_in_uncached_rows(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the L2 cache were empty."""
    pipeline.forget()
    monkeypatch.setattr(pipeline, "_CACHES", [])
    monkeypatch.setattr(sort, "CACHED_L2_DIVISOR", 1 << 40)
    check_distributions((2, 1027), dtype)
    pipeline.forget()


# Uneven keys, and rows in buckets.


def distributions(shape: tuple[int, ...], seed: int = 0) -> dict[str, Value]:
    """32-bit keys whose digits are distributed evenly, unevenly, or not at all."""
    random = np.random.default_rng(seed)
    n = shape[-1]
    place = np.broadcast_to(np.arange(n), shape)

    def below(limit: int) -> Value:
        return random.integers(0, limit, shape)

    digit = below(256)
    keys = {
        "any": below(1 << 32),
        "equal": below(1) + 0x12345678,
        "two values": below(2) * 0x89ABCDEF,
        "small": below(256),
        "less small": below(1 << 20),
        "high": below(256) << 24,
        "middle": below(256) << 12,
        "in order": place * ((1 << 32) // n),
        "reversed": (n - 1 - place) * ((1 << 32) // n),
        "one outlier": np.where(place == n // 2, (1 << 32) - 1, below(256)),
        "one outlier at last": np.where(place == n - 1, 0, below(1 << 24) + (7 << 24)),
        "one bucket": below(1 << 24) | 0x55000000,
        "one large bucket": np.where(below(20) == 0, below(1 << 24) | 0x55000000, below(1 << 32)),
        "no low bucket": below(1 << 32) | 0x80000000,
        "no high bucket": below(1 << 31),
        "high and low digits": (below(256) << 24) | below(256),
        "equal middle digits": (below(256) << 24) | (digit * 0x010100) | below(256),
        "equal digits": digit * 0x01010101,
        "no middle digit": below(1 << 32) & 0xFF00FFFF,
        "logarithmic": below(1 << 32) >> below(32),
        "saw": (place % 1000) << 20,
    }
    return {name: bits.astype(np.uint32) for name, bits in keys.items()}


NAMES = tuple(distributions((1, 2)))


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of 64 elements and more are sorted in buckets."""
    monkeypatch.setattr(sort, "MIN_ELEMENTS_FOR_BUCKETS", 64)
    monkeypatch.setattr(sort, "MIN_ELEMENTS_TO_SKIP_PASSES", 64)
    monkeypatch.setattr(pipeline, "_CACHES", [])
    pipeline.forget()
    yield
    pipeline.forget()


def check_distributions(shape: tuple[int, ...], dtype: DType) -> None:
    """Check keys and order of all distributions."""
    keys, order = build.sort([p(0, *shape, dtype=dtype), build.iota(shape, len(shape) - 1)])
    for bits in distributions(shape).values():
        if dtype.itemsize == 8:  # each half of which is one that is hard
            wide = bits.astype(np.uint64)
            values = (wide << 32) | np.flip(wide, -1)
        else:
            values = bits >> (32 - bit_width(dtype))
        values = values.astype(f"uint{bit_width(dtype)}").view(dtype)
        check([order], [values])
        check([keys], [values])


@pytest.mark.parametrize("dtype", [INT32, FLOAT32, BFLOAT16, INT64], ids=lambda d: d.name)
def test_every_distribution(dtype: DType) -> None:
    check_distributions((2, 1027), dtype)


@pytest.mark.parametrize("dtype", [UINT32, FLOAT32, FLOAT64], ids=lambda d: d.name)
def test_every_distribution_in_buckets(dtype: DType, buckets: None) -> None:
    check_distributions((3, 4099), dtype)


@pytest.mark.parametrize("size", [64, 65, 255, 256, 257, 1024, 4095, 4096])
def test_buckets_at_every_size(size: int, buckets: None) -> None:
    for rows in (1, 2):
        _, order = build.sort([p(0, rows, size, dtype=INT32), build.iota((rows, size), 1)])
        keys = distributions((rows, size), size)
        for name in ("any", "equal", "in order", "one large bucket", "equal middle digits"):
            check([order], [keys[name].view(INT32)])


@pytest.mark.parametrize("keys", [2, 3])
def test_several_keys_in_buckets(keys: int, buckets: None) -> None:
    shape = (2, 2003)
    dtypes = (INT32, INT64, BFLOAT16, FLOAT32)
    operands = [p(i, *shape, dtype=d) for i, d in enumerate(dtypes)] + [build.iota(shape, 1)]
    values = [draw(shape, d, i) for i, d in enumerate(dtypes)]
    check(build.sort(operands, keys), values)
    values[1] = np.random.default_rng(0).integers(-(1 << 63), 1 << 63, shape)
    values[0] = values[1].astype(np.int32) & ~7
    check(build.sort(operands, keys), values)


@pytest.mark.parametrize("name", NAMES)
def test_every_distribution_in_long_rows(name: str) -> None:
    n = MIN_ELEMENTS_FOR_BUCKETS + 1
    bits = distributions((n,))[name]
    _, order = build.sort([p(0, n, dtype=UINT32), build.iota((n,), 0)])
    (indices,) = run_compiled([order], [bits])
    assert np.array_equal(indices, np.argsort(bits, kind="stable"))


@pytest.mark.parametrize("keys", [UINT32, FLOAT64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_sort_accesses_are_proved_in_bounds(shape: tuple[int, int], keys: DType) -> None:
    body = sorting(*shape, keys=keys)
    items, tiles = instructions(body, HOST)
    check_stage(items, Stage.LINEAR)
    assert not accesses.check(items, tiles, assumed(body, items)).unproved


@pytest.mark.parametrize("keys", [UINT32, FLOAT32, FLOAT64], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_keys_only_accesses_are_proved_in_bounds(shape: tuple[int, int], keys: DType) -> None:
    body = keys_only(*shape, dtype=keys)
    items, tiles = instructions(body, HOST)
    check_stage(items, Stage.LINEAR)
    assert not accesses.check(items, tiles, assumed(body, items)).unproved
