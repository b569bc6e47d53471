"""Damaged files of every format that is read: one table, every byte cut off at and altered.

A row writes a small file, reads it, and says what is promised of one that is damaged:

    REFUSED     a checksum covers it: an error of tfn
    SAME        an error of tfn, or the value that was written: the byte says nothing
    READABLE    it has no checksum: an error of tfn, or a value
    REMADE      a cache: the value that was written, computed again

No read may end the process, raise any other error, or take long.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_files
import minilm
import mnist
import numpy as np
import pytest
from safetensors.numpy import save_file

import tfn
import tfn.numpy as tnp
from tests.examples.test_llama import pieces
from tests.examples.test_minilm import VOCABULARY
from tfn.config import config
from tfn.errors import TfnError
from tfn.exporting.serialize import deserialize, serialize
from tfn.hw.compile import tuning_cache
from tfn.hw.compile.kernel_cache import CachedKernel, KernelCache
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.loader import Loader
from tfn.hw.cpu.target import host
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints

REFUSED, SAME, READABLE, REMADE = "refused", "same", "readable", "remade"

FLIPS = (0x01, 0x20, 0x80)
SECONDS = 60
"""For all damages of a format; one that hangs is stopped then."""

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@dataclass(frozen=True)
class Format:
    """A kind of file: how it is written into a folder, read again, and what is promised.

    Attributes:
        write: makes files in a folder, and returns the one that is damaged.
        read: a value that can be compared.
        every: the distance between the bytes that are damaged; 1 but for large files.
        last: only so many bytes at the end are damaged, if it is not 0.
    """

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]
    promise: str
    every: int = 1
    last: int = 0


def listed(tree: Any) -> Any:
    """A tree with arrays as text, which equal themselves where they are NaN."""
    return tfn.tree.map(lambda x: f"{x.dtype} {np.asarray(x).tolist()}", tree)


def checkpoint(folder: Path) -> Path:
    checkpoints = Checkpoints(folder)
    checkpoints.save(4, {"w": tnp.asarray(X)})
    return next(checkpoints.path(4).glob("host-*"))


def manifest(folder: Path) -> Path:
    return checkpoint(folder).with_name("manifest.json")


def checkpoint_0_1(folder: Path) -> Path:
    path = folder / "step-000000004.safetensors"
    state.save(path, {"w": tnp.asarray(X)}, metadata={"step": "4"})
    return path


def resumed(path: Path) -> Any:
    folder = path.parent if path.parent.name != "step-000000004" else path.parents[1]
    return listed(Checkpoints(folder).resume({"w": tnp.zeros((2, 3))})[1])


def safetensors(folder: Path) -> Path:
    state.save(folder / "a.safetensors", {"w": tnp.asarray(X), "n": True}, metadata={"a": "b"})
    return folder / "a.safetensors"


def safetensors_of_others(folder: Path) -> Path:
    save_file({"w": X, "n": np.array([1, 2], np.int8)}, folder / "a.safetensors")
    return folder / "a.safetensors"


def index_of_files(folder: Path) -> Path:
    save_file({"w": X}, folder / "1.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"w": "1.safetensors"}}))
    return index


def npy(folder: Path) -> Path:
    np.save(folder / "a.npy", X)
    return folder / "a.npy"


def npz(folder: Path) -> Path:
    np.savez(folder / "a.npz", a=X, b=np.ones(2, bool))
    return folder / "a.npz"


def compressed_npz(folder: Path) -> Path:
    np.savez_compressed(folder / "a.npz", a=np.arange(60) % 7)
    return folder / "a.npz"


def function(folder: Path) -> Path:
    path = folder / "f.tfn"
    path.write_bytes(serialize(lambda x, w: tnp.tanh(x @ w), X, X.T))
    return path


def symbolic_function(folder: Path) -> Path:
    (rows,) = tfn.export.symbolic_shape("n")
    exported = tfn.export.export(lambda x: tnp.tanh(x * 2))(
        tfn.ShapeDtypeStruct((rows, 3), np.float32)
    )
    path = folder / "f.tfn"
    path.write_bytes(exported.serialize())
    return path


def called(path: Path) -> Any:
    exported = deserialize(path.read_bytes())
    return listed(exported(*[X, X.T][: len(exported.in_avals)]))


def library(folder: Path) -> Path:
    return tfn.export(lambda x: tnp.tanh(x) * 2, X, path=folder / "f.so").files[0]


def images(folder: Path) -> Path:
    sizes = np.array([3, 5], ">u4").tobytes()
    path = folder / "a.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\2" + sizes + bytes(range(15)), mtime=0))
    return path


def word_pieces(folder: Path) -> Path:
    vocabulary = {piece: n for n, piece in enumerate(VOCABULARY)}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": vocabulary}}))
    return path


def byte_pairs(folder: Path) -> Path:
    path = folder / "tokenizer.bin"
    path.write_bytes(pieces(" ", "a", " a"))
    return path


def byte_pairs_read(path: Path) -> Any:
    with state.parsing(path, "tokenizer"):
        return llama_files.read_pieces(path.read_bytes(), 262).encode("a a?")


TEXT = "define i64 @f() {\n  ret i64 1\n}\n"
WRITTEN = CachedKernel("k1", (("split", 0, 2, "upcast"),), 3, "define void @k1() {\n}\n", 7)


def cached(part: str, use: Callable[[Path], Any]) -> Callable[[Path], Path]:
    """Writes the one file of a part of the cache, by using it."""

    def write(folder: Path) -> Path:
        config.cache_dir, config.disk_cache = folder / "cache", True
        use(folder)
        (path,) = (folder / "cache").rglob(f"{part}/*")
        return path

    return write


def object_code(path: Path) -> Any:
    compiler = LlvmCompiler()  # which has nothing in memory
    (code,) = compiler.compile_all([TEXT], host())
    loaded = Loader(compiler).load_once({"f": code})
    return ctypes.CFUNCTYPE(ctypes.c_int64)(loaded["f"].addresses["f"])()


def lowered_kernel(path: Path) -> Any:
    found = KernelCache().find("body", host())
    if found is None:
        KernelCache().keep("body", host(), WRITTEN)
    return found or WRITTEN


def tuned_plan(path: Path) -> Any:
    found = tuning_cache.find("k1", host())
    if found is None:
        tuning_cache.keep("k1", host(), (("a",),))
    return found or (("a",),)


# fmt: off
FORMATS: dict[str, Format] = {
    "checkpoint": Format(checkpoint, resumed, REFUSED, every=3),
    "manifest of a checkpoint": Format(manifest, resumed, REFUSED),
    "checkpoint of tfn 0.1": Format(checkpoint_0_1, resumed, REFUSED),
    "safetensors": Format(safetensors, lambda path: listed(state.load(path)), REFUSED),
    "safetensors of others": Format(
        safetensors_of_others, lambda path: listed(state.load(path)), READABLE),
    "index of safetensors": Format(index_of_files, lambda path: listed(state.load(path)), READABLE),
    "npy": Format(npy, lambda path: listed(tnp.load(path)), READABLE),
    "npz": Format(npz, lambda path: listed(dict(tnp.load(path))), SAME),
    "compressed npz": Format(compressed_npz, lambda path: listed(dict(tnp.load(path))), SAME),
    "serialized function": Format(function, called, REFUSED),
    "serialized function of any size": Format(symbolic_function, called, REFUSED),
    "exported library": Format(library, lambda path: listed(tfn.load(path)(X)), SAME, every=13),
    "end of an exported library": Format(
        library, lambda path: listed(tfn.load(path)(X)), REFUSED, last=43),
    "images of MNIST": Format(images, lambda path: mnist.read_idx(path).tolist(), SAME),
    "tokenizer of MiniLM": Format(
        word_pieces, lambda path: minilm.WordPieces.read(path).encode("unaffable a"), READABLE),
    "tokenizer of llama2.c": Format(byte_pairs, byte_pairs_read, READABLE, every=7),
    "cached object code": Format(cached("objects", object_code), object_code, REMADE, every=13),
    "cached kernel": Format(cached("kernels", lowered_kernel), lowered_kernel, REMADE),
    "cached plan of tuning": Format(cached("plans", tuned_plan), tuned_plan, REMADE),
}
# fmt: on


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """An error if a block takes longer."""

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"it hangs: {seconds} s are over")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def damages(raw: bytes, row: Format) -> Iterator[tuple[str, bytes]]:
    """Each damage with its name: cut short behind a byte, or that byte altered."""
    first = len(raw) - row.last if row.last else 0
    if not first:
        yield "empty", b""
    for at in range(first, len(raw), row.every):
        if at + 1 < len(raw):
            yield f"cut at {at + 1}", raw[: at + 1]
        for flip in FLIPS:
            yield f"{flip:#x} at {at}", raw[:at] + bytes([raw[at] ^ flip]) + raw[at + 1 :]


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_refused_or_made_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in ("cache_dir", "disk_cache"):
        monkeypatch.setattr(config, setting, getattr(config, setting))
    monkeypatch.setattr(tuning_cache, "_UNSAVED", {})
    row = FORMATS[name]
    path = row.write(tmp_path)
    raw, good = path.read_bytes(), row.read(path)
    refused = 0
    with limited(SECONDS):
        for damage, content in damages(raw, row):
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)
            try:
                value = row.read(path)
            except TfnError as error:
                assert row.promise != REMADE, f"{damage}: {error}"
                refused += 1
            else:
                assert row.promise != REFUSED, damage
                assert row.promise == READABLE or value == good, damage
    assert refused if row.promise != REMADE else not refused
    path.write_bytes(raw)
    assert row.read(path) == good
    assert os.path.getsize(path) == len(raw)
