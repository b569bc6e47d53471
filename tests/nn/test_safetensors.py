"""The safetensors format: headers, checksums, and what is said of damaged bytes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tfn import numpy as jnp
from tfn.errors import StateError
from tfn.nn import safetensors, state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.safetensors"


def test_mapped_arrays_are_views_of_the_file(path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = {
        "big": rng.random((64, 33), np.float32),
        "odd": np.arange(3, dtype=np.int8),
        "a": 1.0,
        "bigger": rng.random((128, 16)),
        "z": np.ones(70) > 0,
    }
    state.save(path, whole)
    mapped = state.mapped(path)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [[int(n, 16) for n in m[0].split("-")] for m in maps if m[-1] == str(path)]
    for name in ("big", "bigger"):
        address = np.asarray(jnp.asarray(mapped[name], copy=False)).__array_interface__["data"][0]
        assert any(low <= address < high for low, high in spans), name
        np.testing.assert_array_equal(mapped[name], whole[name])


def test_a_file_cut_off_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state.save(path, {"x": np.arange(100_000.0)})
    header = safetensors._header

    def cutting(path: Any, file: Any) -> Any:
        actual = header(path, file)
        os.truncate(path, 4096)
        return actual

    for read in (state.load, state.verify, state.mapped):
        state.save(path, {"x": np.arange(100_000.0)})
        monkeypatch.setattr(safetensors, "_header", cutting)
        with pytest.raises(StateError, match="cut off"):
            read(path)
        monkeypatch.undo()


def test_every_truncated_file_is_refused(path: Path) -> None:
    state.save(path, {"w": jnp.arange(20.0), "b": jnp.ones(3)})
    whole = path.read_bytes()
    cuts = {*range(24), *range(24, len(whole), 37), len(whole) - 1}
    for cut in cuts:
        path.write_bytes(whole[:cut])
        with pytest.raises(StateError, match="no whole safetensors file"):
            state.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(StateError, match="no whole safetensors file"):
        state.load(path)
    with pytest.raises(FileNotFoundError):
        state.load(path.parent / "nothing")


def header_of(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def write(path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_a_header_that_lies_is_refused(path: Path) -> None:
    state.save(path, {"w": jnp.arange(20.0)})
    header, data = header_of(path.read_bytes())
    for change in (
        {"data_offsets": [0, 40]},
        {"data_offsets": [8, 88]},
        {"shape": [21]},
        {"shape": [2**40, 2**40]},
        {"dtype": "F31"},
    ):
        write(path, {**header, "w": {**header["w"], **change}}, data)
        with pytest.raises(StateError):
            state.load(path)
    write(path, {**header, "w": {**header["w"], "dtype": "F4", "shape": [80]}}, data)
    with pytest.raises(StateError, match="no type for"):
        state.load(path)


def changed(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A header with one thing of it left out, or replaced."""
    strange: list[Any] = [None, True, -1, 0, 1.5, 2**70, "", "F64", [], [2**70] * 70, [None], {}]
    for name, record in header.items():
        yield {key: value for key, value in header.items() if key != name}
        yield from ({**header, name: value} for value in strange)
        yield {**header, name + "2": record}
        for key in record:
            yield {**header, name: {k: value for k, value in record.items() if k != key}}
            yield from ({**header, name: {**record, key: value}} for value in strange)


def test_a_header_with_any_other_field_is_refused(path: Path) -> None:
    save_file({"w": np.arange(20.0), "b": np.ones(3, np.int8)}, path, {"who": "they"})
    good, data = header_of(path.read_bytes())
    refused = 0
    for header in (header for header in changed(good) if header != good):
        write(path, header, data)
        for read in (state.load, state.mapped):
            try:
                actual = {name: np.asarray(x).tolist() for name, x in read(path).items()}
            except StateError:
                refused += 1
            else:  # texts, or a name, are different
                assert header.get("__metadata__") != good["__metadata__"]
                assert actual == {"w": [*range(20)], "b": [1] * 3}
    assert refused > 150


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"3",
        b"null",
        b'"w"',
        b"{",
        b'{"w": }',
        b"\xff",
        b"[" * 100_000,
        b"9" * 100_000,
        b'{"w": 1, "w": 2}',
        b'{"__metadata__": {"a": 1}}',
        b'{"__metadata__": {"a": "1", "a": "2"}}',
        b'{"w": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_header_that_is_none(text: bytes, path: Path) -> None:
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\x02")
    with pytest.raises(StateError):
        state.load(path)


def test_a_header_that_would_fill_the_memory_is_not_read(path: Path) -> None:
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    os.truncate(path, 2**41)  # with holes: it takes no room
    with pytest.raises(StateError, match="a header of 1,099,511,627,776"):
        state.load(path)


def test_other_versions_are_refused(path: Path) -> None:
    state.save(path, {"w": 1})
    header, data = header_of(path.read_bytes())
    header["__metadata__"]["tfn"] = "99"
    write(path, header, data)
    with pytest.raises(StateError, match="another version"):
        state.load(path)


def test_every_changed_bit_is_found(path: Path) -> None:
    state.save(path, {"w": jnp.arange(5.0), "b": True}, metadata={"who": "we"})
    raw = path.read_bytes()
    state.verify(path)
    with open(path, "r+b", buffering=0) as file:  # in place, which is faster
        for at in range(len(raw)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([raw[at] ^ 1 << bit]), at)
                with pytest.raises(StateError):
                    state.load(path)
            os.pwrite(file.fileno(), raw[at : at + 1], at)
    state.load(path)


def test_changed_bits_are_found_where_it_is_asked_for(path: Path) -> None:
    state.save(path, {"w": jnp.arange(20.0), "b": jnp.ones(3)})
    raw = bytearray(path.read_bytes())
    raw[-30] ^= 4
    path.write_bytes(raw)
    state.mapped(path)  # which reads no data
    with pytest.raises(StateError, match="is damaged"):
        state.verify(path)
    save_file({"w": np.ones(3)}, path)
    with pytest.raises(StateError, match="none in its header"):
        state.verify(path)


OLD = (
    b'8\x01\0\0\0\0\0\0{"__metadata__": {"who": "we", "tfn": "1", "crc32": "2841731904"}, '
    b'"n": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}, '
    b'"w": {"dtype": "F32", "shape": [3], "data_offsets": [8, 20]}, '
    b'"m": {"dtype": "BOOL", "shape": [2], "data_offsets": [20, 22]}}'
    + b" " * 60
    + b"\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\x80?\0\0\0@\x01\0"
)
"""A file of version 1, whose checksum is of its data alone."""


def test_files_that_were_written_before(path: Path) -> None:
    path.write_bytes(OLD)
    state.verify(path)
    like = {"w": np.zeros(3, np.float32), "n": 0, "m": np.zeros(2, bool)}
    actual = state.load(path, like)
    assert (actual["w"].tolist(), actual["n"], actual["m"].tolist()) == (
        [0, 1, 2],
        7,
        [True, False],
    )
    assert state.metadata(path)["who"] == "we"
    for at in range(len(OLD) - 22, len(OLD)):
        path.write_bytes(OLD[:at] + bytes([OLD[at] ^ 1]) + OLD[at + 1 :])
        with pytest.raises(StateError, match="is damaged"):
            state.load(path)


@pytest.mark.parametrize("dtype", sorted(safetensors.LARGEST_BYTES, key=str), ids=str)
def test_bytes_that_are_no_elements_are_refused(dtype: Any, path: Path) -> None:
    state.save(path, {"x": np.zeros(3, dtype)})
    text = path.read_bytes()
    header = json.loads(text[8 : 8 + int.from_bytes(text[:8], "little")])
    plain = json.dumps({"x": header["x"]}).encode()
    bad = bytes([0, safetensors.LARGEST_BYTES[dtype] + 1, 0])
    path.write_bytes(len(plain).to_bytes(8, "little") + plain + bad)
    with pytest.raises(StateError, match="is damaged"):
        state.load(path)
