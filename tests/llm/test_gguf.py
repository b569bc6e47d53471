"""GGUF files: what is read, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn.errors import NotAvailableError, StateError, TfnError
from tfn.llm import gguf

VALUES = {
    "general.architecture": "none",
    "bytes": np.arange(4, dtype=np.uint8),
    "small": np.int8(-3),
    "large": 1 << 40,
    "real": np.float64(0.1),
    "true": True,
    "bits": np.array([True, False]),
    "texts": ["a", "\u00e4", ""],
    "nested": [[1, 2], [3]],
}


def listed(value: Any) -> Any:
    """Arrays of a value as lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return [*map(listed, value)] if isinstance(value, list) else value


X = np.arange(64, dtype=np.float32).reshape(2, 32)
TENSORS = {
    "x": building.tensor(X),
    "y": building.tensor(X, "Q8_0"),
    "z": building.tensor(X, "BF16"),
}
FILE = building.gguf(VALUES, TENSORS)


@pytest.mark.parametrize("version", [2, 3])
def test_values_and_tensors_are_read(version: int) -> None:
    file = gguf.read(building.gguf(VALUES, TENSORS, version))
    assert file.version == version and [*file.tensors] == [*TENSORS]
    for name, value in VALUES.items():
        assert listed(file.values[name]) == listed(value), name
    assert np.array_equal(file.tensors["x"].data, X)
    assert file.tensors["y"].data.shape == (2, 1, 34) and file.tensors["y"].shape == (2, 32)
    assert np.array_equal(file.tensors["z"].data.astype(np.float32), X)


def test_a_file_is_mapped_and_not_copied(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(FILE)
    data = gguf.read(tmp_path / "m.gguf").tensors["x"].data
    assert not data.flags.owndata and not data.flags.writeable


def part(number: int, count: int, tensors: building.Tensors, **values: Any) -> bytes:
    split = {"split.no": number, "split.count": count, "split.tensors.count": 3}
    return building.gguf(VALUES | split | values, tensors)


def written(folder: Path) -> list[Path]:
    paths = [folder / f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    paths[0].write_bytes(part(0, 2, {"x": TENSORS["x"]}))
    paths[1].write_bytes(part(1, 2, {name: TENSORS[name] for name in "yz"}))
    return paths


def test_parts_are_read_from_any_of_them(tmp_path: Path) -> None:
    for path in written(tmp_path):
        assert {*gguf.read(path).tensors} == {*"xyz"}


def test_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    first, second = written(tmp_path)
    second.write_bytes(part(0, 2, {"y": TENSORS["y"]}))
    with pytest.raises(StateError, match="another part"):
        gguf.read(first)
    second.write_bytes(part(1, 2, {"x": TENSORS["x"]}))
    with pytest.raises(StateError, match="two parts have the tensor x"):
        gguf.read(first)
    second.write_bytes(part(1, 2, {"y": TENSORS["y"]}))
    with pytest.raises(StateError, match="2 tensors in all parts, not 3"):
        gguf.read(first)
    with pytest.raises(StateError, match="does not say which one"):
        gguf.read(first.rename(tmp_path / "model.gguf"))


def head(tensors: int = 0, values: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, values) + rest


def record(name: str, axes: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    packed = struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, offset)
    return head(1, 0, building.text(name) + packed)


NESTED = building.text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 6 + bytes(24)

# fmt: off
WRONG: dict[str, tuple[bytes, type[TfnError], str]] = {
    "nothing": (b"", StateError, "4 bytes, where 0 are left"),
    "another format": (b"PK\3\4" + bytes(40), StateError, "begin with"),
    "version 1": (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), NotAvailableError, "version 1"),
    "another byte order": (
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0), NotAvailableError, "byte order"),
    "more tensors than bytes": (head(1 << 60), StateError, "tensors, where"),
    "more values than bytes": (head(0, 1 << 60), StateError, "values, where"),
    "an array longer than its file": (
        head(0, 1, building.text("a") + struct.pack("<IIQ", 9, 4, 1 << 62) + bytes(8)),
        StateError, "elements of a, where"),
    "arrays within arrays without end": (head(0, 1, NESTED), StateError, "nest more than"),
    "a value of no type": (
        head(0, 1, building.text("a") + struct.pack("<IQ", 99, 0)), StateError, "99"),
    "a name that is no text": (
        head(0, 1, struct.pack("<Q", 2) + b"\xff\xfe" + bytes(20)), StateError, "no text"),
    "five axes": (record("x", (1,) * 5), StateError, "5 axes"),
    "a tensor behind the end": (record("x", (1 << 62, 4)), StateError, "ends at byte"),
    "a tensor of nothing": (record("x", (0, 1 << 63)), StateError, "no numbers"),
    "half a block": (record("x", (31, 1), 8), StateError, "whole blocks of Q8_0"),
    "a place between places": (record("x", (0,), 0, 7), StateError, "between two places"),
    "a format of another time": (record("x", (32,), 4), NotAvailableError, "number 4"),
}
# fmt: on


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_cannot_be_is_refused_with_its_reason(what: str) -> None:
    raw, kind, message = WRONG[what]
    with pytest.raises(kind, match=message):
        gguf.read(raw)


def test_every_damage_of_a_header_is_refused_or_read() -> None:
    whole = FILE.index(X.tobytes())
    for at in range(whole):
        for raw in (FILE[:at], FILE[:at] + bytes([FILE[at] ^ 0x80]) + FILE[at + 1 :]):
            read_or_refused(gguf.read, raw)


def read_or_refused(read: Callable[[bytes], Any], raw: bytes) -> None:
    try:
        read(raw)
    except TfnError as error:
        assert "got: " in str(error) or "hint: " in str(error)
