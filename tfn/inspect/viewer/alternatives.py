"""Checkpointing alternatives: the memory and time of a function with and without its checkpoints.

as written        peak 15.6 MB   17.6 ms
nothing           peak 19.9 MB   15.1 ms     no checkpoint at all
each loop         peak  9.2 MB   20.3 ms     the body of each loop, too
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn.extend import Jaxpr, Target
from tfn.inspect.show import View
from tfn.transforms.checkpoint import STRATEGIES, checkpointing


def alternatives(trace: Callable[[], Jaxpr], target: Target) -> list[dict[str, Any]]:
    """A row for each way to checkpoint that gives another program, the way it is written first.

    Times are those of the cost model, on one core.

    Args:
        trace: traces the function anew.
        target: the machine that code is generated for.
    """
    rows, seen = [], set()
    for strategy in STRATEGIES:
        with checkpointing(strategy):
            jaxpr = trace()
        if jaxpr.function in seen:  # equal functions are one object
            continue
        seen.add(jaxpr.function)
        view = View(jaxpr, target)
        footprint = view.program.footprint
        rows.append(
            {
                "strategy": strategy,
                "peak_bytes": footprint.peak_bytes,
                "between_bytes": footprint.temporary_bytes,
                "ns": view.program.work_ns,
                "flops": view.cost["flops"],
                "launches": len(view.program.launches),
            }
        )
    return rows
