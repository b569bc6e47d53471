"""Products of matrices on grids: tiles, if the sizes allow them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.check_passes import GRID
from tests.lower.graphs import matmul, p
from tests.lower.loops.test_grid_heuristics import choose, reduced, sizes, staged
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.uop import UOp


def test_contractions_get_tiles_in_local_memory() -> None:
    n = choose(matmul(p(0, 100, 64), p(1, 64, 200)))
    assert staged(n) == 2
    assert sizes(n, Place.GROUP) == [2, 4]
    assert sizes(n, Place.UPCAST) == [4, 4] and sizes(n, Place.LOCAL) == [16, 16]
    assert reduced(n) == [[(Place.LOOP, 4), (Place.LOOP, 16)]]


@pytest.mark.parametrize(
    "output",
    [
        matmul(p(0, 100, 61), p(1, 61, 200)),  # no tile divides the sum
        matmul(p(0, 100, 64), p(1, 64, 3)),  # a tile would be mostly empty
        build.dot(p(0, 64), p(1, 64, 200), ((0,), (0,))),  # no load is used twice
    ],
    ids=["prime", "narrow", "vector"],
)
def test_other_contractions_do_without(output: UOp) -> None:
    assert staged(choose(output)) == 0


def test_tiles_fit_the_local_memory() -> None:
    assert GRID.grid is not None
    small = replace(GRID, grid=replace(GRID.grid, local_bytes=4096))
    product = matmul(p(0, 100, 64), p(1, 64, 200))
    assert staged(choose(product)) == 2 and staged(choose(product, small)) == 0
