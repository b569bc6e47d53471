"""Microcontrollers by name: what is written for them, and what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfn
from tests.exporting.boards import BOARDS, needs_boards, on_board
from tests.exporting.building import same_bits
from tfn.errors import ArgumentError
from tfn.exporting.microcontrollers import MICROCONTROLLERS


@pytest.mark.parametrize("name", MICROCONTROLLERS)
def test_each_has_c_of_32_bit_indices(name: str, tmp_path: Path) -> None:
    """And what they have no instruction for is computed by others: no header of a library."""
    x = tfn.ShapeDtypeStruct((40, 30), "float32")
    tfn.export(lambda x: tfn.numpy.floor(x).sum(0), x, path=tmp_path / "made.c", target=name)
    text = (tmp_path / "made.c").read_text()
    assert "u64 i" not in text
    assert "u32 i" in text
    assert "math.h" not in text


def test_microcontrollers_get_c(tmp_path: Path) -> None:
    """An object is for those who know the compiler's options of the board."""
    x = tfn.ShapeDtypeStruct((4,), "int8")
    with pytest.raises(ArgumentError, match="microcontrollers get C"):
        tfn.export(lambda x: x, x, path=tmp_path / "made.o", target="cortex-m7")
    with pytest.raises(ArgumentError, match="there is no target 'cortex-m3'") as error:
        tfn.export(lambda x: x, x, path=tmp_path / "made.c", target="cortex-m3")
    assert "wasm32" in error.value.hint and "cortex-m33" in error.value.hint
    with pytest.raises(ArgumentError, match="optimize"):
        tfn.export(lambda x: x, x, path=tmp_path / "made.c", optimize="fast")


@needs_boards
@pytest.mark.parametrize("target", BOARDS)
def test_integers_divide_without_a_library(target: str, tmp_path: Path) -> None:
    """A Cortex-M0+ has no division, nor products of 64 bits; none has divisions of these."""
    rng = np.random.default_rng(0)
    rows = []
    wide = ("int64", "uint64") if target != "cortex-m0+" else ()
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", *wide):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = rng.integers(low, high, 20, dtype, endpoint=True)
        y = rng.integers(low, high, 20, dtype, endpoint=True) >> rng.integers(0, 7, 20, dtype)
        x[:4], y[:4] = [low, low, high, 7], [low, high, 1, 0]
        rows.append((x, y))

    def divided(rows: list[tuple[tfn.Array, tfn.Array]]) -> list[tuple[tfn.Array, ...]]:
        return [(x // y, x % y, x // 7) for x, y in rows]

    made = on_board(divided, rows, folder=tmp_path, target=target)
    for got, want in zip(made.outputs, tfn.tree.leaves(tfn.jit(divided)(rows)), strict=True):
        same_bits(got, want)
