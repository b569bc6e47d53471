"""Opt-ops that a search has found, on disk: one small file for each kernel and kind of machine.

A kernel is known by the name that the model's choice gives it, a digest of its text, so that what
was found for another compiler is never believed.  Without a disk cache they are this process's own.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tfn.config import config
from tfn.lower.target.target import Target

Rows = tuple[tuple[str | int, ...], ...]
"""Opt-ops as `lower.loops.opt_ops.to_rows` writes them."""

_OWN: dict[tuple[str, Target], Rows] = {}
"""What was found while nothing is kept on disk."""


def _file(name: str, target: Target) -> Path:
    what = "\0".join((name, target.triple, target.cpu, target.features))
    return config.cache_dir / "plans" / f"{hashlib.sha256(what.encode()).hexdigest()}.json"


def find(name: str, target: Target) -> Rows | None:
    """The opt-ops for a kernel; None if none were kept, or the file is damaged."""
    if not config.disk_cache:
        return _OWN.get((name, target))
    try:
        kept = json.loads(_file(name, target).read_bytes())
        return tuple(map(tuple, kept["opts"])) if kept["kernel"] == name else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(name: str, target: Target, opts: Rows) -> None:
    """Keep opt-ops; files appear by rename, so that processes may share the folder."""
    if not config.disk_cache:
        _OWN[name, target] = opts
        return
    file = _file(name, target)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"kernel": name, "opts": opts}))
    part.replace(file)
