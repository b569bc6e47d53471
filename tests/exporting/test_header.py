"""C headers: readable contracts, accepted by C and C++ compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.conftest import Golden
from tests.exporting.building import COMPILERS, WARNINGS
from tfn.exporting.signature import c_type
from tfn.hw.cpu.target import TARGETS


def function(params: dict[str, tfn.Array], x: tfn.Array) -> tuple[dict[str, tfn.Array], tfn.Array]:
    y = tnp.tanh(x @ params["w"]).sum(0)
    return {"w": params["w"] * 0.5, "b": params["b"] + y}, (x > 0).any(1)


def written(folder: Path) -> Path:
    params = {"w": np.ones((8, 3), np.float32), "b": np.ones(3, np.float32)}
    x = tfn.ShapeDtypeStruct((4, 8), "float32")
    made = tfn.export(function, params, x, path=folder / "model.c", target="x86-64-v3")
    return made.files[1]


def test_it_says_what_a_caller_must_know(golden: Golden, tmp_path: Path) -> None:
    golden("export/header.txt", written(tmp_path).read_text())


@pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
@pytest.mark.parametrize("language", ["c", "c++"])
def test_c_and_cpp_take_it(language: str, tmp_path: Path) -> None:
    header = written(tmp_path)
    text = f'#include "{header.name}"\nmodel_args args = MODEL_ARGS;\n'
    command = [COMPILERS[0], "-x", language, "-fsyntax-only", *WARNINGS, "-I", str(tmp_path), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if "cc1plus" in done.stderr:
        pytest.skip("there is no C++ compiler")
    assert not done.returncode, done.stderr


def test_files_of_one_stem_have_headers_of_their_own(tmp_path: Path) -> None:
    """The first has NAME.h, as it has alone; made again, each has the header that it had."""
    x = tfn.ShapeDtypeStruct((4,), "float32")
    names = ["f.so", "f.c", "f.wasm", "f.o"]
    for _ in range(2):
        made = [tfn.export(tnp.sin, x, path=tmp_path / name) for name in names]
        heads = [[file.name for file in one.files] for one in made]
        loader = ["f.js", "f.d.ts"]
        assert heads == [
            *(["f.so", "f.h"], ["f.c", "f.c.h"]),
            *(["f.wasm", "f.wasm.h", *loader], ["f.o", "f.o.h"]),
        ]
        for one in made:
            head = one.files[1].read_text()
            assert f"exported by tfn as {one.files[0].name}." in head.splitlines()[0]
            assert f"F_PROGRAM {one.signature.program:#010x}u" in head
    assert '#include "f.c.h"' in (tmp_path / "f.c").read_text()


def test_files_of_one_name_have_headers_of_their_own(tmp_path: Path) -> None:
    """And a header whose file is no longer there belongs to nobody."""
    x = tfn.ShapeDtypeStruct((4,), "float32")
    for name, head in (("one.c", "f.h"), ("two.c", "two.c.h")):
        made = tfn.export(tnp.sin, x, path=tmp_path / name, name="f")
        assert made.files[1].name == head
        assert f'#include "{head}"' in made.files[0].read_text()
    (tmp_path / "one.c").unlink()
    assert tfn.export(tnp.sin, x, path=tmp_path / "two.c", name="f").files[1].name == "f.h"


def test_types() -> None:
    kinds = ("bool", "int8", "uint64", "float32", "complex128", "bfloat16")
    found = [c_type(tnp.zeros(1, kind).dtype) for kind in kinds]
    assert found == ["uint8_t", "int8_t", "uint64_t", "float", "double", "uint16_t"]


def test_a_target_may_be_said_by_its_name(tmp_path: Path) -> None:
    one = tfn.export(tnp.sin, np.float32(1), path=tmp_path / "f.c", target=TARGETS["aarch64"])
    two = tfn.export(tnp.sin, np.float32(1), path=tmp_path / "f.c", target="aarch64")
    assert one == two and "aarch64-unknown-linux-gnu" in one.files[1].read_text()
