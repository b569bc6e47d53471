"""`tfn.load`: loads an exported library and calls it from Python.

The manifest of a file is read and checked before the system loads it, which would run code: a file
that is truncated, or of another version, is refused and none of it is executed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfn.dtypes import canonical
from tfn.errors import ArgumentError, DTypeError, ExportError, ShapeError
from tfn.exporting.header import ERRORS
from tfn.exporting.signature import ABI, ALIGNMENT, DIGEST, MAGIC, Field, Signature
from tfn.extend import Target, file_path, parsing, shown

_HINT = "export it again, or copy it again"
_DIGEST = 64  # hexadecimal digits of SHA-256


def load(path: str | Path) -> Loaded:
    """The function of a shared library that `tfn.export` has written.

    A library is code: load none that you would not run.  A damaged one is refused before any of
    it runs, by the digest that `tfn.export` puts behind it; a library linked by other tools from
    exported C has none.  While it is loaded, the file of a library must not be overwritten in
    place; `tfn.export` replaces it, which is safe.

    Raises:
        ExportError: for a file that is no such library, is truncated or altered, or has another
            version.

    Example:
        >>> import tempfile, tfn, numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file, = tfn.export(lambda x: x * 2, np.zeros(3, "float32"),
        ...                        path=f"{folder}/twice.so").files[:1]
        ...     twice = tfn.load(file)
        >>> twice(np.arange(3, dtype="float32"))
        array([0., 2., 4.], dtype=float32)
    """
    path = file_path("load", "path", path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExportError(
            f"{path} cannot be read",
            got=str(error),
            hint="tfn.export(..., path='name.so') writes such a file",
        ) from None
    signature = manifest(data, path.name)
    with parsing(path.name, "library that tfn has exported", ExportError):
        _whole(data, path.name)
    try:
        return Loaded(signature, ctypes.CDLL(str(path.resolve())))
    except OSError as error:
        raise ExportError(
            f"the system does not load {path.name}",
            got=str(error),
            hint=f"it was made for {signature.target.triple}",
        ) from None
    except AttributeError as error:
        raise ExportError(
            f"{path.name} has no function {signature.name}", got=str(error), hint=_HINT
        ) from None


def manifest(data: bytes, name: str) -> Signature:
    """The signature in the manifest of a file.

    Raises:
        ExportError: if the manifest is missing, damaged, or of another version.
    """
    at = data.find(MAGIC)
    if at < 0:
        raise ExportError(f"{name} is not a library that tfn has exported", hint=_HINT)
    try:
        size, rest = data[at + len(MAGIC) : at + (1 << 24)].split(b":", 1)
        digest, text = rest[:_DIGEST], rest[_DIGEST + 1 : _DIGEST + 1 + int(size)]
        if hashlib.sha256(text).hexdigest().encode() != digest:
            raise ValueError("its digest differs")
        record = json.loads(text)
        if record["abi"] != ABI:
            raise ExportError(
                f"{name} was exported by another version of tfn",
                got=f"ABI {record['abi']} instead of {ABI}",
                hint=_HINT,
            )
        return _signature(record)
    except ExportError:
        raise
    except Exception as error:  # of many classes: the text may be anything
        raise ExportError(
            f"{name} is damaged", got=f"{type(error).__name__}: {error}"[:300], hint=_HINT
        ) from error


def _signature(record: dict[str, Any]) -> Signature:
    """The signature that a manifest describes.

    Raises:
        Exception: of many classes, if it describes none.
    """
    triple, cpu, features = record["target"]
    numbers = record["arena_bytes"], record["threads"]
    texts = record["name"], triple, cpu, features, *record["constants"]
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"sizes {numbers}")
    if not all(type(text) is str for text in texts) or not record["name"].isidentifier():
        raise ValueError(f"texts {texts}")
    return Signature(
        record["name"],
        tuple(map(_field, record["inputs"])),
        tuple(map(_field, record["outputs"])),
        tuple(record["constants"]),
        record["arena_bytes"],
        record["threads"],
        Target(triple, cpu, features),
    )


def _field(record: dict[str, Any]) -> Field:
    shape, dtype = tuple(record["shape"]), canonical(record["dtype"])
    texts = record["name"], record["path"], record["same"]
    if not all(type(n) is int and n >= 0 for n in shape) or not all(
        type(text) is str for text in texts
    ):
        raise ValueError(f"the field {record}")
    return Field(record["name"], record["path"], shape, dtype, record["same"])


def _whole(data: bytes, name: str) -> None:
    """Refuse a truncated library: access to its missing pages would kill the process.

    Source: System V ABI, chapter 4 and 5: headers of files, of sections and of segments.
    """
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise ExportError(f"{name} is not a library for 64-bit Linux", hint=_HINT)
    content, mark, digest = data.rpartition(DIGEST)
    has_digest = mark and len(digest) <= _DIGEST // 2
    if has_digest and hashlib.sha256(content).digest() != digest:
        raise ExportError(f"{name} is damaged", got="its digest differs", hint=_HINT)
    programs, sections = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<4H", data, 54)
    ends = [sections + section_size * section_count, programs + program_size * program_count]
    if max(ends) <= len(data):
        for i in range(program_count):
            offset, _, _, size = struct.unpack_from("<4Q", data, programs + program_size * i + 8)
            ends.append(offset + size)
    if max(ends) > len(data):
        raise ExportError(
            f"{name} is cut short", hint=_HINT, got=f"{len(data):,} bytes of at least {max(ends):,}"
        )
    behind = len(data) - max(ends)
    if not has_digest and 0 < behind <= len(DIGEST) + _DIGEST // 2:
        raise ExportError(
            f"{name} is damaged", got=f"{behind} bytes behind it that are no digest", hint=_HINT
        )


class Loaded:
    """A function of a library.

    Arrays are passed by position, in the order of `signature.inputs`, or by name; the result is a
    NumPy array, or a tuple of them.

    Attributes:
        signature: its inputs and outputs.
    """

    def __init__(self, signature: Signature, library: ctypes.CDLL) -> None:
        self.signature = signature
        self._run = getattr(library, signature.name)
        self._run.restype = ctypes.c_int
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._idle: list[Any] = []  # arenas: concurrent calls never share one

    def __call__(self, *args: object, arena: object = None, **kwargs: object) -> Any:
        """Run it.

        Args:
            args, kwargs: arrays of exactly the shapes and dtypes of the inputs.
            arena: working memory, an array of bytes; if None, one that is reused between calls.

        Raises:
            ArgumentError: for an input that is missing or unknown, or too small an arena.
            ShapeError, DTypeError: for an input of another type.
        """
        signature = self.signature
        inputs = [_checked(f, x) for f, x in zip(signature.inputs, self._arranged(args, kwargs))]
        outputs = [np.empty(field.shape, field.dtype) for field in signature.outputs]
        own = arena is None
        memory = self._arena() if own else _room(arena, signature.arena_bytes)
        start = -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        addresses = [x.ctypes.data for x in (*inputs, *outputs)]
        words = struct.pack(
            f"IIQ{len(addresses)}P",
            ABI,
            signature.program,
            memory.nbytes - (start - memory.ctypes.data),
            *addresses,
        )
        error = self._run(words, start)
        if own:
            self._idle.append(memory)
        if error:
            raise ExportError(
                f"{signature.name} refuses the call",
                got=ERRORS[error][1],
                hint="export the function again with this version",
            )
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _arranged(self, args: Sequence[object], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the inputs."""
        names = [field.name for field in self.signature.inputs]
        arrays = dict(zip(names, args)) | kwargs
        wrong = [name for name in names if name not in arrays]
        wrong += [name for name in kwargs if name not in names]
        if wrong or len(args) + len(kwargs) != len(names):
            raise ArgumentError(
                f"{self.signature.name} takes {len(names)} arrays: {', '.join(names)}",
                got=f"{len(args)} by position, and {', '.join(kwargs) or 'none'} by name",
                hint="pass each of them once",
            )
        return [arrays[name] for name in names]

    def _arena(self) -> np.ndarray[Any, Any]:
        try:
            memory: np.ndarray[Any, Any] = self._idle.pop()
            return memory
        except IndexError:
            return np.empty(self.signature.arena_bytes + ALIGNMENT, np.uint8)

    def __repr__(self) -> str:
        return f"<{self.signature.name}, exported for {self.signature.target.cpu}>"


def _checked(field: Field, value: object) -> np.ndarray[Any, Any]:
    """An input as a contiguous array, after a check of dtype and shape."""
    x = np.asarray(value)
    if x.dtype != field.dtype:
        raise DTypeError(
            f"{field.path} must be of {field.dtype.name}",
            got=shown(x),
            hint=f"convert it: .astype({field.dtype.name!r})",
        )
    if x.shape != field.shape:
        raise ShapeError(
            f"{field.path} must have the shape {field.shape}",
            got=shown(x),
            hint="a library is made for fixed shapes: export it for others",
        )
    return np.ascontiguousarray(x) if field.shape else x


def _room(arena: object, size_bytes: int) -> np.ndarray[Any, Any]:
    memory: np.ndarray[Any, Any] = np.asarray(arena)
    lost = -memory.ctypes.data % ALIGNMENT
    if not memory.flags.c_contiguous or memory.nbytes - lost < size_bytes:
        raise ArgumentError(
            f"the arena is too small: {size_bytes:,} bytes are needed, aligned to {ALIGNMENT}",
            got=f"{memory.nbytes:,} bytes, of which alignment takes {lost}",
            hint="pass a contiguous array with room for the alignment",
        )
    return memory
