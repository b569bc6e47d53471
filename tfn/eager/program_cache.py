"""Program cache: scheduled programs on disk, so that the next process need not schedule them again.

The key is the digest of the function, of the target, and of the version of the compiler, as for
kernels.
"""

from __future__ import annotations

import json
import zlib

from tfn.config import config
from tfn.errors import SplitError
from tfn.hw.compile import object_cache
from tfn.hw.compile.kernel_cache import key
from tfn.lower import pipeline
from tfn.lower.languages import language_of
from tfn.lower.memory.program_rows import from_rows, to_rows
from tfn.lower.program import Program
from tfn.lower.target.target import Target
from tfn.trace.digest import digest
from tfn.trace.jaxpr import Jaxpr

PART = "programs"  # of the cache on disk

MIN_KERNELS = 2
"""Kernels from which a program is stored, which takes 1.5 to 3 ms once.

To read one of 2, 6, 18 kernels takes 0.3, 0.5, 1.2 ms; to schedule it with kernels from the disk,
1.2, 3.7, 12 ms (AMD EPYC with AVX2).  One kernel is mostly an eager operation, of which there are
many.
"""

_COMPRESSION_LEVEL = 1  # LLVM IR shrinks to a tenth at any; level 6 takes four times as long


def lower(jaxpr: Jaxpr, target: Target) -> Program:
    """The program of a function, from the disk if there is one, and else lowered and stored.

    Values of tables and of captured arrays are inputs, but on a grid; see `pipeline.lower`.
    """
    hoist = target.grid is None
    program = find(jaxpr, target, hoist)
    if program is None:
        program = pipeline.lower(jaxpr, target, hoist=hoist)
        keep(program, target, hoist)
    return program


def find(jaxpr: Jaxpr, target: Target, hoist: bool) -> Program | None:
    """The program that `keep` has stored for a function; None if there is none, or it is damaged.

    With `hoist`, values of tables and of captured arrays are inputs, as `pipeline.lower` says.
    """
    if not _is_cached(target):
        return None
    data = object_cache.fetch(PART, _key(jaxpr, target, hoist))
    if data is None:
        return None
    try:
        row, tables = json.loads(zlib.decompress(data)), None
        if row["tables"]:
            _, tables = pipeline.without_tables(jaxpr, target, language_of(target))
        return from_rows(row, jaxpr, tables)
    except (zlib.error, ValueError, TypeError, LookupError, RecursionError, SplitError):
        return None


def keep(program: Program, target: Target, hoist: bool) -> None:
    """Store a program that was lowered for a target, if it is worth an entry and can have one."""
    is_worth = len(program.kernels) >= MIN_KERNELS and not program.host_calls
    if is_worth and _is_cached(target):
        text = json.dumps(to_rows(program), separators=(",", ":"))
        data = zlib.compress(text.encode(), _COMPRESSION_LEVEL)
        jaxpr = Jaxpr(program.function, program.captured)
        object_cache.store(PART, _key(jaxpr, target, hoist), data)


def _is_cached(target: Target) -> bool:
    """Whether programs for a target may be on disk: no grid's, whose kernels have threads."""
    return config.disk_cache and target.grid is None


def _key(jaxpr: Jaxpr, target: Target, hoist: bool) -> str:
    return key(f"{digest(jaxpr.function)} {hoist} {jaxpr.captured}", target)
