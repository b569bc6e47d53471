"""The way of a first call through the code: files that are entered, and changes of room.

    python -m tests.cold_path     one jitted gradient of a layer, after another one was compiled

A room is a package of `tfn`, and one of `lower`.  What all rooms stand on (records of graphs,
dtypes, errors, trees, settings) is none, so to go there and back changes no room.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import tfn
from tfn import numpy as jnp

ROOT = Path(tfn.__file__).parent
GROUND = {"trace", "tree", "dtypes", "errors", "config", "_support", "__init__", "version"}


class Way(NamedTuple):
    """What a call enters.

    Attributes:
        files: below `tfn`.
        changes: from one room to another, how often.
    """

    files: frozenset[str]
    changes: Counter[tuple[str, str]]


def room(file: str) -> str:
    """The room of a file below `tfn`."""
    parts = file.removesuffix(".py").split("/")
    return "/".join(parts[:2]) if parts[0] == "lower" and len(parts) > 2 else parts[0]


def followed() -> Way:
    """The way of the first call of a jitted gradient."""
    tfn.config.disk_cache = False
    w, x = np.ones((8, 4), np.float32), np.ones((3, 8), np.float32)
    tfn.jit(tfn.grad(lambda w: jnp.tanh(x[:2] @ w).sum()))(w)  # files are loaded
    files: set[str] = set()
    changes: Counter[tuple[str, str]] = Counter()
    last = ""

    def enter(frame: FrameType, event: str, _: Any) -> None:
        nonlocal last
        path = Path(frame.f_code.co_filename)
        if event != "call" or not path.is_relative_to(ROOT):
            return
        file = path.relative_to(ROOT).as_posix()
        files.add(file)
        own = room(file)
        if own in GROUND:
            return
        if last and own != last:
            changes[last, own] += 1
        last = own

    call = tfn.jit(tfn.grad(lambda w: jnp.tanh(x @ w).mean()))
    sys.setprofile(enter)
    try:
        call(w)
    finally:
        sys.setprofile(None)
    return Way(frozenset(files), changes)


if __name__ == "__main__":
    way = followed()
    print(f"{len(way.files)} files, {way.changes.total()} changes of room")
    for (a, b), times in way.changes.most_common(12):
        print(f"{times:6} from {a} to {b}")
