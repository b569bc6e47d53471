"""Job: messages between processes in profiles, and traces of all processes on one clock.

python job_profile.py FOLDER Explicit
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import distributed as dist
from tfn import profiler
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

STEPS = 3


def main(folder: str, axis_type: str) -> None:
    """Trace some steps in each process; the first one merges the traces."""
    dist.initialize(deadline_s=60)
    mesh = tfn.make_mesh((4,), ("data",), (getattr(tfn.sharding.AxisType, axis_type),))
    x = tfn.device_put(np.ones((64, 32), "float32"), NamedSharding(mesh, P("data")))
    w = tnp.ones((32, 8))

    @tfn.jit
    def step(w: Any, x: Any) -> Any:
        return w - tfn.grad(lambda w: tnp.tanh(x @ w).sum())(w)

    step(w, x)
    error_ns = dist.synchronize_clocks()
    with profiler.trace(folder) as block:
        for number in range(STEPS):
            with profiler.annotate("step", number=number):
                step(w, x).block_until_ready()
    assert block.profile is not None
    sent = [e for e in block.profile.events if e.kind == "collective" and e.duration_ns]
    assert len(sent) == STEPS and {e.name for e in sent} == {"all_gather over data"}
    assert sent[0].moved_bytes >= 32 * 8 * 4  # the gradient of the other process
    assert f"{sent[0].moved_bytes:,} bytes received by a process" in sent[0].detail
    fused = [e for e in block.profile.events if e.kind == "collective" and not e.duration_ns]
    assert {e.name for e in fused} == {"all_reduce over data"}, block.profile
    dist.sync_global_devices("traces are written")
    if tfn.process_index() == 0:
        paths = sorted(Path(folder).glob("trace.*.json"))
        assert [path.name for path in paths] == ["trace.0.json", "trace.1.json"]
        profiler.merge(paths, Path(folder) / "job.json")
    dist.shutdown()
    print("as expected", 0 <= error_ns < 50_000_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
