"""One row: keys spread evenly, unevenly, or not at all, in caches and in buckets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from tests.covering import in_turn
from tests.lower.codegen.sort.test_sort import check, draw
from tests.lower.graphs import Value, p, run_compiled
from tfn.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, DType
from tfn.lower import pipeline
from tfn.lower.codegen.sort import row_sort, sort
from tfn.lower.codegen.sort.key_encoding import bit_width
from tfn.lower.codegen.sort.row_sort import MIN_ELEMENTS_FOR_BUCKETS
from tfn.trace import build

# Uneven keys, and rows in buckets.


@cache
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
    monkeypatch.setattr(row_sort, "MIN_ELEMENTS_FOR_BUCKETS", 64)
    monkeypatch.setattr(row_sort, "MIN_ELEMENTS_TO_SKIP_PASSES", 64)
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


@pytest.mark.parametrize("dtype", [INT32, FLOAT32, FLOAT64], ids=lambda d: d.name)
def test_every_distribution_in_uncached_rows(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the L2 cache were empty."""
    pipeline.forget()
    monkeypatch.setattr(pipeline, "_CACHES", [])
    monkeypatch.setattr(sort, "CACHED_L2_DIVISOR", 1 << 40)
    check_distributions((2, 1027), dtype)
    pipeline.forget()


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


@pytest.mark.parametrize("name", in_turn(2, NAMES))
def test_every_distribution_in_long_rows(name: str) -> None:
    n = MIN_ELEMENTS_FOR_BUCKETS + 1
    bits = distributions((n,))[name]
    _, order = build.sort([p(0, n, dtype=UINT32), build.iota((n,), 0)])
    (indices,) = run_compiled([order], [bits])
    assert np.array_equal(indices, np.argsort(bits, kind="stable"))
