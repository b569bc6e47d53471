"""The controller of a cluster, over agents of this process with workers of mpirun."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.distributed.gangs import ThreadGang, alive
from tests.distributed.jobs import needs_mpi
from tfn import lax, random
from tfn import numpy as tnp
from tfn.config import config
from tfn.distributed.connection import Cluster, started
from tfn.distributed.specification import parse
from tfn.errors import (
    DeletedArrayError,
    DeviceError,
    DistributedError,
    ExportError,
    HostError,
    WorkerLostError,
)
from tfn.nn.checkpoint import Checkpoints, read, steps, verify
from tfn.nn.store import Store, scrub
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

pytestmark = needs_mpi
DEADLINE_S = 10.0


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadGang]:
    found = ThreadGang(parse("a:CPU*2,b:CPU*2"), DEADLINE_S, str(tmp_path_factory.mktemp("cache")))
    yield found
    found.close()


@pytest.fixture(scope="module")
def cluster(gang: ThreadGang) -> Iterator[Cluster]:
    before = config.device, config.devices
    config.device, config.devices = "cpu", 1
    with started(gang.items, gang, 1, DEADLINE_S) as found:
        yield found
    assert (config.device, config.devices) == ("cpu", 1)
    config.device, config.devices = before


@pytest.fixture
def mesh(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(config, "device", "remote")
    monkeypatch.setattr(config, "devices", 4)
    return tfn.make_mesh((4,), ("d",), (tfn.sharding.AxisType.Auto,))


def put(x: Any, mesh: Any, *spec: Any) -> Any:
    return tfn.device_put(x, NamedSharding(mesh, P(*spec)))


def test_arrays_are_handles(mesh: Any) -> None:
    data = np.arange(24, dtype="float32").reshape(8, 3)
    x = put(data, mesh, "d")
    y = tfn.jit(lambda x: x + x.sum())(x)
    assert isinstance(y, tfn.Array) and y.shape == (8, 3) and y.dtype == np.float32
    assert y.sharding.is_equivalent_to(x.sharding, 2) and y.is_fully_addressable
    np.testing.assert_array_equal(np.asarray(y), data + data.sum())
    assert [shard.data.shape for shard in y.addressable_shards] == [(2, 3)] * 4
    assert repr(x[0]) == "Array([0., 1., 2.], dtype=float32)"


@pytest.mark.parametrize("spec", [(), ("d",), (None, "d")])
def test_data_go_out_and_come_back(mesh: Any, spec: tuple[Any, ...]) -> None:
    data = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
    x = put(data, mesh, *spec)
    np.testing.assert_array_equal(np.asarray(x), data)
    np.testing.assert_array_equal(np.asarray(tfn.jit(tnp.negative)(x)), -data)
    moved = tfn.device_put(tfn.jit(tnp.negative)(x), NamedSharding(mesh, P("d")))
    np.testing.assert_array_equal(np.asarray(moved), -data)


def test_the_library_works_on_a_cluster(mesh: Any) -> None:
    assert float(tnp.ones(3).sum()) == 3.0
    assert int(random.bits(random.key(42), (2,))[0]) == 2098992034
    x = put(np.arange(8, dtype="float32"), mesh, "d")
    grad = tfn.jit(tfn.grad(lambda x: (x**3).sum()))(x)
    np.testing.assert_array_equal(np.asarray(grad), 3 * np.arange(8) ** 2)
    summed = tfn.shard_map(lambda x: lax.psum(x, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    np.testing.assert_array_equal(np.asarray(summed(x)), [12, 16])
    if x[1] < x[2]:
        assert np.asarray(x[::2]).tolist() == [0, 2, 4, 6]


def test_a_program_without_arguments_runs_over_its_mesh(mesh: Any) -> None:
    f = tfn.shard_map(lambda: lax.axis_index("d")[None], mesh=mesh, in_specs=(), out_specs=P("d"))
    assert np.asarray(tfn.jit(f)()).tolist() == [0, 1, 2, 3]


def test_a_device_of_one_host(mesh: Any) -> None:
    x = tfn.device_put(np.arange(3, dtype="float32"), tfn.devices()[3])
    assert (x * 2).tolist() == [0, 2, 4]
    both = tfn.make_mesh((2,), ("e",), devices=tfn.devices()[:2])
    assert put(np.arange(4), both, "e").sum().item() == 6


def test_donated_arrays_are_gone(mesh: Any) -> None:
    x = put(np.arange(8, dtype="float32"), mesh, "d")
    y = tfn.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and np.asarray(y)[7] == 8


def test_calls_go_together(cluster: Cluster, mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = tfn.jit(lambda x: x + 1)
    x = step(put(np.zeros(8, "float32"), mesh, "d"))
    assert cluster.controller is not None
    monkeypatch.setattr(cluster.controller, "steps", 10)
    begin = cluster.dispatches
    for _ in range(40):
        x = step(x)
    assert cluster.dispatches - begin == 4
    assert float(x[0]) == 41


def test_an_error_of_a_program_is_that_of_its_class(cluster: Cluster, mesh: Any) -> None:
    with pytest.raises(ExportError, match="calls back into Python"):
        tfn.jit(lambda x: tfn.pure_callback(np.sin, x, x))(put(np.ones(4, "float32"), mesh))
    with pytest.raises(DeviceError, match="controls a cluster"):
        tfn.run.load(tfn.make_jaxpr(tnp.sin)(np.ones(3, "float32")))
    assert float(put(np.ones(4), mesh).sum()) == 4


def test_a_killed_worker_is_one_error_and_the_gang_starts_anew(
    cluster: Cluster, gang: ThreadGang, mesh: Any
) -> None:
    big = tnp.asarray(np.zeros(2000, "float32"))  # captured: it is sent again
    step = tfn.jit(lambda x: x + 0 * x.sum() + 1 + big[:8] + big.sum())
    pids = [agent.pid for agent in gang.agents]
    calls = []

    def train() -> Any:
        x = put(np.zeros(8, "float32"), mesh, "d")
        calls.append(step(x))
        for i in range(6):
            cluster.progress(i, 0)
            x = step(x)
            if i == 3 and len(calls) == 1:
                assert float(x[0]) == 4
                os.kill(gang.agents[1].pid, signal.SIGKILL)
        return np.asarray(x)

    assert cluster.run(train).tolist() == [6.0] * 8
    assert cluster.restarts == 1 and len(calls) == 2
    assert not any(map(alive, pids)) and all(alive(agent.pid) for agent in gang.agents)
    with pytest.raises(DeletedArrayError, match="lost with the workers"):
        step(calls[0])


def test_a_fault_is_raised_until_the_cluster_is_started_again(
    cluster: Cluster, gang: ThreadGang, mesh: Any
) -> None:
    x = put(np.zeros(8, "float32"), mesh, "d")
    os.kill(gang.agents[0].pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(WorkerLostError, match="rank 0"):
            (x + x.sum()).tolist()
    cluster.restart()
    assert tnp.ones(2).tolist() == [1, 1]


def test_a_fault_while_the_cluster_is_started_again(
    cluster: Cluster, gang: ThreadGang, mesh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, tried = gang.start, []

    def fails_once() -> None:
        tried.append(1)
        if len(tried) == 1:
            raise WorkerLostError("a host has gone meanwhile")
        start()

    monkeypatch.setattr(gang, "start", fails_once)

    def train() -> float:
        x = put(np.ones(8, "float32"), mesh, "d")
        if not tried:
            os.kill(gang.agents[0].pid, signal.SIGKILL)
        return float(x.sum())

    assert cluster.run(train) == 8.0 and len(tried) == 2


def test_workers_end_with_their_agent(cluster: Cluster, gang: ThreadGang, mesh: Any) -> None:
    pids = [agent.pid for agent in gang.agents]
    worker = gang.agents[1].worker
    assert worker is not None
    worker.close()  # as the end of the agent's process does
    with pytest.raises(DistributedError):
        put(np.zeros(8, "float32"), mesh, "d").sum().item()
    cluster.restart()
    until = time.monotonic() + 5
    while any(map(alive, pids)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_no_file_is_left(tmp_path: Path) -> None:
    gang = ThreadGang(parse("a:CPU*1"), DEADLINE_S, str(tmp_path))
    assert Path(gang.folder).stat().st_mode & 0o777 == 0o700
    gang.close()
    assert not Path(gang.folder).exists()


def test_each_worker_writes_and_reads_its_own_pieces(mesh: Any, tmp_path: Path) -> None:
    data = np.arange(24, dtype="float32").reshape(8, 3)
    state = {
        "w": tfn.jit(lambda x: x + 1)(put(data, mesh, "d")),  # divided among workers
        "b": tfn.jit(lambda x: x + 1)(tnp.ones(5)),  # of all workers
        "n": np.arange(3),  # of the controller
        "key": random.key(3),
        "at": 7,
    }
    checkpoints = Checkpoints(tmp_path, timeout_s=60.0)
    checkpoints.save(5, state)
    manifest = read(checkpoints.path(5))
    written = {(name, p.file) for name, e in manifest.arrays.items() for p in e.pieces}
    assert written == {("w", 1), ("w", 2), ("b", 1), ("n", 0)} and manifest.hosts == 3
    assert [p.shape for p in manifest.arrays["w"].pieces] == [(2, 3)] * 4
    verify(checkpoints.path(5))
    zeros = {**state, "w": put(0 * data, mesh, "d"), "b": tnp.ones(5), "n": np.zeros(3, int)}
    step, found = checkpoints.resume({**zeros, "at": 0, "key": random.key(0)})
    assert (step, found["at"]) == (5, 7) and found["w"].buffer.data is None
    np.testing.assert_array_equal(np.asarray(found["w"]), data + 1)
    np.testing.assert_array_equal(np.asarray(found["b"]), np.full(5, 2, "float32"))
    np.testing.assert_array_equal(np.asarray(found["n"]), np.arange(3))
    assert random.bits(found["key"], (2,)).tolist() == random.bits(random.key(3), (2,)).tolist()
    columns = {**zeros, "at": 0, "w": put(0 * data.T, mesh, None, "d").T}
    np.testing.assert_array_equal(np.asarray(checkpoints.resume(columns)[1]["w"]), data + 1)


def test_what_workers_find_damaged_is_passed_over(mesh: Any, tmp_path: Path) -> None:
    x = put(np.arange(8, dtype="float32"), mesh, "d")
    checkpoints = Checkpoints(tmp_path, asynchronous=True, timeout_s=60.0)
    for step in (1, 2):
        checkpoints.save(step, x + step)
        x = tfn.jit(lambda x: x * 2, donate_argnums=0)(x)  # while it is written
    checkpoints.wait()
    manifest = read(checkpoints.path(2))
    file = checkpoints.path(2) / manifest.files[2].name
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.warns(UserWarning, match="step 2 .* is passed over.*another digest"):
        step, found = checkpoints.resume(put(np.zeros(8, "float32"), mesh, "d"))
    assert step == 1
    np.testing.assert_array_equal(np.asarray(found), np.arange(1, 9))


def test_workers_save_into_a_store(mesh: Any, tmp_path: Path) -> None:
    """Blocks that have not changed are not written again, and damage is passed over or mended."""
    store = Store([tmp_path / "a", tmp_path / "b"], replicas=2, block_bytes=64)
    x = put(np.arange(24, dtype="float32").reshape(8, 3), mesh, "d")
    state = {"w": tfn.jit(lambda x: x + 1)(x), "n": np.arange(3), "at": 7}
    run = Checkpoints("run", store=store, asynchronous=True, timeout_s=60.0)
    run.save(1, state)
    run.wait()
    blocks = {*(tmp_path / "a" / "blocks").glob("*/*")}
    run.save(2, {**state, "at": 8})
    run.wait()
    new = {*(tmp_path / "a" / "blocks").glob("*/*")} - blocks
    assert [path.name for path in new] == [store.ref("run/step-000000002").tree.digest]
    parts = store.tree("run/step-000000002").arrays["w"].parts
    assert [part.shape for part in parts] == [(2, 3)] * 4  # as workers wrote them
    file = tmp_path / "b" / parts[3].blocks[0].path
    file.write_bytes(b"")
    assert [(d.file, d.mended) for d in scrub(store)] == [(str(file), True)]
    for folder in "ab":
        (tmp_path / folder / next(iter(new)).relative_to(tmp_path / "a")).write_bytes(b"")
    with pytest.warns(UserWarning, match="step 2 .* is passed over"):
        step, found = run.resume({"w": x, "n": np.zeros(3, int), "at": 0})
    assert (step, found["at"]) == (1, 7) and found["w"].buffer.data is None
    np.testing.assert_array_equal(np.asarray(found["w"]), np.arange(1, 25).reshape(8, 3))


def test_a_save_that_fails_is_written_again(
    mesh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = put(np.arange(8, dtype="float32"), mesh, "d")
    checkpoints = Checkpoints(tmp_path, timeout_s=60.0)
    monkeypatch.setattr(steps.manifests, "write", lambda *_: exec("raise OSError('full')"))
    with pytest.raises(OSError, match="full"):
        checkpoints.save(1, x + 1)
    monkeypatch.undo()
    checkpoints.save(1, x + 2)
    np.testing.assert_array_equal(np.asarray(checkpoints.resume(x)[1]), np.arange(2, 10))
    with pytest.raises(HostError, match=r"host 1: two pieces would have one name"):
        checkpoints.save(2, {"w": x + 1, "w[0:2]": tnp.ones(2) + 1})


def test_a_worker_that_dies_while_a_checkpoint_is_written(
    cluster: Cluster, gang: ThreadGang, mesh: Any, tmp_path: Path
) -> None:
    x = put(np.arange(8, dtype="float32"), mesh, "d") + 1
    x.block_until_ready()
    os.kill(gang.agents[1].pid, signal.SIGSTOP)  # it takes the command, and does nothing
    threading.Timer(0.3, os.kill, (gang.agents[1].pid, signal.SIGKILL)).start()
    begin = time.monotonic()
    with pytest.raises(WorkerLostError, match="rank 1"):
        Checkpoints(tmp_path).save(1, x)
    assert time.monotonic() - begin < 5
    cluster.restart()
