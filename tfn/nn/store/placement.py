"""Places of blocks: rendezvous hashing, which every host computes by itself.

A place's score for a block is a hash of both; the places with the highest scores have its copies.
A place that goes leaves the order of the others as it was, so that only its own blocks move; one
that comes takes from each of the others its share.

Source: Thaler and Ravishankar 1998, "Using Name-Based Mappings to Increase Hit Rates".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Multipliers of the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""

U64 = np.ndarray[Any, np.dtype[np.uint64]]


def ranking(digest: str, places: Sequence[str]) -> list[int]:
    """The numbers of places, by their scores for a block, the highest first.

    Args:
        digest: of the block, in hexadecimal digits.
        places: their ids, 16 hexadecimal digits each.

    Example:
        >>> ranking("ab" * 32, ["00" * 8, "11" * 8, "22" * 8])
        [0, 1, 2]
        >>> ranking("ab" * 32, ["11" * 8, "22" * 8])
        [0, 1]
    """
    ids = np.array([int(place, 16) for place in places], np.uint64)
    order: list[int] = np.argsort(
        ~scores(np.uint64(int(digest[:16], 16)), ids), kind="stable"
    ).tolist()
    return order


def scores(blocks: Any, places: Any) -> U64:
    """The scores of places for blocks: the first 64 bits of digests and ids, broadcast.

    Example:
        >>> scores(np.zeros((4, 1), np.uint64), np.arange(3, dtype=np.uint64)).shape
        (4, 3)
    """
    x = np.bitwise_xor(_mixed(np.asarray(blocks, np.uint64)), np.asarray(places, np.uint64))
    return _mixed(_mixed(x))


def _mixed(x: Any) -> U64:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(MIX[0])
        x = (x ^ (x >> np.uint64(27))) * np.uint64(MIX[1])
    mixed: U64 = x ^ (x >> np.uint64(31))
    return mixed
