"""Opt-ops that a search has found, on disk: one small file for each kernel and kind of machine.

A kernel is known by the name that the model's choice gives it, a digest of its text, so that what
was found for another compiler is never believed.  Without a disk cache they are this process's own.
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

_OWN: dict[tuple[str, Target], Rows] = {}
"""What was found and is not on disk."""


def _key(name: str, target: Target) -> str:
    what = "\0".join((name, target.triple, target.cpu, target.features))
    return hashlib.sha256(what.encode()).hexdigest()


def find(name: str, target: Target) -> Rows | None:
    """The opt-ops for a kernel; None if none were kept, or the file is damaged."""
    kept = object_cache.fetch(PART, _key(name, target))
    if kept is not None:
        with suppress(ValueError, RecursionError):
            opts = rows(json.loads(kept))
            if opts is not None:
                return opts
    return _OWN.get((name, target))


def keep(name: str, target: Target, opts: Rows) -> None:
    """Keep opt-ops, on disk if that can be done."""
    if object_cache.store(PART, _key(name, target), json.dumps(opts).encode()):
        _OWN.pop((name, target), None)
    else:
        _OWN[name, target] = opts


def rows(value: Any) -> Rows | None:
    """Opt-ops as JSON gives them, as tuples of strings and integers; None if it is anything else.

    Example:
        >>> rows([["split", 0, 8, "lane"]]), rows(["split"])
        ((('split', 0, 8, 'lane'),), None)
    """
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        return None
    plain = all(type(item) in (str, int) for row in value for item in row)
    return tuple(map(tuple, value)) if plain else None
