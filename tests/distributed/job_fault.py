"""Job: steps of an all-reduce, until a process is killed, stopped, or fails.

    job_fault.py HOW RANK    RANK acts at step 5: killed, stopped, raises, leaves, or runs on (none)

Each process writes the facts of the error that it gets as a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np

import tfn
from tfn.errors import DistributedError
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

STEPS, AT = 40, 5


def act(how: str) -> None:
    """What goes wrong."""
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "raises":
        raise ValueError("a mistake of the user")
    if how == "leaves":
        sys.exit(0)


def main() -> None:
    """Run the steps."""
    how, rank = sys.argv[1], int(sys.argv[2])
    tfn.distributed.initialize(deadline_s=float(os.environ.get("DEADLINE_S", "3")))
    mesh = tfn.make_mesh((len(tfn.devices()),), ("d",), tfn.sharding.AxisType.Auto)
    x = tfn.device_put(np.ones(mesh.size * 1000, "float32"), NamedSharding(mesh, P("d")))
    step: Any = tfn.jit(lambda x: x + 0 * x.sum())
    begin = time.time()
    try:
        for i in range(STEPS):
            tfn.distributed.progress(i, committed=i // 4 * 4)
            if i == AT and tfn.process_index() == rank:
                act(how)
            x = step(x)
            time.sleep(0.01)
    except DistributedError as error:
        row = {
            "kind": type(error).__name__,
            "host": error.host,
            "rank": error.rank,
            "step": error.step,
            "collective": error.collective,
            "committed": error.committed,
            "seconds": time.time() - begin,
            "text": str(error),
        }
        print(json.dumps(row), flush=True)
        raise
    print("done", flush=True)


if __name__ == "__main__":
    main()
