"""Bitonic merges: single rows, of every length and dtype, stable, on vectors of every width."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.covering import covering
from tests.lower.check_passes import GRID
from tests.lower.codegen.sort.test_sort import HOST, REAL, check, draw, keys_only, sorting
from tests.lower.graphs import p
from tfn.dtypes import FLOAT64, INT32, INT64, UINT32, UINT64, DType
from tfn.hw.cpu.target import named
from tfn.lower.codegen.sort import row_merges
from tfn.lower.codegen.sort.plan import plan_of, scratch
from tfn.lower.codegen.sort.sort import instructions
from tfn.lower.report.verify import accesses
from tfn.trace import build, interpreter
from tfn.trace.uop import UOp

SIZES = (33, 63, 64, 65, 100, 129, 193, 256, 257, 400)
"""Rows of one square of 64 words, of several, of parts of one."""


@covering(
    "dtype, n, kept",
    REAL,
    SIZES,
    ((0,), (1,), (1, 0)),
    pairs=[(1, 2)],
    ids=lambda value: getattr(value, "name", None),
)
def test_rows_of_every_length(dtype: DType, n: int, kept: tuple[int, ...]) -> None:
    """The keys, the order, or both."""
    outputs = build.sort([p(0, n, dtype=dtype), build.iota((n,), 0)])
    check([outputs[i] for i in kept], [draw((n,), dtype, n)])


@pytest.mark.parametrize("size", SIZES)
def test_values_of_equal_keys_keep_their_order(size: int) -> None:
    keys, values = p(0, 2, size, dtype=INT32), p(1, 2, size)
    random = np.random.default_rng(size)
    given = [draw((2, size), INT32), random.normal(size=(2, size)).astype(np.float32)]
    check([build.sort([keys, values])[1]], given)


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_network_of_columns_sorts_zeros_and_ones(n: int) -> None:
    """A network that sorts them sorts everything: the zero-one principle."""
    rows = np.array(list(product((0, 1), repeat=n)))
    for i, j in row_merges._merge_exchange(n):
        rows[:, [i, j]] = np.sort(rows[:, [i, j]])
    assert (np.diff(rows) >= 0).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("size", [40, 200])
def test_vectors_of_other_targets(vector_bytes: int, size: int) -> None:
    target = replace(HOST, vector_bytes=vector_bytes)
    x = np.random.default_rng(size).integers(-50, 50, size).astype(np.int32)
    for body, word, outputs in (
        (keys_only(1, size, dtype=INT32), UINT32, (0,)),
        (sorting(1, size, keys=INT32), UINT64, (0, 1)),
    ):
        assert plan_of(body).merges and plan_of(body).word == word
        assert row_merges.lanes(target, word) == vector_bytes // word.itemsize
        items, tiles = instructions(body, target)
        results = [np.zeros(size, np.int32) for _ in outputs]
        room = np.full(scratch(body.src[0].src[0], outputs).shape[0], 113, word)
        numbers = [np.arange(size, dtype=np.int32)] * (len(outputs) - 1)
        interpreter.instructions(items, 0, tiles, [*results, room, x, *numbers])
        assert np.array_equal(results[0], np.sort(x))
        assert len(outputs) == 1 or np.array_equal(results[1], np.argsort(x, kind="stable"))


@pytest.mark.parametrize(
    "target", [GRID, replace(HOST, scalars=frozenset({UINT32})), replace(HOST, vector_bytes=128)]
)
def test_targets_without_vectors_of_words_sort_by_digits(target: object) -> None:
    assert not row_merges.lanes(target, UINT32)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name, most, most_with_values",
    [("x86-64-v2", 400, 300), ("x86-64-v3", 800, 500), ("x86-64-v4", 1900, 1200)],
)
def test_code_does_not_grow_with_the_row(name: str, most: int, most_with_values: int) -> None:
    """It does with the vector: a square of n vectors is sorted by some n log(n)^2 exchanges."""

    def items(body: UOp) -> int:
        return len(instructions(body, named(name))[0])

    assert items(keys_only(1, 400)) == items(keys_only(1, 1000)) < most
    assert items(sorting(1, 100)) == items(sorting(1, 200)) < most_with_values


@pytest.mark.parametrize("size", [33, 100, 1000, 3333])
def test_accesses_are_proved_without_assumptions(size: int) -> None:
    body = keys_only(1, size)
    assert plan_of(body).merges
    outcome = accesses.check(*instructions(body, HOST))
    assert outcome.accesses == outcome.by_intervals > 20


def test_long_rows_and_several_words_are_sorted_by_digits() -> None:
    assert plan_of(keys_only(1, 4000)).merges and plan_of(keys_only(1, 500, dtype=FLOAT64)).merges
    bodies = keys_only(1, 50_000), sorting(1, 2000), sorting(1, 100, keys=INT64), sorting(1, 20)
    assert not any(plan_of(body).merges for body in bodies)
