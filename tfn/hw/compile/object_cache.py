"""Objects on disk: bytes under a digest of everything that went into them.

A file is a checksum followed by what it checks.  Files appear by rename, so that processes may
share the folder; a file that is cut short or altered is not believed and is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

LIMIT_BYTES = 512 << 20
_CHECKSUM_BYTES = 32
_warned: list[Path] = []


@dataclass
class Counts:
    """How often a text was compiled, and how often its object was found."""

    compiled: int = 0
    from_disk: int = 0
    from_memory: int = 0


def fetch(folder: Path, key: str) -> bytes | None:
    """What was stored under a key; None if nothing was, or if it is damaged."""
    path = folder / f"{key}.o"
    try:
        content = path.read_bytes()
        os.utime(path)  # `prune` removes what was not used for longest
    except OSError:
        return None
    checksum, data = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    return data if hashlib.sha256(data).digest() == checksum else None


def store(folder: Path, key: str, data: bytes) -> None:
    """Keep bytes under a key; a folder that cannot be written gives one warning, no error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(name, folder / f"{key}.o")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        if folder not in _warned:
            _warned.append(folder)
            warnings.warn(
                f"compiled code is not kept on disk: {error}; set TFN_CACHE_DIR to a folder that "
                "can be written, or TFN_DISK_CACHE=0",
                RuntimeWarning,
                stacklevel=2,
            )
        return
    if key.startswith("00"):  # one store in 256 pays for looking through the folder
        prune(folder)


def prune(folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
    """Remove the files that were not used for longest until the rest fits the limit."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may prune too
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit_bytes:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
