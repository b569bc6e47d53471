"""Permutations that are computed: each number once, in no order that shows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from tests.covering import together
from tfn import random
from tfn.errors import ArgumentError
from tfn.nn.permutation import ROUNDS, Permutation

KEY = random.key(3)


@together("size", [*range(1, 70), 127, 128, 129, 1000, 65537])
def test_each_number_is_there_once(size: int) -> None:
    numbers = Permutation(size, KEY)[:]
    assert numbers.dtype == np.int64
    np.testing.assert_array_equal(np.sort(numbers), np.arange(size))


def test_a_part_is_that_of_the_whole() -> None:
    permutation = Permutation(1009, KEY)
    whole = permutation[:]
    for part in (slice(0, 7), slice(1000, 2000), slice(5, 5), slice(3, 900, 7)):
        np.testing.assert_array_equal(permutation[part], whole[part])


def test_of_more_rows_than_memory_holds() -> None:
    size = 2**62 - 57
    permutation = Permutation(size, KEY)
    first, last = permutation[:1000], permutation[size - 1000 :]
    numbers = np.concatenate([first, last])
    assert len(set(numbers.tolist())) == 2000
    assert numbers.min() >= 0 and numbers.max() < size
    assert abs(np.mean(numbers / size) - 0.5) < 0.03


def test_the_key_determines_the_order() -> None:
    one, again, other = (Permutation(100, k)[:] for k in (KEY, KEY, random.key(4)))
    np.testing.assert_array_equal(one, again)
    assert (one != other).sum() > 80


@pytest.mark.parametrize("size", [2, 3, 5, 8, 17, 40])
def test_pairs_of_rows_come_to_all_pairs_of_positions_equally_often(size: int) -> None:
    """A chi-square test, over 3,000 keys, of the first row with others."""
    keys = 3000
    permutation = Permutation(size, KEY)
    words = np.random.default_rng(1).integers(0, 2**64, (keys, ROUNDS), np.uint64)
    permutation._keys = words.T[:, :, None]  # of all permutations at once
    drawn = permutation._encrypted(np.tile(np.arange(size, dtype=np.uint64), (keys, 1)))
    while (outside := drawn >= size).any():
        drawn = np.where(outside, permutation._encrypted(drawn), drawn)
    drawn = drawn.astype(np.int64)
    permutation._keys = words[7]
    np.testing.assert_array_equal(drawn[7], permutation[:])
    expected = keys / (size * (size - 1))
    for other in {1, size // 2, size - 1}:
        counts = np.bincount(drawn[:, 0] * size + drawn[:, other], minlength=size**2)
        apart = ~np.eye(size, dtype=bool).reshape(-1)
        assert not counts[~apart].any()
        statistic = ((counts[apart] - expected) ** 2 / expected).sum()
        assert chi2.sf(statistic, size * (size - 1) - 1) > 1e-3


def test_sizes_that_are_none() -> None:
    for size in (0, -1, 1.5):
        with pytest.raises(ArgumentError):
            Permutation(size, KEY)  # type: ignore[arg-type]
