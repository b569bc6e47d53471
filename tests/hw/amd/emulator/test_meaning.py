"""Meanings of instructions, evaluated by the oracle and compared with Python's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfn.hw.amd.emulator import meaning as m
from tfn.trace import oracle
from tfn.trace.argument import Param
from tfn.trace.jaxpr import param

WORDS = np.array(
    [0, 1, 2, 3, 31, 32, 63, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xAAAAAAAA, 0x12345678, 1 << 16],
    np.uint32,
)


def evaluated(f: m.Meaning, *values: Any) -> list[Any]:
    """The values of a meaning."""
    operands = [param(Param(i, v.shape, v.dtype)) for i, v in enumerate(values)]
    found = f(*operands)
    several = [found] if not isinstance(found, tuple) else list(found)
    return oracle.evaluate(several, dict(zip(operands, values, strict=True)))


def pairs(values: Any) -> tuple[Any, Any]:
    """All pairs of values."""
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


# fmt: off
UNARY: dict[str, tuple[m.Meaning, Callable[[int], int]]] = {
    "ones": (m.ones, int.bit_count),
    "zeros": (m.zeros, lambda x: 32 - x.bit_count()),
    "reversed": (m.reversed_bits, lambda x: int(f"{x:032b}"[::-1], 2)),
    "leading": (m.leading_zeros, lambda x: 32 - x.bit_length() if x else -1),
    "trailing": (m.trailing_zeros, lambda x: (x & -x).bit_length() - 1),
}
MASK = 0xFFFFFFFF
BINARY: dict[str, tuple[m.Meaning, Callable[[int, int], int]]] = {
    "high product": (m.high_product, lambda a, b: a * b >> 32),
    "short product": (m.short_product, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) & MASK),
    "left": (m.left, lambda a, b: a << (b & 31) & MASK),
    "right": (m.right, lambda a, b: a >> (b & 31)),
    "field mask": (m.field_mask, lambda a, b: ((1 << (a & 31)) - 1) << (b & 31) & MASK),
    "distance": (m.distance, lambda a, b: abs(a - b)),
    "sum": (m.add_carry, lambda a, b: (a + b) & MASK),
    "field": (m.scalar_field,
              lambda a, b: (a >> (b & 31)) & ((1 << min(b >> 16 & 127, 32)) - 1)),
}
# fmt: on


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_a_word(name: str) -> None:
    f, expected = UNARY[name]
    got = evaluated(f, WORDS)[0]
    np.testing.assert_array_equal(got.astype(np.int64), [expected(int(x)) for x in WORDS])


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_words(name: str) -> None:
    f, expected = BINARY[name]
    a, b = pairs(WORDS)
    got = evaluated(f, a, b)[0]
    np.testing.assert_array_equal(got, [expected(int(x), int(y)) for x, y in zip(a, b)])


def test_carries_and_overflows() -> None:
    a, b = pairs(WORDS)
    wide = a.astype(np.int64), b.astype(np.int64)
    np.testing.assert_array_equal(evaluated(m.add_carry, a, b)[1], sum(wide) > MASK)
    np.testing.assert_array_equal(evaluated(m.subtract_borrow, a, b)[1], wide[0] < wide[1])
    signed = a.view(np.int32), b.view(np.int32)
    for f, total in ((m.add_overflow, np.add), (m.subtract_overflow, np.subtract)):
        exact = total(*(x.astype(np.int64) for x in signed))
        np.testing.assert_array_equal(evaluated(f, *signed)[1], exact != exact.astype(np.int32))


def test_bytes_are_permuted() -> None:
    high, low = (np.full(16, x, np.uint32) for x in (0x87654321, 0x8F0E0D0C))
    selector = np.arange(16, dtype=np.uint32)
    got = evaluated(m.permuted, high, low, selector)[0] & 0xFF
    taken = [0x0C, 0x0D, 0x0E, 0x8F, 0x21, 0x43, 0x65, 0x87]
    signs = [0, 0xFF, 0, 0xFF]  # of bytes 1, 3, 5 and 7
    np.testing.assert_array_equal(got, [*taken, *signs, 0, 0xFF, 0xFF, 0xFF])
