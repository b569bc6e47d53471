"""Parts of arrays, read from pieces that are cut in any other way."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tfn.errors import DamagedError
from tfn.nn.checkpoint import Checkpoints, load, verify
from tfn.nn.checkpoint import manifest as manifests
from tfn.nn.checkpoint.files import MOST_GAP_BYTES, READ_BYTES, THREADS, Reader, write_pieces
from tfn.nn.checkpoint.manifest import Entry, Piece
from tfn.nn.checkpoint.pieces import Owned, piece_name


def saved(folder: Path, x: Any, cuts: list[list[int]]) -> Path:
    """An array in pieces, cut at these places of its axes, in two files."""
    ranges = [[0, *sorted(set(c)), n] for c, n in zip(cuts, x.shape, strict=True)]
    boxes: list[Any] = [()]
    for ends in ranges:
        boxes = [(*box, pair) for box in boxes for pair in pairwise(ends)]
    owned: list[list[Owned]] = [[], []]
    for number, box in enumerate(boxes):
        start, shape = tuple(a for a, _ in box), tuple(b - a for a, b in box)
        part = np.ascontiguousarray(x[tuple(slice(a, b) for a, b in box)]).reshape(shape)
        piece = Piece(0, piece_name("x", (start, shape), x.shape), start, shape, None)
        owned[number % 2].append(Owned("x", piece, x.dtype, lambda part=part: part))
    folder.mkdir(exist_ok=True)
    written = [write_pieces(folder / f"{i}.safetensors", own, "t") for i, own in enumerate(owned)]
    kinds = {"float32": "F32", "int8": "I8", "bool": "BOOL", "float64": "F64"}
    entry = Entry(kinds[x.dtype.name], x.shape, None, ((),) * x.ndim, ())
    blank = manifests.empty(1, "t")._replace(arrays={"x": entry})
    manifests.write(folder, manifests.filled(blank, written))
    return folder


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_part_of_any_pieces(data: Any, tmp_path: Path) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 7), max_size=4)))
    kind = data.draw(st.sampled_from(["float32", "int8", "bool", "float64"]))
    x = (np.random.default_rng(0).integers(0, 100, shape) % (2 if kind == "bool" else 99)).astype(
        kind
    )
    cuts = [data.draw(st.lists(st.integers(1, n - 1), max_size=2)) if n > 1 else [] for n in shape]
    path = saved(tmp_path / "a", x, cuts)
    with Reader(path, manifests.read(path)) as reader:
        for _ in range(4):
            ends = [
                sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape
            ]
            box = tuple(a for a, _ in ends), tuple(b - a for a, b in ends)
            part = reader.part("x", box)
            np.testing.assert_array_equal(part, x[tuple(slice(a, b) for a, b in ends)])
            assert (part.dtype, part.shape) == (x.dtype, box[1])
        np.testing.assert_array_equal(reader.whole("x"), x)
        reader.verify()


def test_the_bytes_that_are_read(tmp_path: Path) -> None:
    """Those of the part; in narrow rows, those between, too; a piece once for all its digests."""
    x = np.arange(64 * 2048, dtype=np.float32).reshape(64, 2048)
    path = saved(tmp_path, x, [[32], []])
    for box, most in (
        (((0, 0), (64, 2048)), x.nbytes),
        (((5, 0), (3, 2048)), 3 * 8192),
        (((30, 0), (4, 2048)), 4 * 8192),
        (((0, 7), (64, 3)), 64 * 12),
        (((0, 0), (64, 1024)), x.nbytes // 2),
        (((0, 0), (64, 1100)), 64 * (4400 + MOST_GAP_BYTES)),
        (((9, 9), (0, 3)), 0),
    ):
        with Reader(path, manifests.read(path)) as reader:
            part = reader.part("x", box)
            at = tuple(slice(a, a + n) for a, n in zip(*box, strict=True))
            np.testing.assert_array_equal(part, x[at])
            assert part.nbytes <= reader.bytes_read <= most
            read = reader.bytes_read
            reader.verify()
            whole = x.nbytes if prod(box[1]) < x.size else 0
            assert reader.bytes_read == read + whole
            reader.verify()
            assert reader.bytes_read == read + whole


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Beside the arrays themselves some buffers, whatever the size of the whole."""
    arrays = {f"w{i}": np.full((1024, 1024), i, np.float32) for i in range(12)}
    whole_bytes = sum(x.nbytes for x in arrays.values())
    checkpoints = Checkpoints(tmp_path)

    def peak_bytes(work: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few_bytes = 2 * THREADS * READ_BYTES
    assert peak_bytes(lambda: checkpoints.save(1, arrays)) < few_bytes < whole_bytes / 4
    assert peak_bytes(lambda: verify(checkpoints.path(1))) < few_bytes
    assert peak_bytes(lambda: load(checkpoints.path(1), arrays)) < whole_bytes + few_bytes


def test_a_piece_that_several_devices_need_is_read_once(tmp_path: Path) -> None:
    x = np.arange(64 * 2048, dtype=np.float32).reshape(64, 2048)
    path = saved(tmp_path, x, [[32], []])
    columns: list[Any] = [((0, a), (64, 512)) for a in range(0, 2048, 512)]
    with Reader(path, manifests.read(path)) as reader:
        for (_, a), part in zip([box[0] for box in columns], reader.parts("x", columns)):
            np.testing.assert_array_equal(part, x[:, a : a + 512])
        assert reader.bytes_read == x.nbytes
        reader.verify()
        assert reader.bytes_read == x.nbytes


def test_damages_of_what_is_read(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    path = saved(tmp_path, x, [[2], []])
    file = path / "1.safetensors"
    raw = file.read_bytes()
    for bad in (b"", raw[:-1], raw[:-1] + b"\x7f", (path / "0.safetensors").read_bytes()):
        file.write_bytes(bad)
        with Reader(path, manifests.read(path)) as reader:
            np.testing.assert_array_equal(reader.part("x", ((0, 0), (2, 6))), x[:2])
            with pytest.raises(DamagedError):
                reader.part("x", ((0, 0), (4, 6)))
            with pytest.raises(DamagedError):
                reader.verify()
    file.unlink()
    with Reader(path, manifests.read(path)) as reader, pytest.raises(DamagedError, match="gone"):
        reader.verify_files()


def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.int8).reshape(4, 6)
    path = saved(tmp_path, x, [[], []])
    with Reader(path, manifests.read(path)) as reader:
        reader.part("x", ((0, 0), (1, 6)))
        file = path / "0.safetensors"
        with open(file, "r+b") as opened:
            opened.truncate(file.stat().st_size - 1)
        with pytest.raises(DamagedError, match="cut off"):
            reader.whole("x")
