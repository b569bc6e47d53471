"""Microcontrollers by name: what is written for them, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfn
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
    with pytest.raises(ArgumentError, match="optimize"):
        tfn.export(lambda x: x, x, path=tmp_path / "made.c", optimize="fast")
