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


def check_overlap(x: Any, folder: str) -> None:
    """Kernels run while the gradient of another layer is on its way."""
    layers = [tnp.full((512, 512), 0.01) for _ in range(4)]
    x = tnp.tile(x, (1, 16))

    def loss(layers: Any, x: Any) -> Any:
        for w in layers:
            x = tnp.tanh(x @ w)
        return x.sum()

    step = tfn.jit(lambda layers, x: [w - d for w, d in zip(layers, tfn.grad(loss)(layers, x))])
    layers = step(layers, x)
    with profiler.trace(folder) as block:
        tfn.block_until_ready(step(layers, x))
    assert block.profile is not None
    beside = [e for e in block.profile.events if e.kind == "collective" and "beside" in e.detail]
    kernels = [e for e in block.profile.events if e.kind == "kernel"]
    assert {e.name for e in beside} == {"all_reduce over data"} and len(beside) >= len(layers) - 1
    assert any(e.begin_ns < k.begin_ns and k.end_ns < e.end_ns for e in beside for k in kernels), (
        block.profile
    )


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
    assert sent[0].moved_bytes == 32 * 8 * 4  # the other process sends the sum over its devices
    assert f"{sent[0].moved_bytes:,} bytes received by a process" in sent[0].detail
    fused = [e for e in block.profile.events if e.kind == "collective" and not e.duration_ns]
    assert {e.name for e in fused} == {"all_reduce over data"}, block.profile
    dist.sync_global_devices("traces are written")
    check_overlap(x, f"{folder}-overlap")
    if tfn.process_index() == 0:
        paths = sorted(Path(folder).glob("trace.*.json"))
        assert [path.name for path in paths] == ["trace.0.json", "trace.1.json"]
        profiler.merge(paths, Path(folder) / "job.json")
    dist.shutdown()
    print("as expected", 0 <= error_ns < 50_000_000)


if __name__ == "__main__":
    main(*sys.argv[1:])
