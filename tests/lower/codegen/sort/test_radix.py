"""Digits: what their tables hold, and where words go."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.lower.graphs import p
from tfn.dtypes import INT64, UINT64
from tfn.lower.codegen.builder import Code
from tfn.lower.codegen.sort.radix import AT_ONCE, VALUES, Digits
from tfn.lower.codegen.sort.sort import WORD
from tfn.trace import interpreter
from tfn.trace.uop import UOp, const

SIZE = 50
BEGIN, TABLES = 7, 3
ROOM = TABLES * VALUES
BUFFER = p(0, ROOM + 2 * SIZE + 1, dtype=UINT64)
RANDOM = np.random.default_rng(0)


def index(x: int) -> UOp:
    return const(x, INT64)


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
@pytest.mark.parametrize("digit", range(TABLES))
def test_words_are_put_in_the_order_of_a_digit(digit: int, at_once: int) -> None:
    """Those from `BEGIN` on; the others stay."""
    code = Code()
    digits = Digits(code, BUFFER, index(0), WORD)

    def get(i: UOp) -> UOp:
        return code.load(BUFFER, i + ROOM)

    def put(word: UOp, at: UOp) -> None:
        code.store(BUFFER, at + (ROOM + SIZE), word)

    digits.count(index(BEGIN), index(SIZE), get, range(TABLES), at_once)
    code.store(BUFFER, index(ROOM + 2 * SIZE), digits.most(range(TABLES)))
    digits.positions(digit, index(BEGIN))
    digits.move(index(BEGIN), index(SIZE), get, digit, put, at_once)

    keys = RANDOM.integers(0, 3, (SIZE, TABLES)) * 100
    words = keys @ (1 << WORD + 8 * np.arange(TABLES)) + np.arange(SIZE)
    memory = np.full(BUFFER.shape, 113, np.uint64)
    memory[ROOM : ROOM + SIZE] = words
    interpreter.instructions(tuple(code.scopes.root.items), 0, 1, [memory])

    order = BEGIN + np.argsort(keys[BEGIN:, digit], kind="stable")
    assert memory[ROOM + SIZE : -1].tolist() == [113] * BEGIN + words[order].tolist()
    counts = [Counter(column) for column in keys[BEGIN:].T.tolist()]
    assert memory[-1] == max(max(count.values()) for count in counts)
    for i, table in enumerate(memory[:ROOM].reshape(TABLES, VALUES)):
        if i == digit:  # positions have gone on to where the next begins
            assert table.tolist() == [
                BEGIN + sum(n for k, n in counts[i].items() if k <= value)
                for value in range(VALUES)
            ]
        else:
            assert table.tolist() == [counts[i][value] for value in range(VALUES)]
