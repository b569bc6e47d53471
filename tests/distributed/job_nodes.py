"""Job: one script over two nodes of Ray and a spare; the raylet of the second node is killed.

job_nodes.py CACHE ADDRESS KILL      KILL is 1 to kill it
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import tfn
from tfn import numpy as tnp
from tfn.distributed.supervisor import processes_with
from tfn.errors import HostSpecificationError
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

HOSTS, SPARE, KILLED = "host1:CPU*2,host2:CPU*2", "host3:CPU*2", "10.77.0.2"
START_S = 60
NOTICE_S = 20


def connected(address: str, cache: str) -> Any:
    """The cluster, when all of its nodes are there."""
    until = time.monotonic() + START_S
    while True:
        try:
            return tfn.distributed.connect(
                address, HOSTS, spares=SPARE, deadline_s=5, variables={"TFN_CACHE_DIR": cache}
            )
        except HostSpecificationError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


def raylet(address: str) -> int:
    """The process of the raylet of a node of this machine."""
    for pid in set(processes_with("/raylet\0", "cmdline")) & set(
        processes_with(f"={address}", "cmdline")
    ):
        return pid
    raise SystemExit(f"there is no raylet at {address}")


def main() -> None:
    """Run steps, through the fault."""
    cache, address, kill = sys.argv[1:]
    hit: list[float] = []
    with connected(address, cache) as cluster:

        def train() -> Any:
            mesh = tfn.make_mesh((4,), ("d",))
            x = tfn.device_put(np.linspace(0, 1, 64, dtype="float32"), NamedSharding(mesh, P("d")))
            step = tfn.jit(lambda x: tnp.sin(x) + 0.01 * x.sum())
            for i in range(8):
                x = step(x)
                float(x.sum())
                if len(hit) == 1 and cluster.restarts:
                    hit.append(time.time())
                if i == 3 and kill == "1" and not hit:
                    hit.append(time.time())
                    os.kill(raylet(KILLED), signal.SIGKILL)
                    while time.time() < hit[0] + NOTICE_S:  # its agent lives on for a second
                        float(x.sum())
                        time.sleep(0.05)
            return np.asarray(x)

        found = cluster.run(train)
        if len(hit) == 2:
            print(f"WorkerLostError; stepping again after {hit[1] - hit[0]:.3f} s")
        print("result", found.tobytes().hex(), ",".join(cluster.hosts), flush=True)


if __name__ == "__main__":
    main()
