"""Several GPUs as the devices of a mesh: memories of their own, with the values of one GPU.

The GPUs are simulated.  Each has memory of its own: an address of another one is refused, unless a
copy says which contexts it is between; and streams run as late as they may.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.distributed import job_collectives
from tests.hw.cuda.devices import default, device_of, needs_gpu, real_gpus
from tests.hw.cuda.simulator import SimulatedCuda
from tfn import lax
from tfn.config import config
from tfn.errors import DeviceError, OutOfMemoryError
from tfn.hw.cuda.device import cuda
from tfn.sharding import AxisType, NamedSharding, SingleDeviceSharding
from tfn.sharding import PartitionSpec as P

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6)).astype("float32")
AUTO = AxisType.Auto


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)


@pytest.fixture
def gpus() -> Iterator[SimulatedCuda]:
    """The default device is the first of four simulated GPUs."""
    simulated = SimulatedCuda(count=4)
    with default(device_of(simulated, native=True)):
        yield simulated


def line(count: int = 4) -> Any:
    return tfn.make_mesh((count,), ("data",), (AUTO,), devices=tfn.devices()[:count])


def square() -> Any:
    return tfn.make_mesh((2, 2), ("data", "model"), (AUTO, AUTO))


def put(x: Any, mesh: Any, *spec: Any) -> Any:
    return tfn.device_put(x, NamedSharding(mesh, P(*spec)))


def test_each_gpu_is_a_device(gpus: SimulatedCuda) -> None:
    assert [str(d) for d in tfn.devices("cuda")] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    config.devices = 2  # of the memory of the first
    try:
        assert len(tfn.devices("cuda")) == 2
    finally:
        config.devices = 1


def test_a_program_runs_where_its_arguments_are(gpus: SimulatedCuda) -> None:
    x, second = tnp.array(X), tfn.devices()[1]
    y = tfn.device_put(x, second)
    assert y.device == second and gpus.calls["cuMemcpyPeerAsync"] == 1
    f = tfn.jit(lambda x: x * 2 + 1)
    for _ in range(3):
        z = f(y)
    assert z.device == second
    np.testing.assert_array_equal(np.asarray(z), X * 2 + 1)
    np.testing.assert_array_equal(np.asarray(y + x), 2 * X)  # no one has committed x
    np.testing.assert_array_equal(np.asarray(tfn.device_put(z, tfn.devices()[3])), X * 2 + 1)
    tfn.block_until_ready(z)


def test_arrays_on_different_gpus_do_not_mix(gpus: SimulatedCuda) -> None:
    x, y = (tfn.device_put(X, d) for d in tfn.devices()[:2])
    with pytest.raises(DeviceError, match="on different devices") as raised:
        x + y
    assert "cuda:0" in str(raised.value) and "cuda:1" in str(raised.value)
    over = put(X, line(), "data")
    with pytest.raises(DeviceError, match="on different devices"):
        over + y
    with pytest.raises(DeviceError, match="there is no device cuda:9"):
        tfn.device_put(X, "cuda:9")
    refused = pytest.raises(DeviceError, match="made on the first device")
    with refused, tfn.default_device(tfn.devices()[1]):
        pass


@pytest.mark.parametrize("spec", [("data",), (None, "data"), ()], ids=str)
def test_parts_come_together(gpus: SimulatedCuda, spec: Any) -> None:
    x = X[:, :4]
    y = put(x, line(), *spec)
    np.testing.assert_array_equal(np.asarray(y), x)
    for shard in y.addressable_shards:
        assert shard.data.device == shard.device
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])
    again = tfn.make_array_from_single_device_arrays(
        x.shape, y.sharding, [shard.data for shard in y.addressable_shards]
    )
    np.testing.assert_array_equal(np.asarray(again), x)
    made = tfn.make_array_from_callback(x.shape, y.sharding, lambda index: x[index])
    np.testing.assert_array_equal(np.asarray(made), x)
    np.testing.assert_array_equal(np.asarray(y.copy()), x)


def test_parts_of_single_gpus_are_not_copied(gpus: SimulatedCuda) -> None:
    y = put(X, line(), "data")
    before = gpus.calls["cuMemcpyHtoDAsync"], gpus.calls["cuMemcpyDtoHAsync"]
    parts = [shard.data for shard in y.addressable_shards]
    tfn.make_array_from_single_device_arrays(X.shape, y.sharding, parts)
    assert (gpus.calls["cuMemcpyHtoDAsync"], gpus.calls["cuMemcpyDtoHAsync"]) == before


def test_whole_arrays_go_from_memory_to_memory(gpus: SimulatedCuda) -> None:
    x = tnp.array(X)
    before = gpus.calls["cuMemcpyDtoHAsync"]
    y = put(x, line())
    assert gpus.calls["cuMemcpyPeerAsync"] == 3 and gpus.calls["cuMemcpyDtoHAsync"] == before
    np.testing.assert_array_equal(np.asarray(y), X)


CHANGES = [(("data",), ()), ((), ("data",)), (("data",), (None, "data"))]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_arrays_are_divided_anew(gpus: SimulatedCuda, change: Any) -> None:
    mesh, x = line(), X[:, :4]
    y = put(x, mesh, *change[0])
    before = gpus.calls["cuMemcpyDtoHAsync"]
    z = put(y, mesh, *change[1])
    assert gpus.calls["cuMemcpyDtoHAsync"] == before
    assert z.sharding.spec == P(*change[1])
    np.testing.assert_array_equal(np.asarray(z), x)


def collectives(v: Any) -> Any:
    rank = lax.axis_index("data")
    return (
        lax.psum(v, "data"),
        lax.all_gather(v, "data", tiled=True) * (rank + 1),
        lax.ppermute(v, "data", [(0, 1), (1, 2), (3, 0)]),
        lax.all_to_all(v, "data", 1, 0, tiled=True),
        lax.psum_scatter(lax.all_gather(v, "data", tiled=True), "data", tiled=True),
        lax.pmax(v, "data") - lax.pmean(v, "data"),
    )


def shard_mapped(mesh: Any) -> Any:
    return tfn.shard_map(
        collectives, mesh=mesh, in_specs=P("data"), out_specs=P("data"), check_vma=False
    )


def test_collectives_have_the_values_of_the_cpu(gpus: SimulatedCuda) -> None:
    x = X.repeat(2, 0)[:, :4]
    got = shard_mapped(line())(put(x, line(), "data"))
    assert gpus.calls["cuMemcpyPeerAsync"] > 20 and gpus.calls["cuCtxEnablePeerAccess"] == 12
    config.device, config.devices = "cpu", 4
    try:
        expected = shard_mapped(line())(put(x, line(), "data"))
    finally:
        config.device, config.devices = "cuda", 1
    for a, b in zip(got, expected, strict=True):
        with tfn.default_device("cpu"):
            values = np.asarray(b)
        np.testing.assert_allclose(np.asarray(a), values, rtol=1e-6)


@pytest.mark.parametrize("size", [20_000, 20_003])
def test_a_large_sum_is_added_in_parts_in_the_order_of_the_mesh(
    gpus: SimulatedCuda, size: int
) -> None:
    x = RNG.normal(size=(4, size)).astype("float32")
    f = tfn.shard_map(lambda v: lax.psum(v, "data"), mesh=line(), in_specs=P("data"), out_specs=P())
    got = np.asarray(f(put(x, line(), "data")))
    np.testing.assert_array_equal(got[0], ((x[0] + x[1]) + x[2]) + x[3])


def loss(w: Any, x: Any, y: Any) -> Any:
    return ((tnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2).mean()


@tfn.jit
def epoch(w: Any, x: Any, y: Any) -> Any:
    def step(w: Any, batch: Any) -> Any:
        value, slope = tfn.value_and_grad(loss)(w, *batch)
        return tfn.tree.map(lambda p, g: p - 0.3 * g, w, slope), value

    return lax.scan(step, w, (x, y))


@pytest.mark.parametrize("specs", [((), ()), ((None, "model"), ("model",))], ids=str)
def test_a_network_trains_on_a_mesh_as_on_one_gpu(gpus: SimulatedCuda, specs: Any) -> None:
    x, y = RNG.normal(size=(3, 8, 5)).astype("float32"), RNG.normal(size=(3, 8, 2))
    w = {"a": RNG.normal(size=(5, 4)) * 0.3, "b": RNG.normal(size=(4, 2)) * 0.3}
    w = {k: v.astype("float32") for k, v in w.items()}
    one = epoch(tfn.tree.map(tnp.array, w), tnp.array(x), tnp.array(y, "float32"))
    mesh = square()
    params = {k: put(v, mesh, *spec) for (k, v), spec in zip(w.items(), specs, strict=True)}
    batch = [put(v.astype("float32"), mesh, None, "data") for v in (x, y)]
    for _ in range(2):  # the second is from the cache
        many = epoch(params, *batch)
    for a, b in zip(tfn.tree.leaves(one), tfn.tree.leaves(many), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-6)


def test_loops_and_branches_with_exchanges(gpus: SimulatedCuda) -> None:
    def body(v: Any) -> Any:
        def more(state: Any) -> Any:
            return (state[0] < 50.0) & (state[2] < 9)

        def step(state: Any) -> Any:
            _, v, i = state
            v = lax.cond(i % 2 == 0, lambda v: v + lax.pmean(v, "data"), lambda v: v * 1.5, v)
            return lax.psum(v.sum(), "data"), v, i + 1

        total = lax.psum(v.sum(), "data")
        return lax.while_loop(more, step, (total, v, tnp.int32(0)))[1]

    f = tfn.shard_map(body, mesh=line(2), in_specs=P("data"), out_specs=P("data"), check_vma=False)
    x = np.arange(4, dtype="float32")
    v, i = x.copy(), 0
    while v.sum() < 50 and i < 9:
        v = v + np.tile((v[:2] + v[2:]) / 2, 2) if i % 2 == 0 else v * 1.5
        i += 1
    np.testing.assert_allclose(np.asarray(f(put(x, line(2), "data"))), v, rtol=1e-6)


def test_a_loop_about_which_gpus_disagree(gpus: SimulatedCuda) -> None:
    def body(v: Any) -> Any:
        def step(v: Any) -> Any:
            return v + lax.psum(v, "data")

        return lax.while_loop(lambda v: v[0] < 9.0, step, v)

    f = tfn.shard_map(body, mesh=line(2), in_specs=P("data"), out_specs=P("data"), check_vma=False)
    with pytest.raises(DeviceError, match="disagree about a loop"):
        f(put(np.array([1.0, 20.0], "float32"), line(2), "data"))


def test_functions_of_the_host_are_called_for_each(gpus: SimulatedCuda) -> None:
    like = tfn.ShapeDtypeStruct((2, 6), "float32")
    f = tfn.shard_map(
        lambda v: lax.psum(tfn.pure_callback(np.square, like, v), "data"),
        mesh=line(),
        in_specs=P("data"),
        out_specs=P(),
        check_vma=False,
    )
    expected = (X.reshape(4, 2, 6) ** 2).sum(0)
    np.testing.assert_allclose(np.asarray(f(put(X, line(), "data"))), expected, rtol=1e-6)


def test_donated_arrays_give_their_memory(gpus: SimulatedCuda) -> None:
    f = tfn.jit(lambda x: x * 2 + 1, donate_argnums=0)
    x = put(X, line(), "data")
    kept = x.addressable_shards[2].data
    y = f(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(y), X * 2 + 1)
    np.testing.assert_array_equal(np.asarray(kept), X[4:6])  # it is an array of its own


def test_uncommitted_operands_and_random_numbers(gpus: SimulatedCuda) -> None:
    mesh, scale = line(), tnp.array(X[0])
    f = tfn.jit(lambda x, s, key: x * s + tfn.random.normal(key, x.shape))
    got = f(put(X, mesh, "data"), scale, tfn.random.key(3))
    one = f(tnp.array(X), scale, tfn.random.key(3))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(one))


def test_gpus_of_different_kinds_are_no_mesh(gpus: SimulatedCuda) -> None:
    x = np.ones(4, "float32")
    put(x, line(2), "data")
    gpus.attributes["major"], gpus.attributes["minor"] = 8, 0
    with pytest.raises(DeviceError, match="of different kinds") as raised:
        put(x, line(4), "data")
    assert "sm_90a" in str(raised.value) and "sm_80" in str(raised.value)


def test_memory_of_one_gpu_that_is_not_there(gpus: SimulatedCuda) -> None:
    y = put(X, line(), "data")
    with pytest.raises(OutOfMemoryError, match="do not fit on"):
        tfn.jit(lambda x: tnp.broadcast_to(x.sum(), (1 << 40,)) * 2.0)(y)
    np.testing.assert_array_equal(np.asarray(y * 2), X * 2)


def test_memory_is_counted_by_gpu(gpus: SimulatedCuda) -> None:
    y = put(np.ones((4, 1 << 16), "float32"), line(), "data")
    alone = tfn.device_put(np.ones(1 << 16, "float32"), tfn.devices()[2])
    used = [device.memory_stats()["bytes_in_use"] for device in tfn.devices()]
    assert used[2] >= 2 << 18 and used[1] >= 1 << 18 and used[1] < 2 << 18
    assert y.sharding != alone.sharding
    assert isinstance(alone.sharding, SingleDeviceSharding)


def test_without_links_the_driver_copies(gpus: SimulatedCuda) -> None:
    gpus.links = False
    y = put(X, line(), "data")
    np.testing.assert_array_equal(np.asarray(tfn.jit(lambda x: x.sum(0))(y)).shape, (6,))
    assert not gpus.calls["cuCtxEnablePeerAccess"] and gpus.calls["cuMemcpyPeerAsync"]


def test_one_mesh_over_a_part_of_the_gpus(gpus: SimulatedCuda) -> None:
    devices = tfn.devices()
    mesh = tfn.make_mesh((2,), ("data",), (AUTO,), devices=[devices[3], devices[1]])
    y = put(X, mesh, "data")
    assert [shard.device.id for shard in y.addressable_shards] == [3, 1]
    got = tfn.jit(lambda x: x - x.mean(0))(y)
    np.testing.assert_allclose(np.asarray(got), X - X.mean(0), rtol=1e-5, atol=1e-6)


@needs_gpu
@pytest.mark.skipif(real_gpus() < 2, reason=f"a mesh needs two GPUs, not {real_gpus()}")
@pytest.mark.parametrize("nccl", ["as installed", "none"])
def test_collectives_of_real_gpus(nccl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, of values that are summed from a gather and in parts; without NCCL too."""
    if nccl == "none":
        monkeypatch.setattr("tfn.hw.cuda.nccl.library", lambda: None)
    with default(cuda()):
        mesh = tfn.make_mesh((real_gpus() // 2 * 2,), ("d",), (AUTO,))
        for dtype in ("float32", "bfloat16", "int32"):
            assert job_collectives.check(dtype, mesh, (0, 13, job_collectives.SUMMED_LATER)) > 30
