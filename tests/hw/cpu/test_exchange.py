"""The loop that runs a table of steps."""

from __future__ import annotations

import numpy as np

from tfn.eager import run
from tfn.hw.cpu import exchange
from tfn.hw.cpu.exchange import STEP


def test_steps_run_in_order_until_one_has_to_wait() -> None:
    advance = exchange.load(run.device("cpu").queue)  # type: ignore[arg-type]
    source, target = np.arange(9, dtype="uint8"), np.zeros(9, "uint8")
    counters, base = np.zeros(2, "int64"), np.array([5])
    at = [x.__array_interface__["data"][0] for x in (source, target, counters, base)]
    steps = np.array(
        [
            (STEP["copy"], at[1], at[0], 9),
            (STEP["post"], at[2], 2, at[3]),
            (STEP["wait"], at[2] + 8, 1, at[3]),
            (STEP["post"], at[2], 3, at[3]),
            (STEP["add"], at[3], 4, 0),
        ]
    )
    address = steps.__array_interface__["data"][0]
    assert advance(address, 0, 5, 10) == 2
    assert target.tolist() == source.tolist() and counters.tolist() == [7, 0]
    assert advance(address, 2, 5, 3000) == 2  # it has yielded, too
    counters[1] = 6
    assert advance(address, 2, 5, 0) == 5 and counters[0] == 8 and base[0] == 9
    assert advance(address, 5, 5, 0) == 5
