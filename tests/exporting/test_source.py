"""C source: constants, includes, manifest."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.exporting.building import WARNINGS
from tests.exporting.test_carry import CASES
from tests.exporting.test_export import SOURCES
from tests.exporting.test_figures import CALLS
from tests.exporting.test_microcontrollers import LAYERS, all_layers
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


def exported(name: str, path: Path) -> None:
    """Export a program that the tests of this folder run, with options as they take them."""
    kind, _, row = name.partition(" ")
    if kind == "drawn":
        source, arrays = SOURCES[int(row)]
        names: dict[str, Any] = {"xp": tnp}
        exec(source, names)
        tfn.export(names["f"], *arrays, path=path)
    elif kind == "steps":
        function, state, draw = CASES[row]
        tfn.export(function, state, draw(), path=path, carry=0, optimize="size")
    elif kind == "layers":
        function, inputs = all_layers(int(row))
        tfn.export(function, *inputs, path=path, optimize="size")
    elif kind == "inputs":  # a manifest of more bytes than a string of C99 has
        tfn.export(lambda *xs: tnp.stack(xs), *[np.ones(3, np.float32)] * int(row), path=path)
    else:
        function, args, embed = CALLS[int(row)]
        tfn.export(function, *args, path=path, embed=embed, optimize="size")


PROGRAMS = [
    *(f"drawn {i}" for i in range(len(SOURCES))),
    *(f"steps {case}" for case in CASES),
    *(f"layers {bits}" for bits in LAYERS),
    *(f"call {i}" for i in range(len(CALLS))),
    "inputs 60",
]


@pytest.mark.skipif(not shutil.which("g++"), reason="GCC, with C and C++, is not installed")
@pytest.mark.parametrize("name", in_turn(3, PROGRAMS))
def test_programs_are_pedantic_c99_that_links_without_a_library(name: str, tmp_path: Path) -> None:
    """C++ takes the header; undefined symbols of a shared library are errors."""
    exported(name, tmp_path / "made.c")
    link = ["-O1", "-ffreestanding", "-nostdlib", "-shared", "-fPIC", "-Wl,--no-undefined"]
    c = ["gcc", "-std=c99", "-pedantic", *WARNINGS, *link, "made.c", "-o", "made.so"]
    cpp = ["g++", "-pedantic", *WARNINGS, "-fsyntax-only", "-x", "c++", "made.h"]
    for command in (c, cpp):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr[:3000]
