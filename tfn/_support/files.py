"""Atomic files: written whole or not at all; and parsers of untrusted files."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tfn.errors import OutOfMemoryError, StateError, TfnError

PathLike = str | os.PathLike[str]

_PROCESS = os.urandom(4).hex()  # process ids are reused, as after a container restarts
_COUNT = itertools.count()
_UNFINISHED = re.compile(r"\.(.+)\.(\d+(?:-[0-9a-f]{8})?)(?:-\d+)?\.tmp", re.DOTALL)


def _writer() -> str:
    return f"{os.getpid()}-{_PROCESS}"


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Opens a file to write, which replaces `path` once all of it is on the disk.

    After an error, an interrupt, the end of the process or a crash of the machine before that,
    `path` is unchanged: there is never half a file.  Only a process that is killed leaves an
    unfinished file beside it, see `unfinished`.  A symbolic link is followed; a device or a pipe
    is written to directly.

    Raises:
        OSError: if the system refuses; the file is then unchanged.

    Example:
        >>> with replacing("/tmp/tfn-example.bin") as file:
        ...     _ = file.write(b"all of it")
        >>> Path("/tmp/tfn-example.bin").read_bytes()
        b'all of it'
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            yield file
        return
    part = path.with_name(f".{path.name}.{_writer()}-{next(_COUNT)}.tmp")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no folder for the file", str(path))
    try:
        with open(part, "xb") as file:  # "x": a new file, so that no link is followed
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: PathLike) -> None:
    """Waits until the names in a folder are on the disk, as those of new files.

    Raises:
        OSError: if the system refuses.

    Example:
        >>> sync_folder("/tmp")
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unfinished(folder: PathLike, names: re.Pattern[str]) -> list[Path]:
    """Files of matching names that `replacing` left in a folder when its process was killed.

    Example:
        >>> import tempfile
        >>> unfinished(tempfile.mkdtemp(), re.compile(".*"))
        []
    """
    matches = ((name, _UNFINISHED.fullmatch(name)) for name in os.listdir(folder))
    return [
        Path(folder) / name
        for name, match in matches
        if match and names.fullmatch(match[1]) and match[2] != _writer()
    ]


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object of JSON: an `object_pairs_hook`.

    Raises:
        ValueError: for a name that is there twice.

    Example:
        >>> unique([("a", 1), ("b", 2)])
        {'a': 1, 'b': 2}
    """
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a name that is there twice")
    return record


@contextmanager
def parsing(path: PathLike, what: str, error: type[TfnError] = StateError) -> Iterator[None]:
    """Turns the errors that a parser raises for damaged bytes into one error of tfn.

    Parsers, above all those of other libraries, raise errors of many classes for bytes that they
    do not expect.  Errors of the operating system and of tfn pass through.

    Args:
        path: of the file, for the message.
        what: the expected kind of file, for the message: "whole safetensors file".
        error: the class to raise.

    Raises:
        OutOfMemoryError: if a size in the file is larger than the memory.

    Example:
        >>> with parsing("a.json", "list of numbers"):
        ...     int("?")
        Traceback (most recent call last):
          ...
        tfn.errors.StateError: a.json is no list of numbers
          got: ValueError: invalid literal for int() with base 10: '?'
        ...
    """
    try:
        yield
    except TfnError:
        raise
    except MemoryError as caught:
        raise OutOfMemoryError(
            f"{os.fspath(path)} does not fit into memory",
            got=str(caught),
            hint="a damaged file may ask for more than it holds",
        ) from caught
    except Exception as caught:
        if isinstance(caught, OSError) and caught.errno not in (None, errno.EINVAL):
            raise  # EINVAL is an impossible offset, which the damaged file itself names
        raise error(
            f"{os.fspath(path)} is no {what}",
            got=f"{type(caught).__name__}: {caught}"[:300],
            hint="it was cut off, damaged, or is of another format",
        ) from caught
