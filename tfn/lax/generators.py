"""Generators: random bits, and the words of new keys, as graphs over the words of a key.

A key is the state of one of two generators, which is known by the number of its words:

    threefry2x32   2 words   bits are hashes of the elements' indices; so are new keys
    rbg            4 words   bits are Philox's from a counter; new keys are Threefry's, of each half

Both are functions of words and indices alone, so that numbers depend on no order of execution.

Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".  The use of
the words is JAX's: of its "partitionable" mode for Threefry, and of XLA's generator of bits on CPUs
and GPUs for Philox, so that keys and bits agree with them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tfn.dtypes import UINT32, UINT64, DType
from tfn.trace import build
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

SHIFT = 32
LARGEST_WORD = (1 << SHIFT) - 1

WORDS = {"threefry2x32": 2, "rbg": 4}
"""Generators, and the number of words of their keys."""

PHILOX_ROUNDS = 10
PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


def unsigned(width: int) -> DType:
    """The unsigned integer dtype of `width` bits."""
    return np.dtype(f"uint{width}")


def random_bits(words: UOp, shape: Shape, width: int) -> UOp:
    """Unsigned integers of `width` bits, every value equally likely."""
    if words.shape == (WORDS["rbg"],):
        return philox_bits(words, shape, width)
    first, second = hash_pair(words, *counters(shape))
    if width == 64:
        return wide(first, second)
    return build.cast(first ^ second, unsigned(width))


def split_words(words: UOp, shape: Shape) -> UOp:
    """The words of independent keys."""
    return _of_halves(words, lambda half: join(*hash_pair(half, *counters(shape))))


def independent_words(words: UOp, count: int = 2) -> list[UOp]:
    """The words of `count` independent keys, each of the shape of the key's."""
    keys = split_words(words, (count,))
    size = words.shape[0]
    return [build.reshape(build.shrink(keys, (i, 0), (i + 1, size)), (size,)) for i in range(count)]


def fold_words(words: UOp, number: UOp) -> UOp:
    """The words of a key that depends on a number, of which 32 bits are used."""
    pair = seed_pair(build.cast(number, UINT32))
    return _of_halves(words, lambda half: join(*hash_pair(half, *pair)))


def seed_words(seed: UOp, count: int) -> UOp:
    """The `count` words of a key made from a seed."""
    pair = join(*seed_pair(seed))
    return pair if count == pair.shape[0] else build.concat([pair, pair], 0)


def seed_pair(seed: UOp) -> tuple[UOp, UOp]:
    """The high and the low word of an integer; the high word of a 32-bit one is zero."""
    if seed.dtype.itemsize < 8:
        return build.zeros(seed.shape, UINT32), build.cast(seed, UINT32)
    return halves_of(build.cast(seed, UINT64))


def _of_halves(words: UOp, threefry: Callable[[UOp], UOp]) -> UOp:
    """New words of Threefry's, of each pair of words by itself."""
    if words.shape == (2,):
        return threefry(words)
    parts = [threefry(build.shrink(words, (i,), (i + 2,))) for i in (0, 2)]
    return build.concat(parts, parts[0].ndim - 1)


# Words and counters.


def word(words: UOp, i: int) -> UOp:
    """One of the words, a scalar."""
    return build.reshape(build.shrink(words, (i,), (i + 1,)), ())


def join(first: UOp, second: UOp) -> UOp:
    """Two words as the last axis of a key."""
    last = (*first.shape, 1)
    return build.concat([build.reshape(first, last), build.reshape(second, last)], first.ndim)


def halves_of(wide: UOp) -> tuple[UOp, UOp]:
    """The high and the low word of integers of 64 bits."""
    return build.cast(wide >> SHIFT, UINT32), build.cast(wide, UINT32)


def wide(high: UOp, low: UOp) -> UOp:
    """Integers of 64 bits, from their words."""
    return (build.cast(high, UINT64) << SHIFT) | build.cast(low, UINT64)


def counters(shape: Shape) -> tuple[UOp, UOp]:
    """The index of each element in row-major order, as two 32-bit words."""
    size = prod(shape)
    if size <= LARGEST_WORD:
        low = build.reshape(build.iota((size,), 0, UINT32), shape)
        return build.zeros(shape, UINT32), low
    return halves_of(build.reshape(build.iota((size,), 0, UINT64), shape))


# The two functions of Salmon and others.


def hash_pair(words: UOp, high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """Threefry: two random words for each counter, from a key of shape (2,)."""
    operands = (
        build.broadcast_to(word(words, 0), low.shape),
        build.broadcast_to(word(words, 1), low.shape),
        high,
        low,
    )
    return UOp(Op.THREEFRY, operands, 0), UOp(Op.THREEFRY, operands, 1)


def philox(key: tuple[UOp, UOp], counter: tuple[UOp, UOp, UOp, UOp]) -> tuple[UOp, ...]:
    """Philox4x32: four random words for each counter of four, the lowest first."""
    (k0, k1), (x0, x1, x2, x3) = key, counter
    for _ in range(PHILOX_ROUNDS):
        (high0, low0), (high2, low2) = (
            halves_of(build.cast(x, UINT64) * factor)
            for x, factor in zip((x0, x2), PHILOX_FACTORS, strict=True)
        )
        x0, x1, x2, x3 = high2 ^ x1 ^ k0, low2, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + PHILOX_STEPS[0], k1 + PHILOX_STEPS[1]
    return x0, x1, x2, x3


def pair_of(words: UOp, i: int) -> UOp:
    """Two words as a scalar of 64 bits, the lower half first."""
    return wide(word(words, i + 1), word(words, i))


def philox_bits(state: UOp, shape: Shape, width: int) -> UOp:
    """Unsigned integers from a state of four words: a key of two, and where to begin to count.

    The key is the upper half of the counter too, to which the lower one carries.  The four words of
    a block follow one another, or its two integers of 64 bits; of narrower ones each word gives
    one.
    """
    size = prod(shape)
    blocks = philox_blocks(size, width)
    start, key = (build.broadcast_to(pair_of(state, i), (blocks,)) for i in (2, 0))
    counter = start + build.iota((blocks,), 0, UINT64)
    high, low = halves_of(counter)
    k1, k0 = halves_of(key)
    upper_high, upper_low = halves_of(key + build.cast(counter < start, UINT64))
    x = philox((k0, k1), (low, high, upper_low, upper_high))
    lanes = (wide(x[1], x[0]), wide(x[3], x[2])) if width == 64 else x
    rows = build.concat([build.reshape(lane, (blocks, 1)) for lane in lanes], 1)
    drawn = build.shrink(build.reshape(rows, (blocks * len(lanes),)), (0,), (size,))
    return build.reshape(build.cast(drawn, unsigned(width)), shape)


def philox_blocks(size: int, width: int) -> int:
    """The number of blocks of four words that so many integers take."""
    return -(-size * max(width, 32) // 128)
