"""A host of several, as a process: ``python -m tests.nn.checkpoint.host FOLDER INDEX COUNT HOW``.

All hosts have eight devices, of which each writes what an equal part of them holds: the files are
those of hosts that have only these devices.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tfn
from tfn.config import config
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.hosts import Hosts
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

STEPS = 3


def tree_of(step: int) -> Any:
    """A tree of arrays that are divided, copied and of one device."""
    config.devices = 8
    mesh = tfn.make_mesh((4, 2), ("data", "model"), tfn.sharding.AxisType.Auto)
    x = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) + step
    return {
        "divided": tfn.device_put(x, NamedSharding(mesh, P("data", "model"))),
        "rows": tfn.device_put(x, NamedSharding(mesh, P("data"))),
        "copied": tfn.device_put(x[0], NamedSharding(mesh, P())),
        "alone": tfn.numpy.asarray(x[1]),
        "step": step,
    }


def main(folder: Path, index: int, count: int, how: str) -> None:
    hosts = Hosts(index, count, lambda device: device.id * count // 8)
    checkpoints = Checkpoints(folder, asynchronous=how == "asynchronous", hosts=hosts, timeout_s=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin, tree = checkpoints.resume(tree_of(0))
    expected = tree_of(begin)
    for name in ("divided", "rows", "copied", "alone"):
        np.testing.assert_array_equal(np.asarray(tree[name]), np.asarray(expected[name]))
    with checkpoints:
        for step in range(begin + 1, begin + 1 + STEPS):
            if how == f"die at {step}":
                os._exit(9)
            if how == f"wait less at {step}":
                checkpoints = replace(checkpoints, timeout_s=2.0)
            checkpoints.save(step, tree_of(step))
    print(begin, checkpoints.steps())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
