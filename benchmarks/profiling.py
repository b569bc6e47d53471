"""What the profiler costs that is always on: rows of the race with its logs on, and off.

    python benchmarks/profiling.py --seconds 20

Blocks of calls take turns, on and off, on one core; a block is about `BLOCK_NS`.  What counts is
the median of the differences of neighbouring blocks, beside the quartiles of what noise there is.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import rows
from functional import programs

from tfn import config, profiler

BLOCK_NS = 2_000_000
NAMES = ("disp_tiny", "mlp_train")


def block(step: Callable[[], Any], calls: int, on: bool) -> float:
    """Nanoseconds of one call on its core, the mean of a block."""
    profiler.enable(on)
    begin_ns = time.thread_time_ns()  # which a busy machine does not lengthen
    for _ in range(calls):
        step()
    return (time.thread_time_ns() - begin_ns) / calls


def measured(name: str, seconds: float) -> tuple[float, float, float, float]:
    """The time of a call with the logs off, and the median and quartiles of what they add."""
    step: Any = programs("tfn")[name](rows.ROWS[name].inputs())
    for _ in range(20):
        step()
    calls = max(1, round(BLOCK_NS / block(step, 20, True)))
    off, added = [], []
    end = time.perf_counter() + seconds
    turn = 0
    while time.perf_counter() < end:
        order = (True, False) if turn % 2 else (False, True)
        times = {on: block(step, calls, on) for on in order}
        off.append(times[False])
        added.append(times[True] - times[False])
        turn += 1
    profiler.enable(True)
    low, middle, high = statistics.quantiles(added, n=4)
    return statistics.median(off), middle, low, high


def main() -> None:
    """Prints a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each row")
    options = parser.parse_args()
    config.threads = 1
    for name in NAMES:
        off, added, low, high = measured(name, options.seconds)
        print(
            f"{name}: {off:,.1f} ns a call without, {added:+,.1f} ns with ({low:+,.1f} to "
            f"{high:+,.1f}), {100 * added / off:+.2f}%"
        )


if __name__ == "__main__":
    main()
