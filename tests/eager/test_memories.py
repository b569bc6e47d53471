"""Names of places: one memory for all devices of a platform, or one for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
from tests.hw.cuda.devices import default, device_of
from tests.hw.cuda.simulator import SimulatedCuda
from tfn.config import config
from tfn.eager import memories, run
from tfn.sharding import AxisType, NamedSharding, SingleDeviceSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace.processes import HostGrid


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedCuda]:
    monkeypatch.setattr(config, "disk_cache", False)
    simulated = SimulatedCuda(count=3)
    with default(device_of(simulated)):
        yield simulated


def mesh_of(devices: Any) -> Any:
    return tfn.make_mesh((len(devices),), ("data",), (AxisType.Auto,), devices=devices)


def test_devices_that_share_a_memory_are_one_place() -> None:
    sharding = SingleDeviceSharding(tfn.devices("python")[0])
    assert memories.place(sharding) == "python" and not memories.is_group(sharding)
    assert memories.place(None) is None


def test_places_of_gpus(gpus: SimulatedCuda) -> None:
    first, second, third = tfn.devices()
    assert memories.place(SingleDeviceSharding(first)) == "cuda"
    assert memories.place(SingleDeviceSharding(third)) == "cuda:2"
    over = NamedSharding(mesh_of([third, second]), P("data"))
    assert memories.place(over) == "cuda:2,1" and memories.is_group(over)
    alone = NamedSharding(mesh_of([second]), P("data"))
    assert memories.place(alone) == "cuda:1" and not memories.is_group(alone)
    assert memories.grid_of(over.mesh) == HostGrid((2,), (0, 1), local=True)
    assert memories.grid_of(alone.mesh) is None
    assert run.device("cuda:1").memory is run.device("cuda:2,1").memory.members[1]  # type: ignore[attr-defined]


def test_a_mesh_of_one_gpu_is_that_gpu(gpus: SimulatedCuda) -> None:
    x = np.arange(6, dtype="float32")
    y = tfn.device_put(x, NamedSharding(mesh_of(tfn.devices()[1:2]), P("data")))
    np.testing.assert_array_equal(np.asarray(tfn.jit(lambda y: y * 2)(y)), 2 * x)
    assert not gpus.calls["cuMemcpyPeerAsync"]


def test_operands_that_no_one_has_committed_follow(gpus: SimulatedCuda) -> None:
    x = tfn.numpy.arange(3.0)
    (same,) = memories.gathered([x], None)
    assert same is x
    (there,) = memories.gathered([x], "cuda:1")
    assert there.buffer is not x.buffer and gpus.calls["cuMemcpyPeerAsync"] == 1
    (both,) = memories.gathered([x], "cuda:0,1")
    assert len(both.buffer.parts) == 2 and gpus.calls["cuMemcpyPeerAsync"] == 2  # type: ignore[union-attr]
