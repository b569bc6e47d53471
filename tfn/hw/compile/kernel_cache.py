"""Lowered kernels on disk: what a body over ranges has become, for the next process.

A kernel is found by the digest of its body, the target, and the version of this package: the names,
sizes and times of the files that lower.  Whatever a search finds later makes a new version too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

from tfn import trace
from tfn.config import config
from tfn.hw.compile import object_cache, tuning_cache
from tfn.lower import program
from tfn.lower.program import (
    CachedKernel,
)
from tfn.lower.target.target import Target

PART = "kernels"  # of the cache on disk


class KernelCache:
    """Kernels and opt-ops on disk; see `pipeline.KernelCache`."""

    tuned = staticmethod(tuning_cache.find)

    def find(self, body: str, target: Target) -> CachedKernel | None:
        """What was kept for the digest of a body; None if nothing was, or if it is damaged."""
        if not config.disk_cache:
            return None
        kept = object_cache.fetch(PART, _key(body, target))
        return None if kept is None else _written(kept)

    def keep(self, body: str, target: Target, kernel: CachedKernel) -> None:
        """Keep what a body has become."""
        if config.disk_cache:
            head = json.dumps([kernel.name, kernel.opts, kernel.tiles, kernel.work_ns])
            object_cache.store(PART, _key(body, target), f"{head}\n{kernel.text}".encode())


def _written(kept: bytes) -> CachedKernel | None:
    """What the content of a file says; None if that makes no sense."""
    head, _, text = kept.partition(b"\n")
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


def _key(body: str, target: Target) -> str:
    parts = body, repr(target), version(), _searched()
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _searched() -> str:
    """When opt-ops were last kept."""
    try:
        return str((config.cache_dir / tuning_cache.PART).stat().st_mtime_ns)
    except OSError:
        return ""


@once
def version() -> str:
    """The digest of the names, sizes and times of the files that decide how kernels look."""
    folders = Path(program.__file__).parent, Path(trace.__file__).parent
    found = [stamp for folder in folders for stamp in sorted(_stamps(folder))]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _stamps(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _stamps(Path(entry.path))
            elif entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
