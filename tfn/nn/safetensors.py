"""Files of named arrays in the safetensors format: their bytes, headers and checksums.

There are two ways to read one:

- `in_memory` reads all bytes into memory of its own, and compares the checksum that `write` wrote,
  which covers every byte of the file.  A file that was altered is refused, and whatever happens to
  the file afterwards, the arrays stay what they are.
- `in_file` maps the file, as is good for one that is larger than memory: no byte is read before
  it is used, and no checksum is compared; `verify` does that.

A file of another library has no checksum: a changed bit of its data cannot be known.

Source: the format, https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import json
import mmap
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol

import ml_dtypes
import numpy as np

from tfn._support.background import Background
from tfn._support.files import unique
from tfn.errors import ArgumentError, StateError
from tfn.extend import PathLike, parsing, replacing

Data = np.ndarray[Any, Any]
ALIGNMENT = 64  # of the data in a file: that of arrays which are shared instead of copied
WRITER, VERSION = "tfn", "2"
CHECKSUM = "tfn_crc32"  # of the whole file, with `BLANK` in the place of the checksum itself
BLANK = "0" * 8
DATA_VERSION, DATA_CHECKSUM = "1", "crc32"  # of files written before: the checksum of the data
TEXTS = "__metadata__"  # where the format has texts, among the names of arrays
HEADER_LIMIT_BYTES = 100_000_000  # that of the format
RANK_LIMIT = 64  # that of NumPy
CHUNK_BYTES = 1 << 20  # read and summed at a time: what fits into the cache of a core
MAX_SHOWN = 4  # differences from a template that an error lists

# fmt: off
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in {
    "BOOL": np.bool_, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
    "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64,
    "C64": np.complex64,
    # The format has no names for these, and other libraries do not read files that hold them.
    "TFN_C128": np.complex128, "TFN_F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "TFN_F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "TFN_F8_E3M4": ml_dtypes.float8_e3m4,
    "TFN_F8_E4M3": ml_dtypes.float8_e4m3, "TFN_F8_E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "TFN_F4_E2M1FN": ml_dtypes.float4_e2m1fn, "TFN_I4": ml_dtypes.int4, "TFN_U4": ml_dtypes.uint4,
    "TFN_I2": ml_dtypes.int2, "TFN_U2": ml_dtypes.uint2,
}.items()}
_BITS = {np.bool_: 1, ml_dtypes.int2: 2, ml_dtypes.uint2: 2} | dict.fromkeys(
    (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn), 4)
LARGEST_BYTES = {np.dtype(kind): (1 << bits) - 1 for kind, bits in _BITS.items()}
"""The largest byte of types that use a part of it: a larger one is none of their elements."""
# fmt: on
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Shaped(Protocol):
    """The type of an array: of NumPy's, of tfn's, or a `ShapeDtypeStruct`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of its axes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype, one of `DTYPES`."""


def write(
    path: PathLike,
    kinds: Mapping[str, Shaped],
    data_of: Callable[[str], Data],
    *,
    metadata: Mapping[str, str] | None = None,
    written: Callable[[IO[bytes], int, Data | None], None] | None = None,
) -> str:
    """Writes arrays to a safetensors file one after the other, so that one at a time is in memory.

    A thread adds up the checksum meanwhile.

    Args:
        path: file to write; replaced as a whole.
        kinds: the shapes and dtypes of the arrays by their names in the file.
        data_of: the contiguous data of the array of a name; asked for once, when its turn comes.
        metadata: texts to store with them; none if None.
        written: called with the file, an offset, and the data of the array that was written there;
            with None after the last one, before the file gets its name.

    Returns:
        The checksum of the file: a CRC-32 as eight hexadecimal digits, which is in its header.

    Raises:
        ArgumentError: as `save`.
        OSError: if the system refuses; the file is then what it was.

    Example:
        >>> x = np.arange(3.0)
        >>> _ = write("/tmp/tfn-example.safetensors", {"x": x}, lambda name: x)
        >>> mapped("/tmp/tfn-example.safetensors")["x"].tolist()
        [0.0, 1.0, 2.0]
    """
    if Path(path).suffix == ".json":
        raise ArgumentError(
            "a file of arrays cannot be called .json: load expects an index there",
            got=os.fspath(path),
            hint="end it in .safetensors",
        )
    texts = {**checked_texts(metadata or {}), WRITER: VERSION, CHECKSUM: BLANK}
    size = {name: prod(kind.shape) * kind.dtype.itemsize for name, kind in kinds.items()}
    # No holes are allowed in a file, so what would put others out of line comes last.
    order = sorted(kinds, key=lambda n: (size[n] % ALIGNMENT != 0, -kinds[n].dtype.itemsize))
    header: dict[str, Any] = {TEXTS: texts}
    end = 0
    for name in order:
        header[name] = {
            "dtype": NAMES[kinds[name].dtype],
            "shape": kinds[name].shape,
            "data_offsets": (end, end + size[name]),
        }
        end += size[name]
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    if len(text) > HEADER_LIMIT_BYTES:
        raise ArgumentError(
            "the names of all arrays do not fit into a header",
            got=f"{len(text):,} bytes, {HEADER_LIMIT_BYTES:,} are allowed",
        )
    head = len(text).to_bytes(8, "little") + text
    checksum, at = zlib.crc32(head), len(head)
    with replacing(path) as file:
        file.write(head)
        for name in order:
            data = data_of(name)
            memory = _bytes(data)
            large = len(memory) > CHUNK_BYTES
            added = Background(partial(zlib.crc32, memory, checksum)) if large else None
            for begin in range(0, len(memory), CHUNK_BYTES):
                file.write(memory[begin : begin + CHUNK_BYTES])
            if written is not None:
                written(file, at, data)
            at += len(memory)
            checksum = added.result() if added else zlib.crc32(memory, checksum)
        if written is not None:
            written(file, at, None)
        file.seek(0)
        file.write(head.replace(_sealed(BLANK), _sealed(f"{checksum:08x}"), 1))
    return f"{checksum:08x}"


def checked_texts(metadata: Mapping[str, str]) -> Mapping[str, str]:
    """Metadata, if they are texts."""
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise ArgumentError(
                "metadata are texts by names",
                got=f"{key!r}: {text!r}",
                hint=f"write it as a text: {str(text)!r}",
            )
        check_text(key + text)
    return metadata


def check_text(text: str) -> None:
    """Refuse what other libraries could not read.

    Raises:
        ArgumentError: for halves of surrogate pairs.

    Example:
        >>> check_text("w.0")
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            "names and metadata are Unicode, without halves of surrogate pairs", got=repr(text)
        ) from None


def _sealed(checksum: str) -> bytes:
    """The checksum as it is written in a header; within a text its quotes would be escaped."""
    return f'"{CHECKSUM}": "{checksum}"'.encode()


def checked(name: str, x: object) -> Data:
    """A leaf as contiguous data of a dtype that the format has.

    Args:
        name: of the leaf, for the message.
        x: an array or a number.

    Raises:
        ArgumentError: if it is no array or number, or of a dtype that the format does not have.

    Example:
        >>> checked("w", 1.5)
        array(1.5)
    """
    check_text(name)
    data = np.asarray(x)
    if data.dtype not in NAMES:
        raise ArgumentError(
            "only arrays and numbers can be saved",
            got=f"{name}: {type(x).__name__} of dtype {data.dtype}",
            hint="nn.filter(pytree, nn.is_array) keeps what can be saved",
        )
    return np.ascontiguousarray(data).reshape(data.shape)


def _bytes(data: Data) -> memoryview:
    return data.reshape(-1).view(np.uint8).data


# Reading.


@dataclass(frozen=True)
class Place:
    """The type of an array in a file, and where its elements are.

    Attributes:
        name: of the array.
        dtype: of its elements.
        shape: the sizes of its axes; the elements are in row-major order.
        begin: its first byte, counted from the end of the header.
        end: the byte after its last one.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class _Header:
    """The beginning of a file.

    Attributes:
        path: of the file.
        texts: saved beside the arrays.
        places: of the arrays, one after the other, without holes.
        start: of the data in the file.
        checksum: of what comes before the data, from which that of the data goes on.
        expected: what that must come to, None if the file says nothing.
    """

    path: PathLike
    texts: dict[str, str]
    places: tuple[Place, ...]
    start: int
    checksum: int
    expected: int | None

    def compare(self, checksum: int) -> None:
        """Refuse a checksum that is not the one that the file was written with."""
        if self.expected is not None and checksum != self.expected:
            raise StateError(
                f"{os.fspath(self.path)} is damaged",
                got=f"checksum {checksum:08x}, {self.expected:08x} in its header",
                hint="it was altered after it was written, by a disk or by another program",
            )


Reader = Callable[[_Header, IO[bytes]], dict[str, Data]]
"""Makes arrays of an open file, which is positioned after its header."""


def _header(path: PathLike, file: IO[bytes]) -> _Header:
    """The header of an open file, which is then at the beginning of the data.

    Raises:
        StateError: if it does not describe the file.
    """
    size = os.fstat(file.fileno()).st_size
    with parsing(path, "whole safetensors file"):
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or length > min(size - 8, HEADER_LIMIT_BYTES):
            raise ValueError(f"{size:,} bytes, and a header of {length:,}")
        raw = file.read(length)
        record = json.loads(raw.decode(), object_pairs_hook=unique)
        texts = record.pop(TEXTS, {})
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError(f"metadata that are no texts: {texts}")
        places = sorted(
            (_place(path, *item) for item in record.items()),
            key=lambda place: (place.begin, place.end),
        )
        ends = [0, *(place.end for place in places)]
        if [*(place.begin for place in places), size - 8 - length] != ends:
            raise ValueError("arrays that do not fill the file, or overlap")
    checksum, expected = _expected(path, first + raw, texts)
    return _Header(path, texts, tuple(places), 8 + length, checksum, expected)


def _place(path: PathLike, name: str, record: dict[str, Any]) -> Place:
    """An array as a header describes it.

    Raises:
        Exception: of many kinds, if it is no description.
    """
    kind, shape, (begin, end) = record["dtype"], record["shape"], record["data_offsets"]
    if len(shape) > RANK_LIMIT or not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(f"{name}: {record}")
    if kind not in DTYPES:
        raise StateError(
            f"{os.fspath(path)} holds numbers that NumPy has no type for", got=f"{name}: {kind}"
        )
    if end - begin != prod(shape) * DTYPES[kind].itemsize:
        raise ValueError(f"{name}: {end - begin} bytes for the shape {shape} of {kind}")
    return Place(name, DTYPES[kind], tuple(shape), begin, end)


def _expected(path: PathLike, head: bytes, texts: Mapping[str, str]) -> tuple[int, int | None]:
    """The checksum so far, and what it must come to with the data; see `_Header`.

    A bit that changes in one of the two texts of ours leaves the other, so that a damaged file of
    ours is never taken for one of another library, which has neither.
    """
    version, checksum = texts.get(WRITER), texts.get(CHECKSUM)
    if version == DATA_VERSION and checksum is None:
        before = texts.get(DATA_CHECKSUM, "")
        if not re.fullmatch("[0-9]{1,10}", before):
            raise StateError(f"{os.fspath(path)} is damaged", got=f"the checksum {before!r}")
        return 0, int(before)
    if version not in (None, VERSION, DATA_VERSION):
        raise StateError(
            f"{os.fspath(path)} was written by another version of tfn",
            got=f"version {version} of the file, {VERSION} is known",
            hint="install that tfn",
        )
    if version is None and checksum is None:
        return 0, None
    if not re.fullmatch("[0-9a-f]{8}", checksum or "") or head.count(_sealed(checksum or "")) != 1:
        raise StateError(f"{os.fspath(path)} is damaged", got=f"the checksum {checksum!r}")
    return zlib.crc32(head.replace(_sealed(checksum or ""), _sealed(BLANK))), int(
        checksum or "", 16
    )


def _fill(header: _Header, file: IO[bytes], memory: memoryview, checksum: int) -> int:
    """Read the next bytes of a file, and add them to a checksum if there is one to compare."""
    for at in range(0, len(memory), CHUNK_BYTES):
        chunk = memory[at : at + CHUNK_BYTES]
        if file.readinto(chunk) != len(chunk):  # type: ignore[attr-defined]
            raise StateError(f"{os.fspath(header.path)} was cut off while it was read")
        if header.expected is not None:
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Data:
    """New memory for an array, aligned as that of arrays which are shared instead of copied.

    Example:
        >>> aligned((2, 3), np.dtype("float32")).ctypes.data % ALIGNMENT
        0
    """
    size = prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    skipped = -raw.ctypes.data % ALIGNMENT
    return raw[skipped : skipped + size].view(dtype).reshape(shape)


def in_memory(header: _Header, file: IO[bytes]) -> dict[str, Data]:
    """The arrays of an open file in memory of their own, if its checksum is right."""
    arrays: dict[str, Data] = {}
    checksum = header.checksum
    for place in header.places:
        memory = aligned((place.end - place.begin,), np.dtype(np.uint8))
        checksum = _fill(header, file, memory.data, checksum)
        memory.flags.writeable = False
        if memory.max(initial=0) > LARGEST_BYTES.get(place.dtype, 255):
            raise StateError(
                f"{os.fspath(header.path)} is damaged",
                got=f"{memory.max()} in {place.name}, which is of dtype {place.dtype}",
            )
        arrays[place.name] = memory.view(place.dtype).reshape(place.shape)
    header.compare(checksum)
    return arrays


def in_file(header: _Header, file: IO[bytes]) -> dict[str, Data]:
    """The arrays of an open file as views of it."""
    size = header.start + max((place.end for place in header.places), default=0)
    with parsing(header.path, "whole safetensors file"):  # another process may have cut it short
        memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return {
        place.name: np.ndarray(place.shape, place.dtype, memory, header.start + place.begin)
        for place in header.places
    }


def found(path: PathLike, read: Reader) -> tuple[dict[str, Data], list[dict[str, str]]]:
    """The arrays of a file, or of all files of an index; and the texts of each file.

    Args:
        path: of the file, or of an index, which ends in ``.json``.
        read: makes the arrays of a file: `in_memory`, or `in_file`.

    Raises:
        StateError, OSError: as `mapped`.

    Example:
        >>> x = np.arange(3.0)
        >>> _ = write("/tmp/tfn-example.safetensors", {"x": x}, lambda name: x)
        >>> found("/tmp/tfn-example.safetensors", in_memory)[0]["x"].tolist()
        [0.0, 1.0, 2.0]
    """
    if Path(path).suffix != ".json":
        with open(path, "rb") as file:
            header = _header(path, file)
            return read(header, file), [header.texts]
    places = _index(path)
    beside = {name: Path(path).parent / name for name in sorted({*places.values()})}
    absent = [name for name, file in beside.items() if not file.exists()]
    if absent:
        raise StateError(
            f"{os.fspath(path)} names files that are not beside it",
            got=", ".join(absent[:MAX_SHOWN]),
            hint="put all files of the model into one folder, or write the index anew",
        )
    files = {name: found(file, read) for name, file in beside.items()}
    missing = [
        f"{name} is not in {file}" for name, file in places.items() if name not in files[file][0]
    ]
    if missing:
        raise StateError(
            f"{os.fspath(path)} is no index of the arrays beside it",
            got="; ".join(missing[:MAX_SHOWN]),
        )
    arrays = {name: files[file][0][name] for name, file in places.items()}
    return arrays, [text for _, texts in files.values() for text in texts]


def _index(path: PathLike) -> dict[str, str]:
    """For each array the name of the file that holds it, as an index says.

    Raises:
        StateError: if it is no index.
    """
    with parsing(path, "index of the arrays beside it"):
        places = json.loads(Path(path).read_bytes(), object_pairs_hook=unique)["weight_map"]
        for file in places.values():
            if Path(file).name != file or Path(file).suffix == ".json":
                raise ValueError(f"{file!r} is no file beside it")
    return dict(places)


def mapped(path: PathLike) -> dict[str, Data]:
    """Maps a file: returns its arrays as read-only views, of any dtype that the format has.

    The header is read, and must fit the file; the data are read as they are used, so a changed bit
    of them is not noticed: see `verify`.  While the views live the file must not be changed in
    place.  A file that is replaced, as `save` does it, leaves them as they are; one that is cut
    short ends the process (SIGBUS) when what is missing is used.  `load` depends on none of this.

    Args:
        path: of a file or an index, as of `load`.

    Raises:
        StateError: if a file is damaged, or not of this format.
        OSError: if one cannot be opened.

    Example:
        >>> x = np.ones((2, 3), "float32")
        >>> _ = write("/tmp/tfn-example.safetensors", {"w": x}, lambda name: x)
        >>> mapped("/tmp/tfn-example.safetensors")["w"].sum()
        np.float32(6.0)
    """
    return found(path, in_file)[0]


def metadata(path: PathLike) -> dict[str, str]:
    """Returns the texts that were saved with the arrays of a file, by their names.

    Raises:
        StateError, OSError: as `mapped`.

    Example:
        >>> path, about = "/tmp/tfn-example.safetensors", {"from": "run 3"}
        >>> _ = write(path, {}, lambda name: np.ones(0), metadata=about)
        >>> metadata(path)["from"]
        'run 3'
    """
    with open(path, "rb") as file:
        return _header(path, file).texts


@dataclass(frozen=True)
class Contents:
    """The header of a file.

    Attributes:
        places: of the arrays, by name.
        start: the number of bytes ahead of the data.
        checksum: eight hexadecimal digits that all bytes come to; None in files of others.
        metadata: the texts that were saved with the arrays.
    """

    places: dict[str, Place]
    start: int
    checksum: str | None
    metadata: dict[str, str]


def contents(path: PathLike) -> Contents:
    """Reads the header of a file: which arrays it has, and where they are.

    Raises:
        StateError, OSError: as `mapped`.

    Example:
        >>> x = np.ones((2, 3), "float32")
        >>> _ = write("/tmp/tfn-example.safetensors", {"w": x}, lambda name: x)
        >>> place = contents("/tmp/tfn-example.safetensors").places["w"]
        >>> place.shape, place.end - place.begin
        ((2, 3), 24)
    """
    with open(path, "rb") as file:
        header = _header(path, file)
    checksum = None if header.expected is None else f"{header.expected:08x}"
    return Contents({p.name: p for p in header.places}, header.start, checksum, header.texts)


def verify(path: PathLike) -> None:
    """Reads all bytes of a file written by `save`, and compares their checksum.

    Raises:
        StateError: if it differs, or there is none.
        OSError: if the file cannot be read.

    Example:
        >>> x = np.ones((2, 3), "float32")
        >>> _ = write("/tmp/tfn-example.safetensors", {"w": x}, lambda name: x)
        >>> verify("/tmp/tfn-example.safetensors")
    """
    with open(path, "rb") as file:
        header = _header(path, file)
        if header.expected is None:
            raise StateError(
                f"{os.fspath(path)} cannot be verified",
                got="none in its header",
                hint="files of other libraries have no checksum",
            )
        checksum, memory = header.checksum, memoryview(bytearray(CHUNK_BYTES))
        size = max((place.end for place in header.places), default=0)
        for at in range(0, size, CHUNK_BYTES):
            checksum = _fill(header, file, memory[: size - at], checksum)
        header.compare(checksum)
