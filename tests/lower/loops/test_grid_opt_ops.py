"""Opt-ops of grids: tiles in local memory, their rows, and what copies bring at once."""

from __future__ import annotations

import pytest

from tests.lower.graphs import matmul, p
from tests.lower.loops.test_opt_ops import keeps_the_meaning, only
from tfn.errors import SplitError
from tfn.lower.loops.grid_opt_ops import (
    StageTile,
    copied_elements,
    padded_size,
    row_axes,
    tile_axes,
    unit_dtype,
)
from tfn.lower.loops.opt_ops import Bind, Split
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def test_operands_are_staged_by_tiles() -> None:
    n = only(matmul(p(0, 8, 12), p(1, 12, 6)))
    rows, columns = n.loops
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    n = Split(rows.arg.number, 4, Place.LOCAL).apply(n)
    n = Split(columns.arg.number, 2, Place.LOCAL).apply(n)
    n = Split(fold.src[1].arg.number, 3, Place.LOOP).apply(n)
    at, inner = n.newest(2)
    with pytest.raises(SplitError, match="would not meet at its barriers"):
        StageTile(at.arg.number, 1).apply(n)
    for r in n.loops:
        if r.arg.place is Place.LOOP:
            n = Bind(r.arg.number, Place.GROUP).apply(n)
    after = StageTile(at.arg.number, 1).apply(n)
    (staged,) = (u for u in walk([after.body]) if u.op is Op.STAGED)
    assert [r.arg.size for r in staged.src[1:]] == [4, 3]
    keeps_the_meaning(n, after)
    refused = {
        "not a loop of a reduction": StageTile(n.loops[0].arg.number, 1),
        "cannot stage operand 0": StageTile(at.arg.number, 0),
        f"cannot split r{inner.arg.number}": Split(inner.arg.number, 3, Place.LOOP),
    }
    for words, opt in refused.items():
        with pytest.raises(SplitError, match=words):
            opt.apply(after)


def tile(columns: int, block: int, pad: int = 0) -> UOp:
    """The tile of the second operand of a product, `block` columns of it."""
    n = only(matmul(p(0, 8, 12), p(1, 12, columns)))
    rows, across = n.loops
    (fold,) = (u for u in walk([n.body]) if u.op is Op.FOLD)
    n = Split(rows.arg.number, 4, Place.LOCAL).apply(n)
    n = Split(across.arg.number, block, Place.LOCAL).apply(n)
    n = Split(fold.src[1].arg.number, 3, Place.LOOP).apply(n)
    at, _ = n.newest(2)
    for r in n.loops:
        if r.arg.place is Place.LOOP:
            n = Bind(r.arg.number, Place.GROUP).apply(n)
    staged = StageTile(at.arg.number, 2, pad).apply(n)
    (node,) = (u for u in walk([staged.body]) if u.op is Op.STAGED)
    return node


def test_a_tile_is_as_its_operand_lies_in_memory() -> None:
    node = tile(16, 8, pad=1)
    assert [r.arg.size for r in tile_axes(node)] == [3, 8]
    assert [r.arg.size for r in row_axes(tile_axes(node))] == [8]
    assert padded_size(node) == 3 * 9


@pytest.mark.parametrize(
    ("columns", "block", "pad", "count"),
    [
        (16, 8, 0, 4),  # 16 bytes
        (16, 8, 4, 4),
        (16, 8, 2, 2),  # rows begin at multiples of 8 bytes
        (16, 2, 0, 2),
        (18, 2, 0, 2),
        (15, 5, 0, 1),
        (16, 5, 0, 0),  # the last block has a bound
    ],
)
def test_copies_are_as_wide_as_all_places_allow(
    columns: int, block: int, pad: int, count: int
) -> None:
    assert copied_elements(tile(columns, block, pad)) == count


def test_only_narrow_factors_are_for_units() -> None:
    (fold,) = (u for u in walk([only(matmul(p(0, 8, 12), p(1, 12, 6))).body]) if u.op is Op.FOLD)
    assert unit_dtype(fold) == ""
