"""The manifest of a checkpoint: all that is known of its files, as data, written after them.

A checkpoint is a folder of files in the format safetensors, one of each host, and of
``manifest.json``, which says where in them the pieces of each array are.  A folder without one is
no checkpoint: its writer did not come to the end.

A plain safetensors file, such as a checkpoint of tfn 0.1, has no manifest; `of_file` gives it one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfn._support.files import unique
from tfn.errors import DamagedError, StateError
from tfn.extend import PathLike, parsing, replacing
from tfn.nn import fields, safetensors
from tfn.nn.store.trees import tiled

FORMAT, VERSION = "tfn checkpoint", 1
NAME = "manifest.json"
DIGEST = "sha256"  # of the manifest itself, with `BLANK` in the place of the digest
BLANK = "0" * 64
NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # which JSON does not have
IN_STORE = "blocks"  # in the place of a file, where a store has the pieces
_FILE_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]*\.safetensors|{IN_STORE}")

Number = bool | int | float
Shape = tuple[int, ...]


class File(NamedTuple):
    """A file beside the manifest.

    Attributes:
        name: of the file, in the folder of the manifest.
        size_bytes: of the file.
        crc32: of all its bytes, as its header has it; None in files of other libraries.
        header_sha256: of its header; None of a file without a manifest.
    """

    name: str
    size_bytes: int
    crc32: str | None
    header_sha256: str | None


class Piece(NamedTuple):
    """A part of an array, which lies in a file as an array of its own.

    Attributes:
        file: the number of the file.
        name: of the piece in the file.
        start: the index of its first element in the whole array.
        shape: the sizes of its axes.
        sha256: of its bytes; None where only the file as a whole has a checksum.
    """

    file: int
    name: str
    start: Shape
    shape: Shape
    sha256: str | None


class Mesh(NamedTuple):
    """The mesh of devices that arrays were divided over.

    Attributes:
        names: of its axes.
        sizes: of its axes.
        devices: the platform, the number and the process of each device, row by row.
    """

    names: tuple[str, ...]
    sizes: Shape
    devices: tuple[tuple[str, int, int], ...]


class Entry(NamedTuple):
    """An array of the tree.

    Attributes:
        dtype: its name in the format safetensors.
        shape: the sizes of its axes.
        mesh: the number of the mesh that it was divided over; None for an array of one device.
        spec: for each axis the names of the axes of the mesh that divided it.
        pieces: that make up the array, each element once.
    """

    dtype: str
    shape: Shape
    mesh: int | None
    spec: tuple[tuple[str, ...], ...]
    pieces: tuple[Piece, ...]


class Manifest(NamedTuple):
    """All that is known of a checkpoint.

    Attributes:
        step: the number of steps made; None for a file that does not say.
        token: a name that no other save has.
        created: the time of writing, in UTC, as ISO 8601 has it.
        hosts: the number of processes that wrote it.
        metadata: texts of the user.
        numbers: the leaves of the tree that are Python numbers, as the position in the data.
        keys: the random keys of the tree: shapes and words.
        meshes: of devices.
        arrays: all other leaves.
        static: the static fields of the tree: texts by names.
        files: that hold the pieces.
    """

    step: int | None
    token: str
    created: str
    hosts: int
    metadata: dict[str, str]
    numbers: dict[str, Number]
    keys: dict[str, tuple[Shape, tuple[int, ...]]]
    meshes: tuple[Mesh, ...]
    arrays: dict[str, Entry]
    static: dict[str, str]
    files: tuple[File, ...]

    def names(self) -> list[str]:
        """The names of all leaves."""
        return [*self.numbers, *self.keys, *self.arrays]

    @property
    def size_bytes(self) -> int:
        """The bytes of all files but the manifest."""
        return sum(file.size_bytes for file in self.files)


class Written(NamedTuple):
    """A file that was written, and the pieces in it, with the names of their arrays."""

    file: File
    pieces: tuple[tuple[str, Piece], ...]


def empty(step: int | None, token: str) -> Manifest:
    """The manifest of a tree without leaves, made now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Manifest(step, token, now, 1, {}, {}, {}, (), {}, {}, ())


def filled(manifest: Manifest, written: Sequence[Written]) -> Manifest:
    """A manifest with the files that were written, and their pieces in its arrays.

    Raises:
        ValueError: if the pieces do not make up the arrays.
    """
    pieces: dict[str, list[Piece]] = {name: [] for name in manifest.arrays}
    for number, part in enumerate(written):
        for name, piece in part.pieces:
            pieces[name].append(piece._replace(file=number))
    arrays = {
        name: entry._replace(pieces=tuple(sorted(pieces[name], key=lambda piece: piece.start)))
        for name, entry in manifest.arrays.items()
    }
    files = tuple([part.file for part in written])
    result = manifest._replace(arrays=arrays, files=files, hosts=len(written))
    check(result)
    return result


def write(folder: Path, manifest: Manifest) -> None:
    """Writes a manifest: from then on the folder is a checkpoint.

    Raises:
        OSError: if the system refuses.
    """
    with replacing(folder / NAME) as file:
        file.write(encode(manifest))


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest.

    Example:
        >>> decode("m.json", encode(empty(3, "")._replace(numbers={"n": 1.5}))).numbers
        {'n': 1.5}
    """
    numbers = {
        name: str(x) if isinstance(x, float) and not math.isfinite(x) else x
        for name, x in manifest.numbers.items()
    }
    record = manifest._asdict() | {"numbers": numbers}
    lines = [f' "{name}": {_lines(_plain(x))}' for name, x in record.items()]
    head = f'{{\n "format": "{FORMAT}",\n "version": {VERSION}'.encode() + b"," + _sealed(BLANK)
    raw = head + ",\n".join(["", *lines]).encode() + b"\n}\n"
    return raw.replace(_sealed(BLANK), _sealed(hashlib.sha256(raw).hexdigest()), 1)


def _plain(value: Any) -> Any:
    """Records as objects of JSON, by the names of their fields."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(x) for name, x in value.items()}
    return list(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _lines(value: Any) -> str:
    """JSON with a line for each array, file or number."""
    if not value or not isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if isinstance(value, dict):
        items = [f"  {json.dumps(name)}: {json.dumps(x)}" for name, x in value.items()]
        return "{\n" + ",\n".join(items) + "\n }"
    return "[\n" + ",\n".join([f"  {json.dumps(x)}" for x in value]) + "\n ]"


def _sealed(digest: str) -> bytes:
    """The digest as it is written; within a text its quotes would be escaped."""
    return f'\n "{DIGEST}": "{digest}"'.encode()


def decode(path: PathLike, raw: bytes) -> Manifest:
    """The manifest of its bytes, each of which has been checked.

    Args:
        path: of the file, for messages.
        raw: its bytes.

    Raises:
        DamagedError: if they are not what `encode` made.
        StateError: if they are of another version.
    """
    with parsing(path, "manifest of a checkpoint", DamagedError):
        record = json.loads(raw.decode(), object_pairs_hook=unique)
        if record.pop("format") != FORMAT:
            raise ValueError("another format")
        version, digest = record.pop("version"), record.pop(DIGEST)
        blank = raw.replace(_sealed(str(digest)), _sealed(BLANK), 1)
        if hashlib.sha256(blank).hexdigest() != digest:
            raise DamagedError(f"{os.fspath(path)} is damaged", got=f"the digest {digest!r}")
        if version != VERSION:
            raise StateError(
                f"{os.fspath(path)} was written by another version of tfn",
                got=f"version {version} of the manifest, {VERSION} is known",
                hint="install that tfn",
            )
        manifest = Manifest(
            step=None if record["step"] is None else _count(record["step"]),
            token=str(record["token"]),
            created=str(record["created"]),
            hosts=_count(record["hosts"]),
            metadata={str(k): str(v) for k, v in record["metadata"].items()},
            numbers={name: _number(x) for name, x in record["numbers"].items()},
            keys={name: (_shape(s), _shape(words)) for name, (s, words) in record["keys"].items()},
            meshes=tuple(map(_mesh, record["meshes"])),
            arrays={name: _entry(**x) for name, x in record["arrays"].items()},
            static=fields.checked(record.get("static", {})),  # others of before have none
            files=tuple(_file(**x) for x in record["files"]),
        )
        check(manifest)
    return manifest


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _shape(values: Any) -> Shape:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is no shape")
    return tuple(map(_count, values))


def _number(value: Any) -> Number:
    if isinstance(value, str):
        return NUMBERS[value]
    if type(value) not in (bool, int, float):
        raise ValueError(f"{value!r} is no number")
    number: Number = value
    return number


def _mesh(record: dict[str, Any]) -> Mesh:
    devices = tuple([(str(d[0]), _count(d[1]), _count(d[2])) for d in record["devices"]])
    return Mesh(tuple(map(str, record["names"])), _shape(record["sizes"]), devices)


def _entry(dtype: str, shape: Any, mesh: Any, spec: Any, pieces: Any) -> Entry:
    return Entry(
        dtype,
        _shape(shape),
        None if mesh is None else _count(mesh),
        tuple([tuple(map(str, names)) for names in spec]),
        tuple([_piece(**piece) for piece in pieces]),
    )


def _piece(file: Any, name: Any, start: Any, shape: Any, sha256: Any) -> Piece:
    return Piece(_count(file), str(name), _shape(start), _shape(shape), sha256 and str(sha256))


def _file(name: Any, size_bytes: Any, crc32: Any, header_sha256: Any) -> File:
    if not _FILE_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no file beside it")
    return File(
        name, _count(size_bytes), crc32 and str(crc32), header_sha256 and str(header_sha256)
    )


def check(manifest: Manifest) -> None:
    """Raise unless the pieces of each array lie within it, in files, and make it up."""
    for name, entry in manifest.arrays.items():
        if entry.dtype not in safetensors.DTYPES or len(entry.shape) > safetensors.RANK_LIMIT:
            raise ValueError(f"{name} of dtype {entry.dtype}")
        if entry.mesh is not None:
            manifest.meshes[entry.mesh]
        for piece in entry.pieces:
            manifest.files[piece.file]
        if not tiled(entry.shape, [(piece.start, piece.shape) for piece in entry.pieces]):
            raise ValueError(f"the pieces of {name} do not make it up, or overlap")
    for name, (shape, words) in manifest.keys.items():
        if prod(shape) != len(words) or any(word >> 32 for word in words):
            raise ValueError(f"{name} is no random key")


def read(path: PathLike) -> Manifest:
    """The manifest of a checkpoint: of its folder, or of a single file.

    Raises:
        DamagedError: if it is damaged, or there is none.
        OSError: if it cannot be read.

    Example:
        >>> from tfn.nn import state
        >>> state.save("/tmp/tfn-example.safetensors", {"w": np.ones(3)}, metadata={"step": "7"})
        >>> read("/tmp/tfn-example.safetensors").step
        7
    """
    if not Path(path).is_dir():
        return of_file(path)
    file = Path(path) / NAME
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise DamagedError(
            f"{os.fspath(path)} is no checkpoint",
            got=f"a folder without {NAME}",
            hint="its writer was ended before it was whole",
        ) from None
    return decode(file, raw)


def of_file(path: PathLike) -> Manifest:
    """The manifest that a plain safetensors file would have: each array is one piece.

    Raises:
        DamagedError: if it is no whole file of this format.
        OSError: if it cannot be read.
    """
    try:
        contents = safetensors.contents(path)
        static = fields.decode(path, contents.metadata)
    except DamagedError:
        raise
    except StateError as error:
        raise DamagedError(error.what, got=error.got, hint=error.hint) from error
    texts = dict(contents.metadata)
    texts.pop(fields.KEY, None)
    for key in (safetensors.WRITER, safetensors.CHECKSUM, safetensors.DATA_CHECKSUM):
        texts.pop(key, None)
    step = texts.pop("step", "")
    arrays = {
        place.name: Entry(
            safetensors.NAMES[place.dtype],
            place.shape,
            None,
            ((),) * len(place.shape),
            (Piece(0, place.name, (0,) * len(place.shape), place.shape, None),),
        )
        for place in contents.places.values()
    }
    file = File(Path(path).name, os.path.getsize(path), contents.checksum, None)
    return Manifest(
        step=int(step) if re.fullmatch("[0-9]{1,18}", step) else None,
        token=contents.checksum or "",
        created="",
        hosts=1,
        metadata=texts,
        numbers={},
        keys={},
        meshes=(),
        arrays=arrays,
        static=static,
        files=(file,),
    )


def values(manifest: Manifest) -> Mapping[str, np.ndarray[Any, Any]]:
    """The leaves that are in the manifest itself, as arrays: numbers and random keys."""
    keys = {
        name: np.asarray(words, np.uint32).reshape(shape)
        for name, (shape, words) in manifest.keys.items()
    }
    return {**{name: np.asarray(x) for name, x in manifest.numbers.items()}, **keys}


def quick_check(path: PathLike, manifest: Manifest) -> None:
    """Raise unless all files are there, as long as they were written.

    Raises:
        DamagedError: naming the first that is not.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    for file in manifest.files:
        try:
            size_bytes = os.path.getsize(folder / file.name)
        except FileNotFoundError:
            raise DamagedError(f"{folder / file.name} is gone") from None
        if size_bytes != file.size_bytes:
            raise DamagedError(
                f"{folder / file.name} is not whole",
                got=f"{size_bytes:,} bytes, {file.size_bytes:,} were written",
            )
