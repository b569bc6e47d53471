"""Object cache on disk: bytes under a digest of everything that determines them.

Objects are executed, so write access to the cache is code execution as its user.  A checksum
does not prove where a file comes from; its owner does.  A folder is trusted if it belongs to the
user of this process and no other user may write to it; a file likewise, and it must not be a link.
Both are checked after they were opened, so it makes no difference who may rename a parent folder,
or replace a name later.

A file is a magic string, a checksum of key and content, and the content.  Files appear by rename,
so that processes may share a folder.  A file that is truncated, altered or renamed counts as
absent: its content is made and written again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tfn._support import events
from tfn._support.cache import Cache
from tfn.config import config

LIMIT_BYTES = 512 << 20
"""The size limit of a part; beyond it, the least recently used files are removed."""
UNFINISHED_SECONDS = 3600
"""An unfinished file older than this belongs to a process that has died."""

_MAGIC = b"tfn cache 1\n"
_HEAD_BYTES = len(_MAGIC) + hashlib.sha256().digest_size
_KEY = re.compile("[0-9a-f]{64}")
_FILE = re.compile(_KEY.pattern + "[.]bin")
_UNFINISHED = re.compile(_KEY.pattern + "[.][0-9a-f]{16}[.]part")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not block
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_warned: set[Path] = set()


@dataclass
class Counts:
    """Counts of texts that were compiled, and of objects that were found in a cache."""

    compiled: int = 0
    from_disk: int = 0
    from_memory: int = 0

    def find(self, memory: Cache[bytes], part: str, key: str) -> bytes | None:
        """The object under a key in memory, or in a part of the cache; None if there is none."""
        data = memory.find(key)
        if data is not None:
            self.from_memory += 1
        elif (data := fetch(part, key)) is not None:
            self.from_disk += 1
            memory.keep(key, data)
        return data


def fetch(part: str, key: str) -> bytes | None:
    """The bytes under a key in a part of the cache; None if there are none to be trusted.

    Args:
        part: the name of a folder within the cache folder.
        key: a SHA-256 digest in hexadecimal digits.
    """
    if not config.disk_cache or not _KEY.fullmatch(key):
        return None
    try:
        folder = _open(part)
    except PermissionError as error:
        _warn(error)
        return None
    except OSError:  # there is none yet
        return None
    try:
        content = _read(folder, name := f"{key}.bin")
        data = content[_HEAD_BYTES:]
        if content[:_HEAD_BYTES] != _head(key, data):
            return None
        with suppress(OSError):  # a folder that cannot be written is read all the same
            os.utime(name, dir_fd=folder, follow_symlinks=False)  # for `prune`
        return data
    except OSError:
        return None
    finally:
        os.close(folder)


def store(part: str, key: str, data: bytes) -> bool:
    """Store bytes under a key, if possible; the first failure gives a warning.

    Returns:
        Whether they were stored.
    """
    if not config.disk_cache:
        return False
    try:
        folder = _open(part, make=True)
        try:
            _write(folder, key, _head(key, data) + data)
        finally:
            os.close(folder)
        if key < "0008":  # one store in 8,192: a full folder takes a second to scan
            prune(part)
    except OSError as error:
        _warn(error)
        return False
    return True


def prune(part: str, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove the least recently used files until the rest fits the limit.

    Files of other programs, recognised by their names and by the magic string, stay.

    Raises:
        OSError: if the folder is not the user's own, or cannot be read.
    """
    begin_ns, removed = time.perf_counter_ns(), []
    folder = _open(part)
    try:
        files, total, oldest = [], 0, time.time() - UNFINISHED_SECONDS
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):  # another process may prune too
                    name, status = entry.name, entry.stat(follow_symlinks=False)
                    if _own(status) and _FILE.fullmatch(name):
                        files.append((status.st_mtime, status.st_size, name))
                        total += status.st_size
                    elif _UNFINISHED.fullmatch(name) and status.st_mtime < oldest:
                        _remove(folder, name)
        for _, size, name in sorted(files):
            if total <= limit_bytes:
                return
            total -= size
            with suppress(OSError):
                _remove(folder, name)
                removed.append(size)
    finally:
        os.close(folder)
        if removed:
            said = f"{len(removed):,} files, {sum(removed):,} bytes of {part}"
            events.add("cache", "disk eviction", begin_ns, said)


def _head(key: str, data: bytes) -> bytes:
    """The first bytes of a file.  The checksum covers the key: a renamed file is refused."""
    checksum = hashlib.sha256(key.encode())
    checksum.update(data)
    return _MAGIC + checksum.digest()


def _open(part: str, make: bool = False) -> int:
    """A descriptor of a part of the cache.

    Raises:
        PermissionError: if it is not the user's own.
        OSError: if there is no such folder, or it cannot be made.
    """
    root = config.cache_dir
    try:
        parent = _checked(os.open(root, _FOLDER), root)
        try:
            return _checked(os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=parent), root / part)
        finally:
            os.close(parent)
    except FileNotFoundError:
        if not make:
            raise
    for folder in (*reversed(root.parents), root, root / part):
        if not folder.is_dir():
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(folder, 0o700)
    return _open(part)


def _checked(folder: int, path: Path) -> int:
    """The descriptor of a folder that only the user may write to."""
    try:
        status = os.fstat(folder)
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        if mode & _OTHERS_WRITE:
            raise PermissionError(f"others may write to {path}, whose mode is {mode:03o}")
    except OSError:
        os.close(folder)
        raise
    return folder


def _own(status: os.stat_result) -> bool:
    """Whether a file is regular, belongs to the user, and is writable by no one else."""
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_uid == os.geteuid()
        and not status.st_mode & _OTHERS_WRITE
    )


def _read(folder: int, name: str, size_bytes: int | None = None) -> bytes:
    """The content of a file, or its first `size_bytes`; empty if it is not to be trusted."""
    file = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(file)
        size_bytes = status.st_size if size_bytes is None else size_bytes
        return os.read(file, size_bytes) if _own(status) and size_bytes <= LIMIT_BYTES else b""
    finally:
        os.close(file)


def _write(folder: int, key: str, content: bytes) -> None:
    unfinished = f"{key}.{os.urandom(8).hex()}.part"
    file = os.open(unfinished, _CREATE, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        os.replace(unfinished, f"{key}.bin", src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _remove(folder: int, name: str) -> None:
    """Remove a file if it begins with the magic string."""
    if _read(folder, name, len(_MAGIC)) == _MAGIC:
        os.unlink(name, dir_fd=folder)


def _warn(error: OSError) -> None:
    """Warn once that nothing is stored, and why."""
    if config.cache_dir not in _warned:
        _warned.add(config.cache_dir)
        warnings.warn(
            f"compiled code is not kept on disk: {error}; set TFN_CACHE_DIR to a folder that is "
            "yours alone (chmod 700), or TFN_DISK_CACHE=0",
            RuntimeWarning,
            stacklevel=2,
        )
