"""Job: one script over two agents of a Ray on this machine; an agent is killed on the way."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

import tfn
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P


def main() -> None:
    """Run steps, through a fault."""
    variables = {"TFN_CACHE_DIR": sys.argv[1]}
    with tfn.distributed.connect(
        "ray", hosts="a:CPU*2,b:CPU*2", deadline_s=20, variables=variables
    ) as cluster:
        calls: list[int] = []

        def train() -> Any:
            mesh = tfn.make_mesh((4,), ("d",))
            x = tfn.device_put(np.arange(8, dtype="float32"), NamedSharding(mesh, P("d")))
            step = tfn.jit(lambda x: x + x.sum())
            calls.append(1)
            for i in range(4):
                x = step(x)
                if i == 1 and len(calls) == 1:
                    x.block_until_ready()
                    inner: Any = cluster.controller
                    agent = inner.gang.agents[1]
                    pid = inner.gang.ray.get(agent.process.remote())
                    os.kill(pid, signal.SIGKILL)
            return np.asarray(x)

        print("result", cluster.run(train).tolist(), cluster.restarts)


if __name__ == "__main__":
    main()
