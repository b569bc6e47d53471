"""Radix sort pass: histograms, prefix sums, and positions of scattered words."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.lower.graphs import p
from tfn.dtypes import INT64, UINT64
from tfn.lower.codegen.builder import Builder
from tfn.lower.codegen.sort.plan import KEY_BITS
from tfn.lower.codegen.sort.radix import RADIX, UNROLL, Histograms
from tfn.trace import interpreter
from tfn.trace.uop import UOp, const

SIZE = 50
BEGIN, TABLES = 7, 3
TABLE_WORDS = TABLES * RADIX
BUFFER = p(0, TABLE_WORDS + 2 * SIZE + 1, dtype=UINT64)
RANDOM = np.random.default_rng(0)


def index(x: int) -> UOp:
    return const(x, INT64)


@pytest.mark.parametrize("unroll", [1, UNROLL])
@pytest.mark.parametrize("digit", range(TABLES))
def test_scatter_orders_words_by_a_digit(digit: int, unroll: int) -> None:
    """Words from `BEGIN` on; those before it stay."""
    code = Builder()
    histograms = Histograms(code, BUFFER, index(0), KEY_BITS)

    def read(i: UOp) -> UOp:
        return code.load(BUFFER, i + TABLE_WORDS)

    def write(word: UOp, at: UOp) -> None:
        code.store(BUFFER, at + (TABLE_WORDS + SIZE), word)

    histograms.count(index(BEGIN), index(SIZE), read, range(TABLES), unroll)
    code.store(BUFFER, index(TABLE_WORDS + 2 * SIZE), histograms.largest(range(TABLES)))
    histograms.prefix_sum(digit, index(BEGIN))
    histograms.scatter(index(BEGIN), index(SIZE), read, digit, write, unroll)

    keys = RANDOM.integers(0, 3, (SIZE, TABLES)) * 100
    words = keys @ (1 << KEY_BITS + 8 * np.arange(TABLES)) + np.arange(SIZE)
    memory = np.full(BUFFER.shape, 113, np.uint64)
    memory[TABLE_WORDS : TABLE_WORDS + SIZE] = words
    interpreter.instructions(tuple(code.scopes.root.items), 0, 1, [memory])

    order = BEGIN + np.argsort(keys[BEGIN:, digit], kind="stable")
    assert memory[TABLE_WORDS + SIZE : -1].tolist() == [113] * BEGIN + words[order].tolist()
    counts = [Counter(column) for column in keys[BEGIN:].T.tolist()]
    assert memory[-1] == max(max(count.values()) for count in counts)
    for i, table in enumerate(memory[:TABLE_WORDS].reshape(TABLES, RADIX)):
        if i == digit:  # positions have advanced to those of the next value
            assert table.tolist() == [
                BEGIN + sum(n for k, n in counts[i].items() if k <= value) for value in range(RADIX)
            ]
        else:
            assert table.tolist() == [counts[i][value] for value in range(RADIX)]
