"""Sort plan: by which algorithm the rows of a SORT are sorted, and how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tfn._support.frozen import frozen
from tfn.dtypes import UINT32, UINT64, DType
from tfn.lower.codegen.sort import network
from tfn.lower.codegen.sort.key_encoding import bit_width
from tfn.lower.codegen.sort.radix import DIGIT_BITS, RADIX
from tfn.trace.uop import UOp, const

KEY_BITS = 32
"""Bits of a key in one word, above the payload."""

MAX_INSERTION_ELEMENTS = 32
"""Rows of up to this length are sorted by insertion: clearing 256 counts would take longer."""

MAX_KEYS_ONLY_ELEMENTS = (1 << 32) - 1
"""Rows of up to this length may use words of 32 bits: positions are stored as words are."""

MAX_GROUPS = 64
"""Groups of rows that threads share: each has scratch for one row at a time."""

NS_PER_DIGIT = 110
NS_PER_DIGIT_OF_A_WORD = 1.05
NS_PER_INSERTION_STEP = 0.8
NS_PER_BLOCK = 200
NS_PER_COMPARISON = 0.8
NS_PER_UNCACHED_COMPARISON = 1.8
NS_PER_TURNED_KEY = 0.15
NS_PER_GATHERED_RESULT = 0.65
"""Measured with AVX-512.  Row by row: a histogram, a word moved by one digit, a step of insertion
whose branch is not predicted.  Of a block of a network: what it takes at least; the exchange of two
vectors, in the L1 cache or outside of it; a word turned from its row into its lane, and its result
gathered by its number."""

NS_PER_SORTED_VECTOR = 8
NS_PER_MERGED_VECTOR = 1.2
NS_PER_COMPARED_VECTOR = 0.2
"""Measured with AVX2, of 33 to 10,000 words of 32 and of 64 bits, in proportion to the time of a
digit: a vector that is sorted in its square; that is merged once, of words of 32 bits; that is
compared with another one.

1,000 int32 took 3.2 us by merges, 8.8 by digits, and NumPy 3.6; 10,000 took 46, 50 and 35."""

NOMINAL_VECTOR_BYTES = 32
"""The vectors of that measurement."""

MAX_CACHED_BLOCK_BYTES = 48 << 10
"""Blocks of a network up to this size stay in an L1 cache."""


@frozen
class SortPlan:
    """The algorithm for the rows of a SORT.

    Attributes:
        rows, size: how many rows, of how many elements.
        groups: of rows; each is one tile.
        digits: passes that a word takes at most; 0 for insertion.
        keys_only: whether a word is a key without a payload.
        word: the dtype of words, and of the scratch.
        lanes: rows that a network sorts side by side; 0 where each is sorted by itself.
        merges: whether a row is sorted by merges of vectors, where the target has such vectors.
    """

    rows: int
    size: int
    groups: int
    digits: int
    keys_only: bool
    word: DType
    lanes: int = 0
    merges: bool = False

    @property
    def low(self) -> int:
        """The bit of a word at which its key begins."""
        return 0 if self.keys_only else KEY_BITS

    @property
    def scratch_size(self) -> int:
        """Words of scratch for a group: tables, two copies of a row, each after a zero, a count."""
        if self.lanes:
            return self.lanes * self.size
        if not self.digits:
            return self.size
        return self.digits * RADIX + 2 * (1 + self.size) + 1


def sort_and_outputs(body: UOp) -> tuple[UOp, tuple[int, ...]]:
    """The SORT in the body of a kernel, and which of its results are used."""
    return body.src[0].src[0], tuple(u.arg for u in body.src)


def plan_of(body: UOp) -> SortPlan:
    """The algorithm for the kernel of TUPLE(GET(SORT(operands), i), ...)."""
    return plan(*sort_and_outputs(body))


def plan(node: UOp, outputs: Sequence[int]) -> SortPlan:
    """The algorithm for a SORT of which these results are used."""
    shape, keys = node.src[0].shape, node.src[: node.arg.keys]
    size, rows = shape[-1], prod(shape[:-1])
    widest = max(bit_width(key.dtype) for key in keys)
    side_by_side = _side_by_side(rows, size, widest, len(keys), tuple(outputs) == (0,))
    if side_by_side is not None:
        return side_by_side
    is_long = size > MAX_INSERTION_ELEMENTS
    keys_only = (
        len(keys) == 1 and tuple(outputs) == (0,) and is_long and size <= MAX_KEYS_ONLY_ELEMENTS
    )
    bits = widest if keys_only else min(KEY_BITS, widest)
    digits = bits // DIGIT_BITS if is_long else 0
    word = UINT32 if keys_only and widest <= KEY_BITS else UINT64
    one_word = len(keys) == 1 and (keys_only or widest <= KEY_BITS)
    merges = is_long and one_word and merges_ns(size, word) < _digits_ns(size, digits)
    return SortPlan(rows, size, min(rows, MAX_GROUPS), digits, keys_only, word, merges=merges)


def scratch(node: UOp, outputs: Sequence[int]) -> UOp:
    """The buffer that the kernel of a SORT needs beside its operands and results."""
    p = plan(node, outputs)
    return const(0, p.word, (p.groups * p.scratch_size,))


def _side_by_side(
    rows: int, size: int, key_bits: int, keys: int, keys_only: bool
) -> SortPlan | None:
    """The plan of a network, if a word holds what it needs and it takes less time than the rest."""
    if keys > 1 or (key_bits > KEY_BITS and not keys_only) or size < 2 or not rows:
        return None
    word = UINT32 if keys_only and key_bits <= KEY_BITS else UINT64
    lanes = network.lanes(word)
    blocks = -(-rows // lanes)
    if size <= MAX_INSERTION_ELEMENTS:
        row_ns = size * (1 + size / 4) * NS_PER_INSERTION_STEP
    else:
        digits = (key_bits if keys_only else min(key_bits, KEY_BITS)) // DIGIT_BITS
        row_ns = min(_digits_ns(size, digits), merges_ns(size, word))
    network_ns = blocks * block_ns(size, lanes, keys_only)
    if network_ns > rows * row_ns:
        return None
    return SortPlan(rows, size, min(blocks, MAX_GROUPS), 0, keys_only, word, lanes)


def _digits_ns(size: int, digits: int) -> float:
    """Estimated time of one row by its digits."""
    return digits * (NS_PER_DIGIT + size * NS_PER_DIGIT_OF_A_WORD)


def merges_ns(size: int, word: DType) -> float:
    """Estimated time of one row by merges of vectors."""
    lanes = NOMINAL_VECTOR_BYTES // word.itemsize
    squares = -(-size // lanes**2)
    levels = (squares - 1).bit_length()
    level_ns = NS_PER_MERGED_VECTOR * word.itemsize / 4 + levels * NS_PER_COMPARED_VECTOR
    return squares * lanes * (NS_PER_SORTED_VECTOR + levels * level_ns)


def block_ns(size: int, lanes: int, keys_only: bool) -> float:
    """Estimated time of the rows that a network sorts side by side."""
    cached = network.LANE_BYTES * size <= MAX_CACHED_BLOCK_BYTES
    comparison_ns = NS_PER_COMPARISON if cached else NS_PER_UNCACHED_COMPARISON
    word_ns = NS_PER_TURNED_KEY + (0 if keys_only else NS_PER_GATHERED_RESULT)
    return NS_PER_BLOCK + network.comparisons(size) * comparison_ns + lanes * size * word_ns
