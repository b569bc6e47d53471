"""Loaded libraries: results, and files that are refused before they run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.exporting.building import COMPILERS, WARNINGS, same_bits
from tfn.errors import ArgumentError, DTypeError, ExportError, ShapeError
from tfn.exporting import load
from tfn.exporting.signature import DIGEST, MAGIC
from tfn.hw.compile.link import linker
from tfn.hw.cpu.target import host

pytestmark = pytest.mark.skipif(linker(host()) is None, reason="there is no linker")

X = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((30, 20)).astype(np.float32)


def layer(x: Any, w: Any) -> Any:
    y = tnp.tanh(x @ w)
    return y, y.astype("float16").sum(0)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    return tfn.export(layer, X, W, path=folder / "layer.so").files[0]


def test_a_library_computes_what_jit_does(library: Path) -> None:
    loaded = tfn.load(library)
    assert [field.name for field in loaded.signature.inputs] == ["x", "w"]
    for got, want in zip(loaded(X, W), tfn.jit(layer)(X, W), strict=True):
        same_bits(got, want)
    for got, want in zip(loaded(w=W, x=X), loaded(X, w=W), strict=True):
        same_bits(got, want)


def test_threads_do_not_share_an_arena(library: Path) -> None:
    loaded = tfn.load(library)
    want = loaded(X, W)[0]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if (loaded(X, W)[0] != want).any():
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_needs_neither_tfn_nor_a_compiler(library: Path) -> None:
    """Another process, which knows of it only what the header says."""
    code = f"""
import ctypes, struct, sys
from array import array
library = ctypes.CDLL({str(library)!r})
assert 'tfn' not in sys.modules
assert library.layer(None, None) == 2
"""
    subprocess.run([sys.executable, "-S", "-c", code], check=True)


def test_c_that_is_built_by_others_can_be_loaded(tmp_path: Path) -> None:
    if not COMPILERS:
        pytest.skip("there is no C compiler")
    tfn.export(layer, X, W, path=tmp_path / "layer.c")
    command = [
        COMPILERS[0],
        "-O1",
        "-ffp-contract=off",
        *WARNINGS,
        "-shared",
        "-fPIC",
        "-nostdlib",
        "layer.c",
        "-o",
        "layer.so",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    for got, want in zip(tfn.load(tmp_path / "layer.so")(X, W), tfn.jit(layer)(X, W), strict=True):
        same_bits(got, want)


class TestRefused:
    def test_arguments_of_another_kind(self, library: Path) -> None:
        loaded = tfn.load(library)
        with pytest.raises(ShapeError, match=r"w must have the shape \(30, 20\)"):
            loaded(X, W.T)
        with pytest.raises(DTypeError, match="x must be of float32"):
            loaded(X.astype(np.float64), W)
        with pytest.raises(ArgumentError, match="takes 2 arrays: x, w"):
            loaded(X)
        with pytest.raises(ArgumentError, match="1 by position, and y by name"):
            loaded(X, y=W)

    def test_too_small_an_arena(self, library: Path) -> None:
        loaded = tfn.load(library)
        assert loaded.signature.arena_bytes > 0
        with pytest.raises(ArgumentError, match="the arena is too small"):
            loaded(X, W, arena=np.empty(loaded.signature.arena_bytes // 2, np.uint8))
        room = np.empty(loaded.signature.arena_bytes + 64, np.uint8)
        same_bits(loaded(X, W, arena=room)[0], loaded(X, W)[0])

    @pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.7, 0.99])
    def test_files_that_are_cut_short(self, library: Path, part: float, tmp_path: Path) -> None:
        """To load such a file would end the process, so nothing may be loaded."""
        data = library.read_bytes()
        short = tmp_path / "short.so"
        short.write_bytes(data[: int(len(data) * part)])
        with pytest.raises(ExportError, match=r"is cut short|is not a library|is damaged"):
            tfn.load(short)

    def test_bytes_that_were_changed(self, library: Path, tmp_path: Path) -> None:
        """Some of them are headers that the system believes, others are code."""
        data = library.read_bytes()
        end = len(data) - len(DIGEST) - 32
        assert data[end:].startswith(DIGEST)
        wrong = tmp_path / "wrong.so"
        wrong.write_bytes(data)
        with open(wrong, "r+b", buffering=0) as file:
            for at in [*range(64), *range(64, end, 61), *range(end + len(DIGEST), len(data))]:
                os.pwrite(file.fileno(), bytes([data[at] ^ 0x10]), at)
                with pytest.raises(ExportError):
                    tfn.load(wrong)
                os.pwrite(file.fileno(), data[at : at + 1], at)
        same_bits(tfn.load(wrong)(X, W)[0], tfn.load(library)(X, W)[0])
        wrong.write_bytes(data[:-1])
        with pytest.raises(ExportError, match="is damaged"):
            tfn.load(wrong)

    def test_headers_that_lie(self, library: Path) -> None:
        data = library.read_bytes()[: -len(DIGEST) - 32]  # as if others had linked it
        for at in range(64):
            for value in (0, 1, 0x7F, 0xFF):
                with contextlib.suppress(ExportError):
                    load._whole(data[:at] + bytes([value]) + data[at + 1 :], "a.so")

    def test_other_versions(self, library: Path, tmp_path: Path) -> None:
        data = library.read_bytes()
        at = data.index(MAGIC) + len(MAGIC)
        size, digest, _ = data[at : at + 100].split(b":", 2)
        start = at + len(size) + len(digest) + 2
        text = data[start : start + int(size)]
        other = text.replace(b'"abi":1', b'"abi":9')
        assert json.loads(other)["abi"] == 9
        head = size + b":" + hashlib.sha256(other).hexdigest().encode() + b":"
        (tmp_path / "other.so").write_bytes(data[:at] + head + other + data[start + int(size) :])
        with pytest.raises(ExportError, match="another version of tfn"):
            tfn.load(tmp_path / "other.so")
        (tmp_path / "changed.so").write_bytes(data.replace(b'"name":"x"', b'"name":"z"'))
        with pytest.raises(ExportError, match="is damaged"):
            tfn.load(tmp_path / "changed.so")

    def test_files_that_are_no_libraries(self, tmp_path: Path) -> None:
        (tmp_path / "no.so").write_bytes(b"\x7fELF but not really")
        for name in ("no.so", "missing.so"):
            with pytest.raises(ExportError, match=name):
                tfn.load(tmp_path / name)


RECORD = {
    "abi": 1,
    "name": "f",
    "program": 5,
    "arena_bytes": 64,
    "arena_alignment": 64,
    "threads": 1,
    "target": ["x", "y", "z"],
    "constants": [],
    "outputs": [],
    "inputs": [{"name": "x", "path": "x", "shape": [2], "dtype": "float32", "same": ""}],
}


def written(record: Any) -> bytes:
    """A manifest with a right digest."""
    text = json.dumps(record).encode()
    return MAGIC + b"%d:" % len(text) + hashlib.sha256(text).hexdigest().encode() + b":" + text


def test_a_manifest_with_any_other_field_is_refused() -> None:
    assert load.manifest(written(RECORD), "a.so").inputs[0].shape == (2,)
    field: Any = RECORD["inputs"][0]  # type: ignore[index]
    strange: list[Any] = [None, True, -1, 1.5, "a b", "", [], {}, [None], [-1], ["q", 1, {}]]
    records = [*strange]
    for key in RECORD.keys() - {"program", "arena_alignment"}:
        records += [{k: v for k, v in RECORD.items() if k != key}]
        records += [{**RECORD, key: value} for value in strange]
    for key in field:
        records += [{**RECORD, "inputs": [{k: v for k, v in field.items() if k != key}]}]
        records += [{**RECORD, "inputs": [{**field, key: value}]} for value in strange]
    refused = 0
    for record in records:
        try:
            found = load.manifest(written(record), "a.so")
        except ExportError:
            refused += 1
        else:
            assert found.manifest
    assert refused > 100
    for data in (MAGIC, MAGIC + b"9" * 9000 + b":", MAGIC + b"x:y", MAGIC + b"5:" + b"0" * 99):
        with pytest.raises(ExportError, match="is damaged"):
            load.manifest(data, "a.so")
