"""Banks of local memory: how many words of one bank the threads of a warp ask for at once.

A word of 4 bytes lies in bank ``word % 32``.  A warp gets a word of each bank at a time; threads
that ask for one word share it, for two words of a bank the warp waits twice::

    word = thread          32 banks       1      word = 32 * thread     one bank       32
    word = 2 * thread      16 banks       2      word = 33 * thread     32 banks        1

A constant added to all words turns the banks and changes nothing: so a fragment whose addresses
are affine has the same degree at all of its places, and one of them proves it.
"""

from __future__ import annotations

from collections.abc import Iterable

BANKS = 32
WORD_BYTES = 4


def degree(words: Iterable[int]) -> int:
    """The times that a warp waits for words of local memory.

    Example:
        >>> degree(range(32)), degree(2 * i for i in range(32)), degree(33 * i for i in range(32))
        (1, 2, 1)
    """
    counts = [0] * BANKS
    for word in set(words):
        counts[word % BANKS] += 1
    return max(counts)
