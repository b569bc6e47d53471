"""A run that only saves, to be killed: ``python -m tests.nn.checkpoint.saver FOLDER TURNS SEED``.

It makes children of itself, one after the other, since importing tfn takes longer than many saves.
Each goes on from the newest checkpoint, and is killed at a random moment.  It then prints, for each
child, the step that it began at, the last one that it had saved, and the step that is found.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tfn.nn.checkpoint import Checkpoints

ELEMENTS = 50_000
MOST_SECONDS = 0.04  # a save takes 5 to 20 ms


def tree_of(step: int) -> dict[str, Any]:
    """A tree of which each byte depends on the step."""
    base = np.arange(ELEMENTS, dtype=np.int64) * step
    return {"a": base, "b": {"c": (base % 251).astype(np.uint8), "n": step}, "empty": base[:0]}


def resumed(folder: Path) -> int:
    """The step of the newest checkpoint that is whole.

    Raises:
        AssertionError: if it does not hold what was saved.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of saves that were killed
        step, tree = Checkpoints(folder).resume(tree_of(0))
    for name, x in {"a": tree["a"], "c": tree["b"]["c"]}.items():
        expected = tree_of(step)
        np.testing.assert_array_equal(x, expected["a"] if name == "a" else expected["b"]["c"])
    assert tree["b"]["n"] == step
    return step


def save_for_ever(folder: Path, asynchronous: bool, told: int) -> None:
    """Saves a step after the other, and writes the number of each that is whole."""
    checkpoints = Checkpoints(folder, keep=2, asynchronous=asynchronous)
    step = resumed(folder)
    while True:
        step += 1
        checkpoints.save(step, tree_of(step))
        checkpoints.wait()
        os.write(told, step.to_bytes(8, "little"))


def killed(folder: Path, asynchronous: bool, seconds: float) -> int:
    """Lets a child save for a while, kills it, and returns the last step that it told of."""
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_for_ever(folder, asynchronous, told)
        finally:
            os._exit(1)
    os.close(told)
    select.select([heard], [], [], 30)  # the first one is whole
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raw = b""
    while part := os.read(heard, 1 << 16):
        raw += part
    os.close(heard)
    return int.from_bytes(raw[-8:], "little")


def main(folder: Path, turns: int, seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(turns):
        begin = resumed(folder)
        last = killed(folder, bool(turn % 2), chance.uniform(0, MOST_SECONDS))
        print(begin, last, resumed(folder), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
