"""The files of pieces: written by one host, and read by any, only where it is asked to.

A part of an array is read from the pieces that it overlaps, and of them only the runs of bytes that
belong to it, by ``pread``: an array that is larger than memory is loaded by hosts that each need a
part of it.  A piece that is read whole is compared with its digest on the way.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from tfn._support.files import PathLike, parsing
from tfn._support.frozen import mutable
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.nn import state
from tfn.nn.checkpoint.manifest import File, Manifest, Piece, Shape, Written, values
from tfn.nn.checkpoint.pieces import Data, Owned

READ_BYTES = 1 << 20  # read at a time: what fits into the cache of a core
MOST_GAP_BYTES = 4096
"""Between runs that are read together: the disk reads whole pages anyway, and a read costs 1 us."""

Box = tuple[Shape, Shape]
"""A part of an array: its first element and its shape."""


def write_pieces(path: Path, owned: Sequence[Owned], token: str) -> Written:
    """Writes the pieces of a host to a file, and reads it back: what it says is on the disk.

    Args:
        path: file to write, replaced as a whole.
        owned: the pieces.
        token: of the save, for the header.

    Raises:
        ArgumentError: if two pieces have one name.
        DamagedError: if other bytes are read than were written.
        OSError: if the system refuses; then there is no file.
    """
    parts = {part.piece.name: part for part in owned}
    for name, times in Counter(part.piece.name for part in owned).items():
        if times > 1:
            raise ArgumentError("two pieces would have one name in the file", got=name)
    digests: dict[str, str] = {}

    def hashed(name: str) -> Data:
        data = parts[name].read()
        digests[name] = hashlib.sha256(_bytes(data)).hexdigest()
        return data

    crc32 = state.write(path, parts, hashed, metadata={"token": token})
    try:
        _read_back(path, parts)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    pieces = [(p.array, p.piece._replace(sha256=digests[p.piece.name])) for p in owned]
    header = _header_sha256(path, state.contents(path))
    return Written(File(path.name, os.path.getsize(path), crc32, header), tuple(pieces))


def _header_sha256(path: Path, contents: state.Contents) -> str:
    """The digest of a header, of which the digests of pieces say nothing."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(contents.start)).hexdigest()


def _bytes(data: Data) -> Any:
    return data.reshape(-1).view(np.uint8)


def _read_back(path: Path, parts: dict[str, Owned]) -> None:
    """Compares a file with the arrays that were written to it, read from the disk."""
    contents = state.contents(path)
    with open(path, "rb", buffering=0) as file:
        # Or else the pages that were just written would be read, from memory.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for name, part in parts.items():
            begin, raw = contents.start + contents.places[name].begin, _bytes(part.read())
            for at in range(0, raw.size, READ_BYTES):
                expected = raw[at : at + READ_BYTES]
                found = os.pread(file.fileno(), expected.size, begin + at)
                if not np.array_equal(np.frombuffer(found, np.uint8), expected):
                    raise DamagedError(
                        f"{path} does not hold what was written to it",
                        got=f"other bytes in {name}, from {begin + at:,} on",
                        hint="the disk or the file system loses data",
                    )


class Reader:
    """The arrays of a checkpoint, by parts.

    Attributes:
        manifest: of the checkpoint.
        bytes_read: of data, so far; headers are not counted.
        verified: pieces whose digests have been compared, by file and name.

    Example:
        >>> from tfn.nn.checkpoint.manifest import read
        >>> path = "/tmp/tfn-example.safetensors"
        >>> state.save(path, {"w": np.arange(12.0).reshape(4, 3)})
        >>> with Reader(path, read(path)) as reader:
        ...     rows = reader.part("w", ((2, 0), (1, 3)))
        >>> rows.tolist(), reader.bytes_read
        ([[6.0, 7.0, 8.0]], 24)
    """

    def __init__(self, path: PathLike, manifest: Manifest) -> None:
        self.manifest = manifest
        self.bytes_read = 0
        self.verified: set[tuple[int, str]] = set()
        self._folder = Path(path) if Path(path).is_dir() else Path(path).parent
        self._values = values(manifest)
        self._open: dict[int, _Opened] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for opened in self._open.values():
            os.close(opened.descriptor)
        self._open.clear()

    def type_of(self, name: str) -> tuple[Shape, np.dtype[Any]]:
        """The shape and the dtype of an array."""
        if name in self._values:
            return self._values[name].shape, self._values[name].dtype
        entry = self.manifest.arrays[name]
        return entry.shape, state.DTYPES[entry.dtype]

    def whole(self, name: str) -> Data:
        """All of an array."""
        shape, _ = self.type_of(name)
        return self.part(name, ((0,) * len(shape), shape))

    def part(self, name: str, box: Box) -> Data:
        """A part of an array, read-only, in memory of its own.

        Args:
            name: of the array.
            box: the first element and the shape of the part.

        Raises:
            DamagedError: if a file is cut short, or a piece that was read whole is not what was
                written.
        """
        start, shape = box
        if name in self._values:
            at = tuple([slice(a, a + n) for a, n in zip(start, shape, strict=True)])
            return np.array(self._values[name][at])
        entry = self.manifest.arrays[name]
        dtype = state.DTYPES[entry.dtype]
        out = state.aligned(shape, dtype)
        for piece in entry.pieces:
            both = _intersection(box, (piece.start, piece.shape))
            if both is not None:
                self._fill(out, box, piece, both, dtype)
        if dtype == np.bool_ and out.view(np.uint8).max(initial=0) > 1:
            raise DamagedError(f"{self._folder} is damaged", got=f"{name} of bool holds a 2")
        out.flags.writeable = False
        return out

    def _fill(self, out: Data, box: Box, piece: Piece, both: Box, dtype: np.dtype[Any]) -> None:
        """Read what a piece has of a part."""
        place: tuple[Any, ...] = (*_within(both, box), ...)
        target = out[place]
        if both == (piece.start, piece.shape):
            if target.flags.c_contiguous:
                self._read_whole(piece, dtype, target)
            else:
                target[...] = self._read_whole(piece, dtype, np.empty(piece.shape, dtype))
            return
        opened, begin = self._place(piece, dtype)
        source = _within(both, (piece.start, piece.shape))
        for read in _reads(source, piece.shape, dtype.itemsize):
            raw = np.empty((read.rows - 1) * read.stride_bytes + read.run_bytes, np.uint8)
            self._pread(opened, raw, begin + read.offset)
            strides = (read.stride_bytes, 1)
            runs = np.lib.stride_tricks.as_strided(raw, (read.rows, read.run_bytes), strides)
            rows = target[None][read.to]
            rows[...] = np.ascontiguousarray(runs).view(dtype).reshape(rows.shape)

    def _read_whole(self, piece: Piece, dtype: np.dtype[Any], out: Data) -> Data:
        opened, begin = self._place(piece, dtype)
        raw = out.reshape(-1).view(np.uint8)
        self._pread(opened, raw, begin)
        if piece.sha256 is not None:
            if hashlib.sha256(raw.data).hexdigest() != piece.sha256:
                raise DamagedError(
                    f"{opened.path} is damaged",
                    got=f"another digest of {piece.name} than the manifest has",
                    hint="it was altered after it was written, by a disk or by another program",
                )
            self.verified.add((piece.file, piece.name))
        return out

    def _pread(self, opened: _Opened, raw: Data, offset: int) -> None:
        """Fill memory from a place of a file."""
        view, done = raw.data, 0
        while done < len(view):
            n = os.preadv(opened.descriptor, [view[done:]], offset + done)
            if not n:
                raise DamagedError(f"{opened.path} was cut off")
            done += n
        self.bytes_read += done

    def _place(self, piece: Piece, dtype: np.dtype[Any]) -> tuple[_Opened, int]:
        """The file of a piece, opened, and the offset of its first byte."""
        if piece.file not in self._open:
            self._open[piece.file] = self._opened(self.manifest.files[piece.file])
        opened = self._open[piece.file]
        place = opened.contents.places.get(piece.name)
        if place is None or (place.shape, place.dtype) != (piece.shape, dtype):
            raise DamagedError(
                f"{opened.path} is not the file of its manifest",
                got=f"{piece.name} is {place and (place.dtype.name, place.shape)} in it",
                hint=f"{dtype.name}{list(piece.shape)} was written",
            )
        return opened, opened.contents.start + place.begin

    def _opened(self, file: File) -> _Opened:
        path = self._folder / file.name
        try:
            with parsing(path, "file of a checkpoint", DamagedError):
                contents = state.contents(path)
        except FileNotFoundError:
            raise DamagedError(f"{path} is gone") from None
        except StateError as error:
            raise DamagedError(error.what, got=error.got, hint=error.hint) from error
        header = file.header_sha256 and _header_sha256(path, contents)
        if (contents.checksum, header) != (file.crc32, file.header_sha256):
            raise DamagedError(
                f"{path} is not the file of its manifest",
                got=f"checksum {contents.checksum}, {file.crc32} was written, or another header",
            )
        return _Opened(path, os.open(path, os.O_RDONLY), contents)

    def verify(self, share: slice = slice(None)) -> None:
        """Reads the pieces that have not been verified yet, and compares their digests.

        Args:
            share: of all pieces, those of this host; all by default.

        Raises:
            DamagedError: for the first that is not what was written.
        """
        pieces = [(e, p) for _, e in sorted(self.manifest.arrays.items()) for p in e.pieces]
        for entry, piece in pieces[share]:
            if (piece.file, piece.name) not in self.verified and piece.sha256 is not None:
                dtype = state.DTYPES[entry.dtype]
                self._read_whole(piece, dtype, np.empty(piece.shape, dtype))
        if any(piece.sha256 is None for _, piece in pieces):
            self.verify_files()

    def verify_files(self) -> None:
        """Reads all files, and compares their checksums.

        Raises:
            DamagedError: for the first that is not what was written.
        """
        for number, file in enumerate(self.manifest.files):
            if number not in self._open:
                self._open[number] = self._opened(file)
            if file.crc32 is not None:
                try:
                    state.verify(self._folder / file.name)
                except StateError as error:
                    raise DamagedError(error.what, got=error.got, hint=error.hint) from error


@mutable
class _Opened:
    """A file that is open for reading."""

    path: Path
    descriptor: int
    contents: state.Contents


def _intersection(a: Box, b: Box) -> Box | None:
    """The part that two parts have in common; None for none, an empty one only with an empty one.

    Example:
        >>> _intersection(((0, 2), (4, 4)), ((3, 0), (4, 4)))
        ((3, 2), (1, 2))
    """
    starts, shape = [], []
    for start, size, other, length in zip(a[0], a[1], b[0], b[1], strict=True):
        begin = max(start, other)
        end = min(start + size, other + length)
        if end <= begin:
            return None
        starts.append(begin)
        shape.append(end - begin)
    return tuple(starts), tuple(shape)


def _within(inner: Box, outer: Box) -> tuple[slice, ...]:
    """The index of a part in a part that has it."""
    zipped = zip(inner[0], inner[1], outer[0], strict=True)
    return tuple([slice(a - o, a - o + n) for a, n, o in zipped])


class _Read(NamedTuple):
    """Bytes that are read at once: runs that belong to a part, at equal distances.

    Attributes:
        offset: of the first byte, in the piece.
        rows: the number of runs.
        run_bytes: the length of each.
        stride_bytes: from one to the next.
        to: the index of their elements in the part, which has a first axis of size 1 more.
    """

    offset: int
    rows: int
    run_bytes: int
    stride_bytes: int
    to: tuple[slice | int, ...]


def _reads(source: tuple[slice, ...], shape: Shape, itemsize: int) -> Iterator[_Read]:
    """The reads that give a part of a piece, from its index and the shape of the piece.

    A run goes over the last axes, as far as the part has all of them.

    Example:
        >>> [(r.offset, r.rows, r.run_bytes) for r in _reads((slice(1, 3), slice(0, 2)), (4, 2), 4)]
        [(8, 1, 16)]
    """
    source, shape = (slice(0, 1), *source), (1, *shape)
    sizes = [s.stop - s.start for s in source]
    last = len(shape) - 1
    while last > 1 and sizes[last] == shape[last]:
        last -= 1
    run, stride = prod(sizes[last:]) * itemsize, prod(shape[last:]) * itemsize
    close = stride - run < MOST_GAP_BYTES
    at_once = max(1, READ_BYTES // stride) if close else 1
    begin, end = source[last - 1].start, source[last - 1].stop
    for index in product(*[range(s.start, s.stop) for s in source[: last - 1]]):
        for row in range(begin, end, at_once):
            rows = min(at_once, end - row)
            flat = 0
            for i, n in zip((*index, row, *[s.start for s in source[last:]]), shape, strict=True):
                flat = flat * n + i
            outer = [i - s.start for i, s in zip(index, source, strict=False)]
            to = (*outer, slice(row - begin, row - begin + rows))
            yield _Read(flat * itemsize, rows, run, stride, to)
