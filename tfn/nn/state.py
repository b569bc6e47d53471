"""Trees of arrays in files, in the safetensors format, named by their paths.

The arrays of ``{"layers": [Linear, ...]}`` are called ``layers.0.weight`` and so on, so a file is
read by other libraries too.  Reading maps the file into memory: of what is aligned, as all large
arrays of files written here are, no byte is read or copied before somebody looks at it.

Source: the format, https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array
from tfn.errors import ArgumentError, StateError

Data = np.ndarray[Any, Any]
PathLike = str | os.PathLike[str]
NUMBERS = (bool, int, float)
ALIGNMENT = 64  # of the data in a file: that of arrays which are shared instead of copied
WRITER, VERSION = "tfn", 1
CHECKSUM = "crc32"
TEXTS = "__metadata__"  # where the format has texts, among the names of arrays
SHOWN = 4  # differences from a template

# fmt: off
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in {
    "BOOL": np.bool_, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
    "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F64": np.float64,
    "C64": np.complex64,
}.items()}
# fmt: on
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def names(pytree: Any) -> list[str]:
    """What the leaves of a tree are called in a file: their paths, with dots.

    Raises:
        ArgumentError: if two would have one name.

    Example:
        >>> names({"w": [1, 2], "b": 3})
        ['b', 'w.0', 'w.1']
    """
    found = [
        tree.keystr(path, simple=True, separator=".") for path, _ in tree.leaves_with_path(pytree)
    ]
    for name, times in Counter([*found, TEXTS]).items():
        if times > 1:
            raise ArgumentError(
                "two leaves would have one name in the file",
                got=name,
                hint="keys of dicts must not hold dots",
            )
    return found


# Writing.


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` when all of it is on the disk.

    Whatever happens before that - an error, an interrupt, the end of the process or of the machine
    - `path` is what it was: there is never half a file.
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, is on the disk
    finally:
        os.close(folder)


def save(path: PathLike, pytree: Any, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write the arrays and numbers of a tree to a file, which is whole or not there.

    Args:
        metadata: texts to be kept with them.

    Raises:
        ArgumentError: for a leaf that is no array or number, or two of one name.
        OSError: if the system refuses; the file is then what it was.

    Example:
        >>> save("/tmp/tfn-example.safetensors", {"w": jnp.ones((2, 3)), "epoch": 7})
        >>> load("/tmp/tfn-example.safetensors")["w"].shape
        (2, 3)
    """
    leaves = {name: _data(name, x) for name, x in zip(names(pytree), tree.leaves(pytree))}
    # No holes are allowed in a file, so what would put others out of line comes last.
    order = sorted(leaves, key=lambda n: (leaves[n].nbytes % ALIGNMENT != 0, -leaves[n].itemsize))
    header: dict[str, Any] = {}
    end, checksum = 0, 0
    for name in order:
        data = leaves[name]
        header[name] = {
            "dtype": NAMES[data.dtype],
            "shape": data.shape,
            "data_offsets": (end, end + data.nbytes),
        }
        end += data.nbytes
        checksum = zlib.crc32(_bytes(data), checksum)
    own = {WRITER: str(VERSION), CHECKSUM: str(checksum)}
    text = json.dumps({TEXTS: {**(metadata or {}), **own}, **header}).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    with replacing(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(_bytes(leaves[name]))


def _data(name: str, x: Any) -> Data:
    """A leaf as contiguous data of a dtype that the format has."""
    data = np.asarray(x)
    if data.dtype not in NAMES:
        raise ArgumentError(
            "only arrays and numbers can be saved",
            got=f"{name}: {type(x).__name__} of dtype {data.dtype}",
        )
    return np.ascontiguousarray(data).reshape(data.shape)


def _bytes(data: Data) -> memoryview:
    return data.reshape(-1).view(np.uint8).data


# Reading.


def mapped(path: PathLike) -> dict[str, Data]:
    """The arrays of a file as read-only views of it, of any dtype that the format has.

    Args:
        path: of a file, or of the index (``model.safetensors.index.json``) of several, as large
            models of other libraries have it.

    Raises:
        StateError: if a file is damaged, or not of this format.
        OSError: if one cannot be opened.
    """
    if Path(path).suffix != ".json":
        return _open(path)[0]
    try:
        places: dict[str, str] = json.loads(Path(path).read_text())["weight_map"]
        files = {file: _open(Path(path).parent / file)[0] for file in sorted({*places.values()})}
        return {name: files[file][name] for name, file in places.items()}
    except StateError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"{os.fspath(path)} is no index of the arrays beside it", got=repr(error)
        ) from None


def metadata(path: PathLike) -> dict[str, str]:
    """The texts that were saved with the arrays of a file.

    Raises:
        StateError, OSError: as `mapped`.
    """
    return _open(path)[1]


def _open(path: PathLike) -> tuple[dict[str, Data], dict[str, str]]:
    from safetensors import SafetensorError, safe_open

    found: dict[str, Data] = {}
    try:
        # By its number, so that both see one file, even if another takes its place meanwhile.
        with open(path, "rb") as raw, safe_open(f"/dev/fd/{raw.fileno()}", "numpy") as file:
            texts = dict(file.metadata() or {})
            buffer = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
            at = 8 + int.from_bytes(buffer[:8], "little")
            for name in file.offset_keys():  # one begins where the other ends
                described = file.get_slice(name)
                dtype, shape = described.get_dtype(), tuple(described.get_shape())
                if dtype not in DTYPES:
                    raise StateError(
                        f"{os.fspath(path)} holds numbers that NumPy has no type for",
                        got=f"{name}: {dtype}",
                    )
                found[name] = np.ndarray(shape, DTYPES[dtype], buffer, at)
                at += found[name].nbytes
    except SafetensorError as error:
        raise StateError(
            f"{os.fspath(path)} is no whole safetensors file",
            got=str(error),
            hint="it was cut off, damaged, or is of another format",
        ) from None
    if texts.get(WRITER, str(VERSION)) != str(VERSION):
        raise StateError(
            f"{os.fspath(path)} was written by another version of tfn",
            got=f"version {texts[WRITER]} of the file, {VERSION} is known",
            hint="install that tfn",
        )
    return found, texts


def verify(path: PathLike) -> None:
    """Read all bytes of a file written by `save`, and compare their checksum.

    Raises:
        StateError: if it differs, or there is none.
        OSError: if the file cannot be read.
    """
    arrays, texts = _open(path)
    checksum = 0
    for data in arrays.values():
        checksum = zlib.crc32(_bytes(data), checksum)
    if texts.get(CHECKSUM) != str(checksum):
        raise StateError(
            f"{os.fspath(path)} is damaged",
            got=f"checksum {checksum} of its data, {texts.get(CHECKSUM, 'none')} in its header",
        )


def load(path: PathLike, template: Any = None) -> Any:
    """The tree that was saved in a file.

    Args:
        path: of a file or an index, as of `mapped`.
        template: a tree of arrays, of `ShapeDtypeStruct`s, or of numbers, of the structure that is
            wanted; what it holds says which shapes and dtypes are expected.  If None, the result
            is a dict of arrays by their names.

    Raises:
        StateError: if the file is damaged, or does not hold what the template describes.
        OSError: if it cannot be opened.

    Example:
        >>> save("/tmp/tfn-example.safetensors", {"w": jnp.ones((2, 3)), "epoch": 7})
        >>> load("/tmp/tfn-example.safetensors", {"w": jnp.zeros((2, 3)), "epoch": 0})["epoch"]
        7
        >>> load("/tmp/tfn-example.safetensors", {"w": jnp.zeros((3, 2)), "epoch": 0})
        Traceback (most recent call last):
          ...
        tfn.errors.StateError: /tmp/tfn-example.safetensors does not fit the template
          got: w is float32[2,3] in the file, float32[3,2] in the template
        ...
    """
    found = mapped(path)
    if template is None:
        return {name: _array(data) for name, data in found.items()}
    leaves, structure = tree.flatten(template)
    asked = dict(zip(names(template), leaves, strict=True))
    wrong = [*_differences(found, asked)]
    if wrong:
        more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise StateError(
            f"{os.fspath(path)} does not fit the template", got="; ".join(wrong[:SHOWN]) + more
        )
    return tree.unflatten(structure, [_like(x, found[name]) for name, x in asked.items()])


def _differences(found: Mapping[str, Data], asked: Mapping[str, Any]) -> Iterator[str]:
    for name, x in asked.items():
        if name not in found:
            yield f"{name} is not in the file"
            continue
        data = found[name]
        expected = np.asarray(x) if isinstance(x, NUMBERS) else x
        if (data.shape, data.dtype) != (tuple(expected.shape), expected.dtype):
            yield f"{name} is {_kind(data)} in the file, {_kind(expected)} in the template"
    yield from (f"{name} is not in the template" for name in found if name not in asked)


def _kind(x: Any) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _like(x: Any, data: Data) -> Any:
    """Data as what the template has in their place."""
    if isinstance(x, NUMBERS):
        return type(x)(data.item())
    return data if isinstance(x, np.ndarray) else _array(data)


def _array(data: Data) -> Array:
    """An array on the memory of the file, which nobody writes; a copy, where it is not aligned."""
    aligned = data.__array_interface__["data"][0] % ALIGNMENT == 0
    return jnp.asarray(data, copy=False if aligned else None)
