"""GGUF files: named values and tensors, read where they lie, without trust.

A file is a header, values by name, records of tensors, and the data of the tensors.  Each count,
length, offset and type is checked before it is believed, so that a damaged file ends in an error of
tfn, and takes no memory that it does not fill.  The file is mapped: data are views of it.

Source: github.com/ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfn.errors import NotAvailableError, StateError
from tfn.extend import PathLike, frozen
from tfn.llm.blocks import FORMATS, Format

MAGIC, VERSIONS = b"GGUF", (2, 3)

ALIGNMENT, ALIGNMENT_LIMIT = 32, 1 << 20
"""Multiples at which data begin where a file says nothing, and the largest that one may say."""

DEPTH_LIMIT = 4
"""The most arrays within each other; files have one."""

AXES_LIMIT = 4
"""The most axes of a tensor, as ggml has it."""

PARTS_LIMIT = 10_000
"""The most files of a model: numbers of parts are written with five digits."""

PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
"""Names of the files of a model in parts."""

_CODES = ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4"]
NUMBERS = {**dict(enumerate(_CODES)), 10: "<u8", 11: "<i8", 12: "<f8"}
"""Types of numbers by their codes."""

BOOL, TEXT, ARRAY = 7, 8, 9

VALUE_BYTES, TENSOR_BYTES = 13, 24
"""The fewest bytes that a value and the record of a tensor take."""

Data = np.ndarray[Any, Any]


@frozen
class Tensor:
    """A tensor of a file.

    Attributes:
        name: in the file.
        format: of its numbers.
        shape: the rows first, as NumPy has it; files have the axes in the other order.
        data: numbers of this shape, or bytes (..., blocks, bytes of a block); a view of the file.
    """

    name: str
    format: Format
    shape: tuple[int, ...]
    data: Data

    @property
    def size(self) -> int:
        """The number of weights."""
        return math.prod(self.shape)


@frozen
class File:
    """The content of a file, or of all files of a model in parts.

    Attributes:
        values: numbers, texts, and arrays as lists or NumPy's, by name.
        tensors: by name, in the order of the file.
        version: of the format.
    """

    values: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    version: int


class _Reader:
    """A place in bytes, which moves as they are read."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int, what: str) -> memoryview:
        left = len(self.data) - self.at
        if size > left:
            raise _damaged(f"{what} of {size:,} bytes, where {left:,} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str, what: str) -> Any:
        size = struct.calcsize(code)
        return struct.unpack(code, self.take(size, what))[0]

    def count(self, least: int, what: str) -> int:
        """A number of things, of which each takes some bytes."""
        count = int(self.number("<Q", f"the number of {what}"))
        left = len(self.data) - self.at
        if count * least > left:
            raise _damaged(f"{count:,} {what}, where {left:,} bytes are left")
        return count

    def text(self, what: str) -> str:
        size = self.number("<Q", f"the length of {what}")
        return str(self.take(size, what), "utf-8", "replace")

    def name(self, what: str) -> str:
        size = self.number("<Q", f"the length of {what}")
        try:
            return str(self.take(size, what), "utf-8")
        except UnicodeDecodeError as error:
            raise _damaged(f"{what} is no text: {error}") from None

    def value(self, name: str, kind: int, depth: int = 0) -> Any:
        """A value of a type."""
        if kind in NUMBERS:
            return np.frombuffer(self.take(np.dtype(NUMBERS[kind]).itemsize, name), NUMBERS[kind])[
                0
            ].item()
        if kind == BOOL:
            return bool(self.take(1, name)[0])
        if kind == TEXT:
            return self.text(name)
        if kind != ARRAY:
            raise _damaged(f"{name} has type {kind}, which is none")
        if depth == DEPTH_LIMIT:
            raise _damaged(f"arrays of {name} nest more than {DEPTH_LIMIT} deep")
        inner = self.number("<I", f"the type of {name}")
        if inner in NUMBERS or inner == BOOL:
            dtype = np.dtype(NUMBERS.get(inner, "u1"))
            count = self.count(dtype.itemsize, f"elements of {name}")
            data = np.frombuffer(self.take(count * dtype.itemsize, name), dtype)
            return data != 0 if inner == BOOL else data
        count = self.count(8 if inner == TEXT else 12, f"elements of {name}")
        if inner == TEXT:
            return self.texts(count, name)
        return [self.value(name, inner, depth + 1) for _ in range(count)]

    def texts(self, count: int, name: str) -> list[str]:
        """Many texts, as vocabularies have them."""
        found, data, at, end = [], self.data, self.at, len(self.data)
        length = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if end - at < 8:
                raise _damaged(f"{name} ends within the length of a text")
            begin = at + 8
            at = begin + length(data, at)[0]
            if at > end:
                raise _damaged(f"a text of {name} of {at - begin:,} bytes")
            found.append(str(data[begin:at], "utf-8", "replace"))
        self.at = at
        return found


def read(source: PathLike | bytes | memoryview) -> File:
    """Reads a GGUF file of version 2 or 3; of a model in parts, all of them.

    Args:
        source: the path of a file, of which parts lie in the same folder; or its bytes.

    Raises:
        StateError: if the bytes are damaged, or no GGUF file.
        NotAvailableError: for another version, another byte order or a format without a reader.
        OSError: if a file cannot be opened.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parsed(memoryview(source))
    path = Path(source)
    file = _parsed(_mapped(path))
    count = _whole(file.values, "split.count", 1)
    if count <= 1:
        return file
    match = PART.fullmatch(path.name)
    if match is None or int(match[3]) != count or count > PARTS_LIMIT:
        raise StateError(
            f"the model is in {count:,} parts, and the name does not say which one this is",
            got=path.name,
            hint="keep the names of the parts, such as model-00001-of-00002.gguf",
        )
    tensors: dict[str, Tensor] = {}
    first: Mapping[str, Any] = {}
    for n in range(count):
        part = path.with_name(f"{match[1]}-{n + 1:05}-of-{match[3]}.gguf")
        read_part = file if part == path else _parsed(_mapped(part))
        if _whole(read_part.values, "split.no", -1) != n:
            raise _damaged(f"{part.name} says that it is another part")
        twice = tensors.keys() & read_part.tensors.keys()
        if twice:
            raise _damaged(f"two parts have the tensor {min(twice)}")
        tensors |= read_part.tensors
        first = first or read_part.values
    expected = _whole(first, "split.tensors.count", len(tensors))
    if expected != len(tensors):
        raise _damaged(f"{len(tensors):,} tensors in all parts, not {expected:,}")
    return File(first, tensors, file.version)


def _whole(values: Mapping[str, Any], name: str, default: int) -> int:
    value = values.get(name, default)
    if not isinstance(value, int):
        raise _damaged(f"{name} is {type(value).__name__}, not a whole number")
    return value


def _mapped(path: Path) -> memoryview:
    """The bytes of a file, read as they are used."""
    with open(path, "rb") as file:
        if not path.stat().st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


class _Record(NamedTuple):
    """The words of a file about a tensor."""

    name: str
    axes: tuple[int, ...]
    format: int
    offset: int


def _parsed(data: memoryview) -> File:
    reader = _Reader(data)
    magic = bytes(reader.take(4, "the beginning"))
    if magic != MAGIC:
        raise _damaged(f"they begin with {magic!r}")
    version = reader.number("<I", "the version")
    if version not in VERSIONS:
        raise NotAvailableError(
            f"GGUF files of version {version} are not read"
            if version < 1 << 16
            else "GGUF files in the byte order of other processors are not read",
            hint="write the file again with a program of 2023-10 or later, on this kind of machine",
        )
    tensor_count = reader.count(TENSOR_BYTES, "tensors")
    values: dict[str, Any] = {}
    for _ in range(reader.count(VALUE_BYTES, "values")):
        name = reader.name("the name of a value")
        if name in values:
            raise _damaged(f"there are two values {name!r}")
        values[name] = reader.value(name, reader.number("<I", f"the type of {name}"))
    records = [_record(reader) for _ in range(tensor_count)]
    alignment = _whole(values, "general.alignment", ALIGNMENT)
    if not 1 <= alignment <= ALIGNMENT_LIMIT or alignment % 8:
        raise _damaged(f"data at multiples of {alignment:,} bytes")
    begin = -(-reader.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for record in records:
        if record.name in tensors:
            raise _damaged(f"there are two tensors {record.name!r}")
        if record.offset % alignment:
            raise _damaged(f"{record.name} begins at {record.offset:,}, between two places")
        tensors[record.name] = _tensor(record, data, begin)
    return File(values, tensors, version)


def _record(reader: _Reader) -> _Record:
    name = reader.name("the name of a tensor")
    count = reader.number("<I", f"the number of axes of {name}")
    if count > AXES_LIMIT:
        raise _damaged(f"{name} has {count:,} axes")
    axes = tuple(reader.number("<Q", f"an axis of {name}") for _ in range(count))
    kind = reader.number("<I", f"the format of {name}")
    return _Record(name, axes, kind, reader.number("<Q", f"the place of {name}"))


def _tensor(record: _Record, data: memoryview, begin: int) -> Tensor:
    form = FORMATS.get(record.format)
    if form is None:
        raise NotAvailableError(
            f"{record.name} is in a format that tfn does not read",
            got=f"number {record.format} of ggml",
            hint="quantize the model to one of " + ", ".join(f.name for f in FORMATS.values()),
        )
    shape = record.axes[::-1]
    if 0 in shape:
        raise _damaged(f"{record.name} has no numbers: {shape}")
    count = math.prod(shape)
    columns = shape[-1] if shape else 1
    if columns % form.elements:
        raise _damaged(f"{record.name} has rows of {columns:,}, not whole blocks of {form.name}")
    size = count // form.elements * form.bytes
    at = begin + record.offset
    if at + size > len(data):
        raise _damaged(f"{record.name} ends at byte {at + size:,}, and the file at {len(data):,}")
    if form.dtype is not None:
        content = np.frombuffer(data, form.dtype, count, at).reshape(shape)
    else:
        blocks = (*shape[:-1], columns // form.elements, form.bytes)
        content = np.frombuffer(data, np.uint8, size, at).reshape(blocks)
    return Tensor(record.name, form, shape, content)


def _damaged(what: str) -> StateError:
    return StateError(
        "these bytes are no GGUF model", got=what, hint="load the file as it was published"
    )
