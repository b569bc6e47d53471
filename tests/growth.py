"""What a step leaves behind, which in a process that runs for weeks has to be nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

from tfn.eager import run

WARM, STEPS = 4, 12
"""Steps before and while it is counted: the first ones make programs, which are kept."""


class Growth(NamedTuple):
    """What one step leaves behind on the average.

    Attributes:
        array_bytes: memory of arrays, before a garbage collection.
        objects: Python objects that a garbage collection does not find.
    """

    array_bytes: float
    objects: int


NONE = Growth(0, 0)


def growth(step: Callable[[], Any]) -> Growth:
    """What each call of a function leaves behind; none of its results is held."""
    memory: Any = run.device().memory
    pool = getattr(memory, "pool", memory)  # devices of drivers have none
    gc.collect()
    gc.freeze()  # collections visit the objects of the steps alone, as in tests/conftest.py
    try:
        for _ in range(WARM):
            step()
        gc.collect()
        objects, array_bytes = len(gc.get_objects()), pool.live_bytes
        gc.disable()
        for _ in range(STEPS):
            step()
        array_bytes = pool.live_bytes - array_bytes
        gc.enable()
        gc.collect()
        return Growth(array_bytes / STEPS, max(len(gc.get_objects()) - objects, 0) // STEPS)
    finally:
        gc.enable()
