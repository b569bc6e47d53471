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
from tfn.lower.program import Written
from tfn.lower.target.target import Target


class Shelf:
    """What is known of kernels from before; see `pipeline.KernelCache`."""

    tuned = staticmethod(tuning_cache.find)

    def find(self, body: str, target: Target) -> Written | None:
        """What was kept for the digest of a body; None if nothing was, or if it is damaged."""
        if not config.disk_cache:
            return None
        kept = object_cache.fetch(config.cache_dir / "kernels", _key(body, target))
        if kept is None:
            return None
        head, _, text = kept.partition(b"\n")
        name, opts, tiles, work = json.loads(head)
        return Written(name, tuple(map(tuple, opts)), tiles, text.decode(), work)

    def keep(self, body: str, target: Target, written: Written) -> None:
        """Keep what a body has become."""
        if config.disk_cache:
            head = json.dumps([written.name, written.opts, written.tiles, written.work])
            data = f"{head}\n{written.text}".encode()
            object_cache.store(config.cache_dir / "kernels", _key(body, target), data)


def _key(body: str, target: Target) -> str:
    parts = body, repr(target), version(), _searched()
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _searched() -> str:
    """When opt-ops were last kept."""
    try:
        return str((config.cache_dir / "plans").stat().st_mtime_ns)
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
