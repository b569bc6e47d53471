"""C source: constants, includes, manifest."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.dtypes import BFLOAT16
from tfn.exporting.source import MANIFEST_LINE_CHARACTERS, constant


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int32", "float64", "complex128"])
def test_constants_keep_their_bits(dtype: str) -> None:
    x = np.array([1, 0, 2, 100], dtype)
    text = constant("name", x.tobytes(), x.dtype)
    width = min(x.dtype.itemsize, 8)
    assert text.startswith(f"static const u{8 * width} name[{x.nbytes // width}] = ")
    words = [int(word, 16) for word in re.findall(r"0x[0-9a-f]+", text)]
    assert np.array(words, f"u{width}").tobytes() == x.tobytes()
    assert "name[1]" in constant("name", b"", BFLOAT16)  # C has no arrays of nothing


@pytest.mark.parametrize(("count", "rows"), [(1, [1]), (12, [12]), (13, [12, 1]), (24, [12, 12])])
def test_constants_are_rows_of_twelve(count: int, rows: list[int]) -> None:
    lines = constant("name", bytes(2 * count), BFLOAT16).splitlines()[1:-1]
    assert [line.count("0x0000") for line in lines] == rows
    assert [line.endswith(",") for line in lines] == [True] * (len(rows) - 1) + [False]


def test_it_stands_alone(tmp_path: Path) -> None:
    """Nothing is included but types, intrinsics, and mathematics for processors without them."""
    x = np.ones((40, 40), np.float32)
    made = tfn.export(lambda x: tnp.exp(x @ x), x, path=tmp_path / "f.c", target="x86-64-v4")
    text = made.files[0].read_text()
    included = re.findall(r"#include (.*)", text)
    assert included == ['"f.h"', "<stdint.h>", "<immintrin.h>", "<math.h>"]
    assert max(map(len, re.findall(r'^  "(.*)"', text, re.MULTILINE))) <= MANIFEST_LINE_CHARACTERS
    assert not re.search(r"\b(malloc|memcpy|printf)\(", text.replace("__builtin_memcpy", ""))
