"""Storage of arrays in NumPy's file formats.

A file is written whole or not at all.  Nothing in a file is run: pickled objects are refused.  The
members of an ``.npz`` have checksums, which are compared; an ``.npy`` has none, so that a changed
bit of its data cannot be known.  Checkpoints are better kept with `tfn.nn.state`.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import ml_dtypes
import numpy as np

from tfn._support.files import parsing, replacing
from tfn.array import Array, ArrayLike
from tfn.dtypes import NARROW, width_bits
from tfn.eager.operands import array_of
from tfn.errors import ArgumentError, DTypeError, StateError
from tfn.numpy.creation import asarray

_END = struct.Struct("<4s4H2LH")  # end of a ZIP file: field 4 is the number of members
_MANY = 0xFFFF  # this number of members means that another record has it
_RECORDS = {dtype: np.dtype([(dtype.name, np.uint8)]) for dtype in NARROW}  # their names
_NARROW = {record: dtype for dtype, record in _RECORDS.items()}
_VOID = np.dtype("V2")  # the name of bfloat16 in NumPy's files


def save(file: object, arr: ArrayLike) -> None:
    """Write an array to a file, by name or open, in NumPy's format ``.npy``.

    NumPy's reader gives bfloat16 as 2 bytes without a type, and elements of float8, int4, ... as
    records: ``np.load(file)["float8_e5m2"]`` are their bits.

    Raises:
        OSError: if the system refuses; a file given by its name is then what it was.

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> save(file, tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)
        Array([0, 1, 2], dtype=int32)
    """
    # A number of Python keeps all its digits.
    is_number = isinstance(arr, (bool, int, float, complex))
    data = np.asarray(arr if is_number else array_of("save", arr))
    with _writing(file, ".npy") as opened:
        np.save(opened, _to_write(data), allow_pickle=False)


def savez(file: object, *args: ArrayLike, **kwargs: ArrayLike) -> None:
    """Write arrays to a file in NumPy's format ``.npz``.

    Args:
        file: path, to which ``.npz`` is added if it is missing, or an open binary file.
        *args: arrays that are named arr_0, arr_1, ...
        **kwargs: arrays by name.

    Raises:
        ArgumentError: if two would have one name, or one cannot be the name of a file.
        OSError: if the system refuses; a file given by its name is then what it was.

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> savez(file, x=tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)["x"]
        Array([0, 1, 2], dtype=int32)
    """
    named = {f"arr_{i}": x for i, x in enumerate(args)}
    refused = [name for name in kwargs if name in named or "\0" in name or not _encodes(name)]
    if refused:
        raise ArgumentError(
            "savez needs one name for each array, of Unicode without zeros",
            got=", ".join(map(repr, refused)),
        )
    arrays = {name: np.asarray(array_of("savez", x)) for name, x in {**named, **kwargs}.items()}
    with _writing(file, ".npz") as opened, zipfile.ZipFile(opened, "w") as members:
        for name, data in arrays.items():
            with members.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, _to_write(data), allow_pickle=False)


def _to_write(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of which a file keeps the dtype: bytes in a field of its name, if NumPy has none."""
    if data.dtype not in NARROW:
        return data
    bits = data.view(np.uint8) & ((1 << width_bits(data.dtype)) - 1)  # others mean nothing
    return bits.view(_RECORDS[data.dtype])


def _encodes(name: str) -> bool:
    try:
        return bool(name.encode()) or not name
    except UnicodeEncodeError:
        return False


@contextmanager
def _writing(file: Any, suffix: str) -> Iterator[IO[bytes]]:
    """An open file as it is, or a new one of a name, to which the suffix is added if missing."""
    if not isinstance(file, (str, os.PathLike)):
        yield file
        return
    path = os.fspath(file)
    with replacing(path if path.endswith(suffix) else path + suffix) as opened:
        yield opened


def load(file: Any) -> Array | dict[str, Array]:
    """The array of a file that `save` wrote, or the arrays by name of one that `savez` wrote.

    Raises:
        StateError: if the file is cut short, damaged as far as that can be known, followed by
            something else, or of another format; pickled objects are refused.
        DTypeError: if it holds elements of a dtype that arrays do not have.
        OSError: if it cannot be opened.

    Example:
        >>> import tfn.numpy as tnp
        >>> import io
        >>> file = io.BytesIO()
        >>> save(file, tnp.arange(3))
        >>> _ = file.seek(0)
        >>> load(file)
        Array([0, 1, 2], dtype=int32)
    """
    if not isinstance(file, (str, os.PathLike)):
        return _read(file, f"the open {type(file).__name__}")
    with open(file, "rb") as opened:
        content = _read(opened, os.fspath(file))
        if isinstance(content, Array) and opened.read(1):
            raise StateError(f"{os.fspath(file)} goes on after its array")
        return content


def _read(file: IO[bytes], name: str) -> Array | dict[str, Array]:
    """The content of an open file from its position on, of either format."""
    with parsing(name, "whole file of NumPy's arrays"):
        first = file.read(2)
        file.seek(-len(first), os.SEEK_CUR)
        if first != b"PK":
            return asarray(_array(file))
        with zipfile.ZipFile(file) as members:
            infos = members.infolist()
            file.seek(-_END.size - len(members.comment), os.SEEK_END)
            count = _END.unpack(file.read(_END.size))[4]
            if count not in (len(infos), _MANY) or len(members.NameToInfo) != len(infos):
                raise ValueError(f"{len(members.NameToInfo)} names of {count} arrays")
            arrays = {}
            for info in infos:
                with members.open(info) as member:
                    arrays[info.filename.removesuffix(".npy")] = asarray(_array(member))
                    if member.read(1):  # the read at the end compares the checksum
                        raise ValueError(f"{info.filename} goes on after its array")
            return arrays


def _array(file: IO[bytes]) -> np.ndarray[Any, Any]:
    """The array in the format ``.npy`` at the position of an open file."""
    data: np.ndarray[Any, Any] = np.lib.format.read_array(file, allow_pickle=False)
    if data.dtype == np.bool_ and data.view(np.uint8).max(initial=0) > 1:
        raise ValueError("elements of dtype bool that are neither False nor True")
    narrow = _NARROW.get(data.dtype)
    if narrow is not None:
        bits = int(data.view(np.uint8).max(initial=0)).bit_length()
        if bits > width_bits(narrow):
            raise ValueError(f"elements of dtype {narrow.name} that have {bits} bits")
        return data.view(narrow)
    if data.dtype == _VOID:
        return data.view(ml_dtypes.bfloat16)
    if data.dtype.kind == "V":
        raise DTypeError(
            "the file does not tell the dtype of its elements, which NumPy does not know",
            got=f"{data.dtype}{list(data.shape)}",
            hint="if you know it, asarray(np.load(file).view(ml_dtypes.float8_e4m3fn))",
        )
    return data
