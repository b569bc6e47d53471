"""The files of pieces: written by one host, and read by any, only where it is asked to.

A part of an array is read from the pieces that it overlaps, and of them only the runs of bytes that
belong to it, by ``pread``: an array that is larger than memory is loaded by hosts that each need a
part of it.  A piece of which a host needs nearly all is read whole, once for all of its devices,
and compared with its digest on the way.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from tfn._support.background import Background
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.extend import PathLike, mutable, parsing
from tfn.nn import safetensors
from tfn.nn.checkpoint.manifest import Entry, File, Manifest, Piece, Shape, Written, values
from tfn.nn.checkpoint.pieces import Data, Owned

READ_BYTES = 1 << 20  # read at a time: what fits into the cache of a core
SYNCED_BYTES = 32 << 20
"""Of pieces that are synced and read back together, beside which the wait for the disk is short."""
THREADS = 4
"""For reading and hashing: more than cores, since some wait for the disk."""
WHOLE_SHARE = 3 / 4
"""The share of a piece from which on all of it is read: then it need not be read again to be
verified."""
MOST_GAP_BYTES = 4096
"""Between runs that are read together: the disk reads whole pages anyway, and a read costs 1 us."""

Box = tuple[Shape, Shape]
"""A part of an array: its first element and its shape."""


def write_pieces(path: Path, owned: Sequence[Owned], token: str) -> Written:
    """Writes the pieces of a host to a file, and reads it back: what it says is on the disk.

    Threads compute the digests, and read back what has been synced, while the next pieces are
    written.

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
    running: list[Background[None]] = []

    def hash_piece(name: str, data: Data) -> None:
        digests[name] = hashlib.sha256(_bytes(data)).hexdigest()

    def hashed(name: str) -> Data:
        while running:  # one piece is hashed while it is written, and no more of them
            running.pop().result()
        data = parts[name].read()
        if data.nbytes > READ_BYTES:
            running.append(Background(partial(hash_piece, name, data)))
        else:
            hash_piece(name, data)
        return data

    back = _ReadBack(path)
    crc32 = safetensors.write(path, parts, hashed, metadata={"token": token}, written=back.written)
    for last in running:
        last.result()
    pieces = [(p.array, p.piece._replace(sha256=digests[p.piece.name])) for p in owned]
    header = _header_sha256(path, safetensors.contents(path))
    return Written(File(path.name, os.path.getsize(path), crc32, header), tuple(pieces))


class _ReadBack:
    """Compares what is on the disk with what was written, some MiB at a time, on a thread.

    Raises:
        DamagedError: from `written`, if other bytes are read.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._size_bytes = path, 0
        self._parts: list[tuple[int, Data]] = []
        self._running: Background[None] | None = None

    def written(self, file: IO[bytes], at: int, data: Data | None) -> None:
        """Take an array at its offset; after the last one wait until all are compared."""
        if data is not None:
            self._parts.append((at, _bytes(data)))
            self._size_bytes += data.nbytes
            if self._size_bytes < SYNCED_BYTES:
                return
        if self._running is not None:
            self._running.result()
        if self._parts:
            file.flush()
            self._running = Background(partial(self._compare, file.name, self._parts))
            self._parts, self._size_bytes = [], 0
            if data is None:
                self._running.result()

    def _compare(self, name: str, parts: list[tuple[int, Data]]) -> None:
        memory = np.empty(READ_BYTES, np.uint8)
        with open(name, "rb", buffering=0) as file:
            os.fdatasync(file.fileno())
            begin, end = parts[0][0], parts[-1][0] + parts[-1][1].size
            # Or else the pages that were just written would be read, from memory.
            os.posix_fadvise(file.fileno(), begin, end - begin, os.POSIX_FADV_DONTNEED)
            for start, raw in parts:
                for at in range(0, raw.size, READ_BYTES):
                    expected = raw[at : at + READ_BYTES]
                    n = os.preadv(file.fileno(), [memory[: expected.size].data], start + at)
                    if n != expected.size or not _equal(memory[:n], expected):
                        raise DamagedError(
                            f"{self._path} does not hold what was written to it",
                            got=f"other bytes from {start + at:,} on",
                            hint="the disk or the file system loses data",
                        )


def _equal(a: Data, b: Data) -> bool:
    """Whether bytes are equal: by words, of which there are fewer."""
    whole = a.size // 8 * 8
    words = np.array_equal(a[:whole].view(np.uint64), b[:whole].view(np.uint64))
    return words and np.array_equal(a[whole:], b[whole:])


def _header_sha256(path: Path, contents: safetensors.Contents) -> str:
    """The digest of a header, of which the digests of pieces say nothing."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(contents.start)).hexdigest()


def _bytes(data: Data) -> Any:
    return data.reshape(-1).view(np.uint8)


class Reader:
    """The arrays of a checkpoint, by parts.

    Attributes:
        manifest: of the checkpoint.
        bytes_read: of data, so far; headers are not counted.
        verified: pieces whose digests have been compared, by file and name.

    Example:
        >>> from tfn.nn.checkpoint.manifest import read
        >>> path = "/tmp/tfn-example.safetensors"
        >>> from tfn.nn import state
        >>> state.save(path, {"w": np.arange(12.0).reshape(4, 3)})
        >>> with Reader(path, read(path)) as reader:
        ...     rows = reader.part("w", ((2, 0), (1, 3)))
        >>> rows.tolist(), reader.bytes_read
        ([[6.0, 7.0, 8.0]], 24)
    """

    def __init__(self, path: PathLike, manifest: Manifest, source: Source | None = None) -> None:
        self.manifest = manifest
        self.bytes_read = 0
        self.verified: set[tuple[int, str]] = set()
        self._place = Path(path)
        self._source = source or _Files(path, manifest)
        self._values = values(manifest)
        self._lock = threading.RLock()  # parts are read by several threads

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._source.close()

    def type_of(self, name: str) -> tuple[Shape, np.dtype[Any]]:
        """The shape and the dtype of an array."""
        if name in self._values:
            return self._values[name].shape, self._values[name].dtype
        entry = self.manifest.arrays[name]
        return entry.shape, safetensors.DTYPES[entry.dtype]

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
        return self.parts(name, [box])[0]

    def parts(self, name: str, boxes: Sequence[Box]) -> list[Data]:
        """Parts of an array, as `part` gives them: what several need of a piece is read once."""
        if name in self._values:
            return [np.array(self._values[name][_index(box)]) for box in boxes]
        entry = self.manifest.arrays[name]
        dtype = safetensors.DTYPES[entry.dtype]
        outs = [safetensors.aligned(shape, dtype) for _, shape in boxes]
        for piece in entry.pieces:
            own = piece.start, piece.shape
            shared = [(i, _intersection(box, own)) for i, box in enumerate(boxes)]
            needed = [(i, both) for i, both in shared if both is not None]
            if sum(prod(both[1]) for _, both in needed) >= WHOLE_SHARE * prod(piece.shape):
                self._cut(outs, boxes, piece, needed, dtype)
            else:
                for i, both in needed:
                    self._fill(outs[i], boxes[i], piece, both, dtype)
        for out in outs:
            most = safetensors.LARGEST_BYTES.get(dtype)
            if most is not None and out.view(np.uint8).max(initial=0) > most:
                raise DamagedError(
                    f"{self._place} is damaged", got=f"{name} of {dtype} holds more than {most}"
                )
            out.flags.writeable = False
        return outs

    def _cut(
        self,
        outs: Sequence[Data],
        boxes: Sequence[Box],
        piece: Piece,
        needed: Sequence[tuple[int, Box]],
        dtype: np.dtype[Any],
    ) -> None:
        """Read a piece whole, for the parts that need some of it."""
        own = piece.start, piece.shape
        whole: Data | None = None
        if len(needed) == 1 and needed[0][1] == own:
            target = _part(outs[needed[0][0]], own, boxes[needed[0][0]])
            if target.flags.c_contiguous:
                self._read_whole(piece, dtype, target)
                return
        for i, both in needed:
            if whole is None:
                whole = np.empty(piece.shape, dtype)
                self._read_whole(piece, dtype, whole)
            _part(outs[i], both, boxes[i])[...] = _part(whole, both, own)

    def _fill(self, out: Data, box: Box, piece: Piece, both: Box, dtype: np.dtype[Any]) -> None:
        """Read what a part needs of a piece, and no more."""
        target = _part(out, both, box)
        source = _within(both, (piece.start, piece.shape))
        for read in _reads(source, piece.shape, dtype.itemsize):
            raw = np.empty((read.rows - 1) * read.stride_bytes + read.run_bytes, np.uint8)
            self._source.read(piece, dtype, raw, read.offset)
            self._count(raw.size)
            strides = (read.stride_bytes, 1)
            runs = np.lib.stride_tricks.as_strided(raw, (read.rows, read.run_bytes), strides)
            rows = target[None][read.to]
            rows[...] = np.ascontiguousarray(runs).view(dtype).reshape(rows.shape)

    def _read_whole(self, piece: Piece, dtype: np.dtype[Any], out: Data | None) -> None:
        """Read a piece to memory, or only to verify it."""
        raw = None if out is None else out.reshape(-1).view(np.uint8)
        self._source.whole(piece, dtype, raw)
        self._count(prod(piece.shape) * dtype.itemsize)
        if piece.sha256 is not None:
            with self._lock:
                self.verified.add((piece.file, piece.name))

    def _count(self, size_bytes: int) -> None:
        with self._lock:
            self.bytes_read += size_bytes

    def verify(self, share: slice = slice(None)) -> None:
        """Reads the pieces that have not been verified yet, and compares their digests.

        Args:
            share: of all pieces, those of this host; all by default.

        Raises:
            DamagedError: for the first that is not what was written.
        """
        pieces = [(e, p) for _, e in sorted(self.manifest.arrays.items()) for p in e.pieces]

        def verify(pair: tuple[Entry, Piece]) -> None:
            self._read_whole(pair[1], safetensors.DTYPES[pair[0].dtype], None)

        left = [
            (entry, piece)
            for entry, piece in pieces[share]
            if (piece.file, piece.name) not in self.verified and piece.sha256 is not None
        ]
        with ThreadPoolExecutor(THREADS) as threads:
            for _ in threads.map(verify, left):
                pass
        if any(piece.sha256 is None for _, piece in pieces):
            self.verify_files()

    def verify_files(self) -> None:
        """Reads all files, and compares their checksums.

        Raises:
            DamagedError: for the first that is not what was written.
        """
        self._source.verify_files()


class Source(Protocol):
    """The bytes of pieces."""

    def read(self, piece: Piece, dtype: np.dtype[Any], out: Data, offset: int) -> None:
        """Fill memory with bytes of a piece, from an offset on."""

    def whole(self, piece: Piece, dtype: np.dtype[Any], out: Data | None) -> None:
        """Fill memory with all bytes of a piece, which are verified, or only verify them."""

    def verify_files(self) -> None:
        """Verify what no digest of a piece covers."""

    def close(self) -> None:
        """Close all files."""


class _Files:
    """The bytes of pieces in the files beside a manifest."""

    def __init__(self, path: PathLike, manifest: Manifest) -> None:
        self._folder = Path(path) if Path(path).is_dir() else Path(path).parent
        self._manifest = manifest
        self._open: dict[int, _Opened] = {}
        self._lock = threading.RLock()

    def close(self) -> None:
        for opened in self._open.values():
            os.close(opened.descriptor)
        self._open.clear()

    def read(self, piece: Piece, dtype: np.dtype[Any], out: Data, offset: int) -> None:
        opened, begin = self._place(piece, dtype)
        self._pread(opened, out, begin + offset)

    def whole(self, piece: Piece, dtype: np.dtype[Any], out: Data | None) -> None:
        opened, begin = self._place(piece, dtype)
        digest, size_bytes = hashlib.sha256(), prod(piece.shape) * dtype.itemsize
        memory = np.empty(min(READ_BYTES, size_bytes), np.uint8) if out is None else out
        for at in range(0, size_bytes, READ_BYTES):
            place = 0 if out is None else at
            some = memory[place : place + min(READ_BYTES, size_bytes - at)]
            self._pread(opened, some, begin + at)
            if piece.sha256 is not None:
                digest.update(some.data)
        if piece.sha256 is not None and digest.hexdigest() != piece.sha256:
            raise DamagedError(
                f"{opened.path} is damaged",
                got=f"another digest of {piece.name} than the manifest has",
                hint="it was altered after it was written, by a disk or by another program",
            )

    def _pread(self, opened: _Opened, raw: Data, offset: int) -> None:
        """Fill memory from a place of a file."""
        view, done = raw.data, 0
        while done < len(view):
            n = os.preadv(opened.descriptor, [view[done:]], offset + done)
            if not n:
                raise DamagedError(f"{opened.path} was cut off")
            done += n

    def _place(self, piece: Piece, dtype: np.dtype[Any]) -> tuple[_Opened, int]:
        """The file of a piece, opened, and the offset of its first byte."""
        with self._lock:
            if piece.file not in self._open:
                self._open[piece.file] = self._opened(self._manifest.files[piece.file])
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
                contents = safetensors.contents(path)
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

    def verify_files(self) -> None:
        for number, file in enumerate(self._manifest.files):
            if number not in self._open:
                self._open[number] = self._opened(file)
            if file.crc32 is not None:
                try:
                    safetensors.verify(self._folder / file.name)
                except StateError as error:
                    raise DamagedError(error.what, got=error.got, hint=error.hint) from error


@mutable
class _Opened:
    """A file that is open for reading."""

    path: Path
    descriptor: int
    contents: safetensors.Contents


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


def _index(box: Box) -> tuple[slice, ...]:
    return tuple([slice(a, a + n) for a, n in zip(*box, strict=True)])


def _part(data: Data, inner: Box, outer: Box) -> Data:
    """A view of the data of a part, which is in that of another."""
    at: tuple[Any, ...] = (*_within(inner, outer), ...)
    part: Data = data[at]
    return part


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
