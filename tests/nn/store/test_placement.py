"""Rendezvous hashing: even shares, and no more moves than there must be."""

from __future__ import annotations

import numpy as np

from tfn.nn.store.placement import ranking, scores

RNG = np.random.default_rng(0)
BLOCKS = RNG.integers(0, 1 << 64, 40_000, dtype=np.uint64)
PLACES = RNG.integers(0, 1 << 64, 10, dtype=np.uint64)


def homes(places: np.ndarray) -> np.ndarray:
    return places[scores(BLOCKS[:, None], places).argmax(1)]


def test_shares_are_even() -> None:
    counts = np.unique(homes(PLACES), return_counts=True)[1]
    assert len(counts) == 10
    assert abs(counts / counts.mean() - 1).max() < 0.05


def test_a_place_that_goes_moves_its_own_blocks_alone() -> None:
    before, after = homes(PLACES), homes(PLACES[1:])
    np.testing.assert_array_equal(before != after, before == PLACES[0])


def test_a_place_that_comes_takes_its_share() -> None:
    before, after = homes(PLACES[1:]), homes(PLACES)
    moved = before != after
    assert (after[moved] == PLACES[0]).all()
    assert abs(moved.mean() * 10 - 1) < 0.05


def test_rankings_are_those_of_the_scores() -> None:
    for block in BLOCKS[:20]:
        digest = f"{block:016x}" + "0" * 48
        expected = np.argsort(~scores(block, PLACES), kind="stable")
        assert ranking(digest, [f"{place:016x}" for place in PLACES]) == expected.tolist()
