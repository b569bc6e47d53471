"""Kernel cache: lowered kernels on disk, so that the next process need not lower them again.

The key is the digest of a kernel's body, of the target, and of the version of the compiler: the
names, sizes and times of its files.  A later search for opt-ops changes the version too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields
from functools import cache as once
from pathlib import Path

from tfn import trace
from tfn.config import config
from tfn.hw.compile import object_cache, tuning_cache
from tfn.lower import program
from tfn.lower.program import CachedKernel
from tfn.lower.target.target import Target

PART = "kernels"  # of the cache on disk


class KernelCache:
    """Kernels and opt-ops on disk; see `pipeline.KernelCache`."""

    tuned = staticmethod(tuning_cache.find)

    def find(self, body: str, target: Target) -> CachedKernel | None:
        """The kernel of the body with this digest; None if there is none, or it is damaged."""
        if not config.disk_cache:
            return None
        data = object_cache.fetch(PART, key(body, target))
        return None if data is None else _decoded(data)

    def keep(self, body: str, target: Target, kernel: CachedKernel) -> None:
        """Store the kernel of the body with this digest."""
        if config.disk_cache:
            head = json.dumps([kernel.name, kernel.opts, kernel.tiles, kernel.work_ns])
            object_cache.store(PART, key(body, target), f"{head}\n{kernel.text}".encode())


def _decoded(data: bytes) -> CachedKernel | None:
    """The kernel in the content of a file; None if it is damaged."""
    head, _, text = data.partition(b"\n")
    try:
        name, opts, tiles, work = json.loads(head)
        decoded = text.decode()
    except (ValueError, TypeError, RecursionError):
        return None
    rows = tuning_cache.rows(opts)
    numbers = type(tiles) is type(work) is int and tiles > 0
    if rows is None or type(name) is not str or not numbers:
        return None
    return CachedKernel(name, rows, tiles, decoded, work)


def key(body: str, target: Target) -> str:
    """The digest of all that decides what a kernel or program becomes, `body` being its own."""
    parts = body, _described(target), version(), _last_search()
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@once
def _described(target: Target) -> str:
    """The fields of a target, the same in all processes: the order of a set of ops is not."""
    values = [getattr(target, field.name) for field in fields(Target)]
    return repr([sorted(map(repr, v)) if isinstance(v, frozenset) else v for v in values])


def _last_search() -> str:
    """The time at which opt-ops were last stored."""
    try:
        return str((config.cache_dir / tuning_cache.PART).stat().st_mtime_ns)
    except OSError:
        return ""


@once
def version() -> str:
    """The digest of the names, sizes and times of the files that decide what kernels are."""
    folders = Path(program.__file__).parent, Path(trace.__file__).parent
    stamps = [stamp for folder in folders for stamp in sorted(_stamps(folder))]
    return hashlib.sha256("\n".join(stamps).encode()).hexdigest()


def _stamps(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _stamps(Path(entry.path))
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
