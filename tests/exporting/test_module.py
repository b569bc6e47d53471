"""Objects, libraries and WebAssembly: equal results on many processors."""

from __future__ import annotations

import ctypes
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import cover, in_turn
from tests.exporting.building import emulated, same_bits
from tests.hw import op_table
from tests.transforms.cases import run
from tfn import lax
from tfn.hw.compile.link import linker, lld
from tfn.hw.cpu.target import TARGETS, host
from tfn.trace import bind
from tfn.trace.op import Op

X = np.random.default_rng(0).standard_normal((7, 19)).astype(np.float32)
ON = [
    name for name in ("host", "x86-64", "x86-64-v3") if name == "host" or "x86_64" in host().triple
]


def much(x: Any, n: Any) -> Any:
    """Rounding, exponentials, halves, a sort, a loop, a branch, results of all kinds."""
    y = tnp.floor(x * 3) + tnp.exp(x) + tnp.round(x * 5)
    half = (x.astype("float16") * 3).astype("float32")
    state, rows = lax.scan(lambda h, row: (h + row @ row, row.max()), n * 1.0, x)
    z = lax.cond(n > 2, lambda x: tnp.sort(x, axis=0), lambda x: -x, x)
    return {
        "y": y,
        "half": half,
        "state": state,
        "rows": rows,
        "z": z,
        "x": x,
        "order": tnp.argsort(x[0]),
        "whole": (x * 300).astype("int8"),
        "same": y,
    }


def close(got: Any, want: Any) -> None:
    """Targets may sum in other orders."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.skipif(linker(host()) is None, reason="there is no linker")
@pytest.mark.parametrize("target", ON)
def test_libraries_for_this_family_of_processors(target: str, tmp_path: Path) -> None:
    n = np.int32(3)
    made = tfn.export(much, X, n, path=tmp_path / "much.so", target=target)
    want = tfn.tree.leaves(tfn.jit(much)(X, n))
    for got, wanted in zip(tfn.load(made.files[0])(X, n), want, strict=True):
        (same_bits if target == "host" else close)(got, wanted)


@pytest.mark.parametrize("target", in_turn(2, TARGETS))
def test_objects_for_every_target(target: str, tmp_path: Path) -> None:
    kind = "wasm" if target.startswith("wasm32") else "obj"
    if kind == "wasm" and lld("wasm") is None:
        pytest.skip("there is no linker for WebAssembly")
    made = tfn.export(much, X, np.int32(3), path=tmp_path / "much", kind=kind, target=target)
    data = made.files[0].read_bytes()
    machine = {"x86": 62, "aarch64": 183, "riscv64": 243, "hexagon": 164, "wasm32": 1}[
        target.split("-")[0]
    ]
    if kind == "wasm":
        assert struct.unpack("<4sI", data[:8]) == (b"\0asm", machine)
    else:
        assert data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 18) == (machine,)


@pytest.mark.skipif(lld("elf") is None, reason="there is no LLD")
@pytest.mark.parametrize("target", ["aarch64", "riscv64"])
def test_libraries_for_other_processors_miss_nothing(target: str, tmp_path: Path) -> None:
    """They are linked with no symbol left open."""
    made = tfn.export(much, X, np.int32(3), path=tmp_path / "much.so", target=target)
    assert made.files[0].stat().st_size > 1000


@pytest.mark.parametrize(
    "start, target", in_turn(4, cover(op_table.STARTS, ["aarch64", "riscv64"]))
)
def test_operations_on_other_processors(target: str, start: int, tmp_path: Path) -> None:
    """All ops that export, with derivatives and batches, as objects that qemu runs."""
    if not (shutil.which(f"{target}-linux-gnu-gcc") and shutil.which(f"qemu-{target}")):
        pytest.skip(f"needs gcc-{target}-linux-gnu and qemu-user")
    names, outputs, values = op_table.cases(start, without=frozenset({Op.FFT, Op.HOST}))
    want = run(outputs, values)
    jaxpr, functions = op_table.closed(outputs, values)
    assert not functions
    got = emulated(
        lambda *xs: bind.call(jaxpr, [*xs], [False] * len(want)),
        *(np.asarray(x) for x in values.values()),
        folder=tmp_path,
        target=target,
    )
    for name, x, y in zip(names, got, want, strict=True):
        np.testing.assert_allclose(x, np.asarray(y), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.skipif(linker(host()) is None, reason="there is no linker")
def test_the_entry_checks_before_it_runs(tmp_path: Path) -> None:
    """Each error by its number, and nothing is written."""
    made = tfn.export(lambda x: (tnp.sort(x) @ x, x), X[0], path=tmp_path / "check.so")
    signature = made.signature
    run = ctypes.CDLL(str(made.files[0])).check
    out, copied = np.full((), 7, np.float32), np.full(19, 7, np.float32)
    room = np.empty(signature.arena_bytes + 128, np.uint8)
    arena = -(-room.ctypes.data // 64) * 64
    good = [
        1,
        signature.program,
        signature.arena_bytes,
        X.ctypes.data,
        out.ctypes.data,
        copied.ctypes.data,
    ]

    def call(at: int = -1, value: int = 0, arena: int = arena) -> int:
        words = [value if i == at else word for i, word in enumerate(good)]
        return int(run(struct.pack("IIQ3P", *words), ctypes.c_void_p(arena)))

    assert signature.arena_bytes > 0
    assert [call(0, 2), call(1, 5), call(2, signature.arena_bytes - 1)] == [1, 1, 4]
    assert [call(3), call(4), call(arena=0), run(None, ctypes.c_void_p(arena))] == [2, 2, 2, 2]
    assert [call(3, good[3] + 1), call(5, good[5] + 2), call(arena=arena + 8)] == [3, 3, 3]
    assert out == 7 and (copied == 7).all()
    assert call() == 0
    same_bits(copied, X[0])
