"""Parts of arrays: made, moved, put together."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, DeletedArrayError, DeviceError, ShapeError
from tfn.sharding import Mesh, NamedSharding, SingleDeviceSharding

X = np.arange(64, dtype="float32").reshape(8, 8)
P = tfn.P
SPECS = [
    P(),
    P("x"),
    P("y"),
    P(None, "x"),
    P("x", "y"),
    P("y", "x"),
    P(("y", "x")),
    P(None, ("x", "y")),
]
pytestmark = pytest.mark.usefixtures("eight_devices")


def over(*spec: object) -> NamedSharding:
    return NamedSharding(tfn.make_mesh((2, 4), ("x", "y")), P(*spec))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_parts_are_what_their_index_says(spec: P) -> None:
    x = tfn.device_put(X, over(*spec))
    shards = x.addressable_shards
    assert [shard.device for shard in shards] == tfn.devices()
    for shard in shards:
        assert np.array_equal(shard.data, X[shard.index])
        assert shard.data.sharding == SingleDeviceSharding(shard.device)
        assert shard.data.shape == x.sharding.shard_shape(x.shape)
    copies = [shard.replica_id for shard in shards]
    assert copies.count(0) == len({str(shard.index) for shard in shards})
    assert np.array_equal(x.addressable_data(3), shards[3].data)
    assert f"device={tfn.devices()[0]}" in repr(shards[0]) and x.global_shards[1].device.id == 1


def test_every_sharding_from_every_other() -> None:
    ways = [*(over(*spec) for spec in SPECS), SingleDeviceSharding(tfn.devices()[1])]
    ways.append(NamedSharding(tfn.make_mesh((8,), "z"), P(None, "z")))
    ways.append(NamedSharding(Mesh(tfn.devices()[2:4], "x"), P("x")))
    ways.append(SingleDeviceSharding(tfn.devices("python")[0]))
    for before, after in itertools.product(ways, ways):
        x = tfn.device_put(tfn.device_put(X, before), after)
        assert x.sharding == after and np.array_equal(x, X), (before, after)


def test_memory_is_shared_where_parts_are_the_same() -> None:
    x = tfn.device_put(X, over())
    assert tfn.device_put(x, over()) is x
    assert tfn.device_put(x, tfn.devices()[1]).buffer is x.buffer
    y = tfn.device_put(X, over("x"))
    assert tfn.device_put(y, over("x", None)).buffer is y.buffer
    tfn.device_put(x, tfn.devices()[1], donate=True)
    assert x.is_deleted() and np.array_equal(y, X)
    with pytest.raises(DeletedArrayError):
        tfn.device_put(x, over("x"))


def test_donated_memory_that_others_share_stays() -> None:
    f = tfn.jit(lambda v: v + 1, donate_argnums=0)
    for sharding in (over(), over("x")):
        for _ in range(3):  # the general call, then the native one
            x = tfn.device_put(X, sharding)
            other = tfn.device_put(x, tfn.devices()[1])
            part, data = x.addressable_shards[5].data, np.asarray(x)
            assert np.array_equal(f(x), X + 1) and x.is_deleted()
            assert np.array_equal(other, X) and np.array_equal(data, X)
            assert np.array_equal(part, X[sharding.devices_indices_map(X.shape)[tfn.devices()[5]]])


def test_what_an_array_tells() -> None:
    x = tfn.device_put(X, over("x"))
    assert x.committed and x.device == x.sharding == over("x") and len(x.devices()) == 8
    assert x.is_fully_addressable and not x.is_fully_replicated
    y = tnp.ones(3)
    assert not y.committed and y.is_fully_replicated and y.sharding.device == y.device
    assert y.addressable_shards[0].data.tolist() == [1, 1, 1]
    x.copy_to_host_async()
    assert x.block_until_ready() is x


def test_copies_and_pickles() -> None:
    x = tfn.device_put(X, over("x", "y"))
    assert np.array_equal(pickle.loads(pickle.dumps(x)), X)
    assert copy.deepcopy(x).sharding == x.sharding and x.copy().kind is x.kind
    assert x.tolist() == X.tolist() and str(x) == str(tnp.asarray(X))
    assert repr(x) == repr(tnp.asarray(X)) and np.array_equal(np.from_dlpack(x), X)
    assert tfn.device_get({"x": x})["x"].shape == (8, 8)
    weak = tfn.device_put(2.0, over())
    assert weak.weak_type and (weak + np.ones(2, "float16")).dtype == "float16"


def test_trees_of_places() -> None:
    tree = {"w": X, "b": [np.ones(4), 2.0, None]}
    put = tfn.device_put(tree, {"w": over("x"), "b": tfn.devices()[1]})
    assert put["w"].sharding == over("x") and put["b"][0].device.id == 1 and put["b"][2] is None
    put = tfn.device_put(tree, {"w": over("x"), "b": [None, over(), None]})
    assert not put["b"][0].committed and put["b"][1].sharding == over()
    with pytest.raises(tfn.errors.TreeError, match="shardings of device_put does not fit"):
        tfn.device_put(tree, {"w": over()})
    with pytest.raises(ArgumentError, match="needs a sharding or a device"):
        tfn.device_put(X, 3)
    with tfn.set_mesh(over().mesh):
        assert tfn.device_put(X, P("y")).sharding == over("y")
    with pytest.raises(ArgumentError, match="no mesh is set"):
        tfn.device_put(X, P("y"))


def test_arrays_from_their_parts() -> None:
    asked = []

    def part(index: tuple[slice, ...]) -> np.ndarray:
        asked.append(index)
        return X[index]

    x = tfn.make_array_from_callback(X.shape, over("y"), part)
    assert np.array_equal(x, X) and x.sharding == over("y") and len(asked) == 4
    half = tfn.make_array_from_callback(X.shape, over(), part, dtype="float16")
    assert half.dtype == "float16" and len(asked) == 5
    parts = [shard.data for shard in x.addressable_shards]
    again = tfn.make_array_from_single_device_arrays(X.shape, over("y"), parts[::-1])
    assert np.array_equal(again, X)
    assert np.array_equal(tfn.make_array_from_process_local_data(over("x"), X), X)
    with pytest.raises(ShapeError, match=r"the part of .*:0 has the wrong shape"):
        tfn.make_array_from_callback(X.shape, over("y"), lambda index: X)
    with pytest.raises(DeviceError, match=r"there is no array on .*:0"):
        tfn.make_array_from_single_device_arrays(X.shape, over("y"), parts[1:])
    with pytest.raises(ShapeError, match="do not fit into the array"):
        tfn.make_array_from_process_local_data(over("x"), X, (16, 8))


def test_new_arrays_on_devices() -> None:
    x = tfn.device_put(X, over("x", "y"))
    assert tnp.zeros_like(x).sharding == x.sharding and not tnp.zeros_like(x, shape=3).committed
    assert tnp.zeros((8, 8), device=over("y")).sharding == over("y")
    assert tnp.arange(8, device=tfn.devices()[2]).device.id == 2
    assert tnp.asarray(X, device=over("x")).sharding == over("x")
    assert tnp.full(2, 1, device=str(tfn.devices()[1])).device.id == 1
    assert x.to_device(tfn.devices()[1]).device.id == 1


def test_sizes_that_do_not_divide() -> None:
    with pytest.raises(ShapeError, match="cannot divide axis 0 of size 3 into 2 equal parts"):
        tfn.device_put(np.ones((3, 8)), over("x"))
    with pytest.raises(ShapeError, match="longer than the shape of the array"):
        tfn.device_put(np.ones(4), over("x", "y"))
    empty = tfn.device_put(np.ones((0, 8), "float32"), over("x"))
    assert (empty + 1).shape == (0, 8) and empty.tolist() == []


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "complex64", "float64"])
def test_every_width_of_elements(dtype: str) -> None:
    x = tnp.asarray(X).astype(dtype)
    y = tfn.device_put(x, over("y", "x"))
    assert np.array_equal(np.asarray(y), np.asarray(x)) and y.dtype == x.dtype
