"""Tuning cache: opt-ops that a search has chosen, one small file per kernel and kind of machine.

The key is the name that the heuristics' choice gives the kernel, which is a digest of its text: the
opt-ops chosen with another version of the compiler are never used.  Without a disk cache they are
kept in this process.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

from tfn.hw.compile import object_cache
from tfn.lower.target.target import Target

PART = "plans"  # of the cache on disk
Rows = tuple[tuple[str | int, ...], ...]
"""Opt-ops as `lower.loops.opt_ops.to_rows` writes them."""

_UNSAVED: dict[tuple[str, Target], Rows] = {}
"""Opt-ops that could not be written to disk."""


def _key(name: str, target: Target) -> str:
    parts = name, target.triple, target.cpu, target.features
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find(name: str, target: Target) -> Rows | None:
    """The opt-ops of a kernel; None if there are none, or the file is damaged."""
    data = object_cache.fetch(PART, _key(name, target))
    if data is not None:
        with suppress(ValueError, RecursionError):
            opts = rows(json.loads(data))
            if opts is not None:
                return opts
    return _UNSAVED.get((name, target))


def keep(name: str, target: Target, opts: Rows) -> None:
    """Store the opt-ops of a kernel: on disk, or in this process if the disk refuses."""
    if object_cache.store(PART, _key(name, target), json.dumps(opts).encode()):
        _UNSAVED.pop((name, target), None)
    else:
        _UNSAVED[name, target] = opts


def rows(value: Any) -> Rows | None:
    """Opt-ops decoded from JSON, as tuples of strings and integers; None for any other value.

    Example:
        >>> rows([["split", 0, 8, "lane"]]), rows(["split"])
        ((('split', 0, 8, 'lane'),), None)
    """
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        return None
    plain = all(type(item) in (str, int) for row in value for item in row)
    return tuple(map(tuple, value)) if plain else None
