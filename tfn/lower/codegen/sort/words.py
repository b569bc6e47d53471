"""Words, which the rows of a sort are made of: a key above, and a payload below.

A word is 64 bits: 32 of the key above, and below them a payload.  The payload is the one result
that is used, if it fits 32 bits, or else the number of the element, through which every result is
gathered at the end (argsort).  Wider keys, and several, are sorted by 32 bits at a time, the least
significant first:

    keys 3 1 2, results a b c  ->  words 3a 1b 2c  ->  1b 2c 3a  ->  b c a

Where the key is the only result, a word is a key and nothing else, of 32 or 64 bits.  The order of
floats that compare equal is restored at the end (`ties`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tfn._support.frozen import frozen
from tfn.dtypes import UINT64
from tfn.lower.codegen.sort.key_encoding import bit_width, sortable, total_order
from tfn.lower.codegen.sort.plan import KEY_BITS, SortPlan
from tfn.lower.codegen.sort.radix import DIGIT_BITS
from tfn.trace import build
from tfn.trace.uop import UOp, const

PAYLOAD_BITS = (1 << KEY_BITS) - 1
PAYLOAD_MASK = const(PAYLOAD_BITS, UINT64)
"""The lower half of a word."""


@frozen
class Chunk:
    """Bits of a key that words hold: `bits` from `low` on; whether they are sorted first, last."""

    key: UOp
    low: int
    bits: int
    first: bool
    last: bool

    @property
    def digits(self) -> range:
        """The digits of a word that are sorted by, numbered from the least significant."""
        return range(self.bits // DIGIT_BITS)


def chunks_of(keys: Sequence[UOp], keys_only: bool) -> list[Chunk]:
    """The chunks of all keys, the least significant first."""
    if keys_only:
        return [Chunk(keys[0], 0, bit_width(keys[0].dtype), first=True, last=True)]
    chunks = [
        (key, low, min(KEY_BITS, bit_width(key.dtype)))
        for key in reversed(keys)
        for low in range(0, bit_width(key.dtype), KEY_BITS)
    ]
    return [Chunk(*chunk, i == 0, i == len(chunks) - 1) for i, chunk in enumerate(chunks)]


def words_of(p: SortPlan, keys: UOp, numbers: UOp) -> UOp:
    """The words of elements, whose order is that of their keys, and then of their numbers."""
    if p.keys_only:
        return build.cast(total_order(keys), p.word)
    return (build.cast(sortable(keys), UINT64) << KEY_BITS) | build.cast(numbers, UINT64)
