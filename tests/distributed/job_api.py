"""Job: what users see of devices, arrays and values of many processes; prints "as expected"."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import distributed as dist
from tfn.errors import ArgumentError, DeviceError, DistributedError, ShapeError
from tfn.sharding import Mesh, NamedSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace.processes import processes


def raises(kind: type[Exception], message: str, f: Any, *args: Any, **kwargs: Any) -> None:
    try:
        f(*args, **kwargs)
    except kind as error:
        assert message in str(error), str(error)
    else:
        raise AssertionError(f"no {kind.__name__}: {message}")


def check_devices(me: int) -> None:
    assert tfn.process_count() == 2 and tfn.process_indices() == [0, 1]
    assert [d.process_index for d in tfn.devices()] == [0, 0, 1, 1]
    assert [d.id for d in tfn.devices()] == [0, 1, 2, 3]
    assert [d.local_hardware_id for d in tfn.devices()] == [0, 1, 0, 1]
    assert tfn.local_devices() == tfn.devices()[2 * me : 2 * me + 2]
    assert tfn.local_devices(1 - me) == tfn.devices()[2 - 2 * me : 4 - 2 * me]
    assert (tfn.device_count(), tfn.local_device_count()) == (4, 2)
    assert tnp.ones(2).devices() == {tfn.local_devices()[0]}
    raises(DeviceError, "there is no process 2", tfn.local_devices, 2)
    raises(
        DeviceError, "belongs to another process", tfn.device_put, 1.0, tfn.local_devices(1 - me)[0]
    )
    raises(DeviceError, "there is no device", tfn.device_put, 1.0, "cpu:4")
    mixed = Mesh([tfn.devices()[i] for i in (0, 2, 1, 3)], "x")
    raises(
        DeviceError, "do not hold blocks", tfn.device_put, np.ones(4), NamedSharding(mixed, P("x"))
    )
    raises(DistributedError, "called twice", dist.initialize)


def check_arrays(me: int) -> None:
    mesh = tfn.make_mesh((2, 2), ("x", "y"), tfn.sharding.AxisType.Auto)
    assert mesh.is_multi_process and mesh.local_mesh.devices.tolist() == [tfn.local_devices()]
    data = np.arange(48, dtype="float32").reshape(8, 6)
    over = NamedSharding(mesh, P("x", "y"))
    x = tfn.device_put(data, over)
    assert not x.is_fully_addressable and x.shape == (8, 6)
    assert [s.device for s in x.addressable_shards] == tfn.local_devices()
    for shard in x.addressable_shards:
        assert np.array_equal(shard.data, data[shard.index])
    raises(DeviceError, "cannot be read as a whole", np.asarray, x)
    raises(DeviceError, "cannot be read as a whole", pickle.dumps, x)
    assert np.array_equal(dist.process_allgather(x), data)
    # Construction from parts.
    same = tfn.make_array_from_callback((8, 6), over, lambda index: data[index])
    parts = [s.data for s in x.addressable_shards]
    again = tfn.make_array_from_single_device_arrays((8, 6), over, parts)
    rows = tfn.make_array_from_process_local_data(over, data[4 * me : 4 * me + 4])
    whole = tfn.make_array_from_process_local_data(over, data, (8, 6))
    local = dist.host_local_array_to_global_array(data[4 * me : 4 * me + 4], mesh, P("x", "y"))
    for other in (same, again, rows, whole, local):
        assert other.shape == (8, 6) and np.array_equal(dist.process_allgather(other), data)
    back = dist.global_array_to_host_local_array(x, mesh, P("x", "y"))
    assert np.array_equal(back, data[4 * me : 4 * me + 4])
    raises(ShapeError, "do not fit", tfn.make_array_from_process_local_data, over, data[:3], (8, 6))
    # Other divisions, eagerly and compiled; what each process holds entirely can be read.
    for spec in (P(), P("y"), P(("y", "x")), P(None, "x"), P("x")):
        y = tfn.device_put(x, NamedSharding(mesh, spec))
        assert np.array_equal(dist.process_allgather(y), data), spec
    assert np.array_equal(np.asarray(tfn.device_put(x, NamedSharding(mesh, P("y")))), data)
    other = tfn.make_mesh((4,), ("z",), tfn.sharding.AxisType.Auto)
    z = tfn.device_put(x, NamedSharding(other, P("z")))
    assert np.array_equal(dist.process_allgather(z), data)
    raises(DeviceError, "different meshes", lambda: x + z)
    assert float((x * 2).sum()) == 2 * data.sum() and float(x.max()) == 47
    assert repr(x) == str(x) == "Array(over processes, f32[8,6])", repr(x)
    f = tfn.jit(lambda a, b: a @ b, out_shardings=NamedSharding(mesh, P("y", "x")))
    product = f(x, np.ones((6, 2), "float32"))
    assert product.sharding.spec == P("y", "x")
    assert np.array_equal(dist.process_allgather(product), data @ np.ones((6, 2), "float32"))
    donated = tfn.jit(lambda a: a + 1, donate_argnums=0)
    for _ in range(3):
        rows = donated(rows)
    assert np.array_equal(dist.process_allgather(rows), data + 3)
    # An array of this process alone.
    own = tfn.jit(lambda v: v.sum())(
        tfn.device_put(np.ones(4), NamedSharding(mesh.local_mesh, P("y")))
    )
    assert float(own) == 4
    alone = Mesh(tfn.local_devices(0), "y")
    if me == 1:
        there = NamedSharding(alone, P("y"))
        make = tfn.make_array_from_callback
        raises(DeviceError, "no device of the array", make, (4,), there, lambda index: np.ones(2))


def check_values(me: int) -> None:
    assert dist.process_allgather(np.full(2, me)).tolist() == [[0, 0], [1, 1]]
    assert dist.process_allgather(np.full(2, me), tiled=True).tolist() == [0, 0, 1, 1]
    assert dist.process_allgather({"me": me})["me"].tolist() == [0, 1]
    assert dist.broadcast_one_to_all(np.full(3, me)).tolist() == [0, 0, 0]
    assert dist.broadcast_one_to_all(np.full(3, me), is_source=me == 1).tolist() == [1, 1, 1]
    raises(DistributedError, "one source", dist.broadcast_one_to_all, 1.0, True)
    dist.sync_global_devices("here")
    raises(DistributedError, "different places", dist.sync_global_devices, f"place {me}")
    dist.assert_equal({"x": np.ones(3)})
    raises(
        AssertionError, "seeds differ: rank 0 on", dist.assert_equal, np.full(3, me), "seeds differ"
    )


def check_programs(me: int) -> None:
    x = tfn.device_put(
        np.ones(8, "float32"),
        NamedSharding(tfn.make_mesh((4,), "d", tfn.sharding.AxisType.Auto), P("d")),
    )

    def one(v: Any) -> Any:
        return v.sum()

    def two(v: Any) -> Any:
        return (v * v).sum()

    f = tfn.jit(one if me == 0 else two)
    raises(DistributedError, "about to run different programs", f, x)
    raises(DistributedError, "rank 0 on", tfn.jit(two if me == 0 else lambda v: v.min()), x)
    assert float(tfn.jit(one)(x)) == 8
    raises(ArgumentError, "cannot have this value", setattr, tfn.config, "devices", 0)


def main() -> None:
    """Check all."""
    dist.initialize(deadline_s=60)
    me = tfn.process_index()
    assert processes.host_index == me  # all are on this host
    for check in (check_devices, check_arrays, check_values, check_programs):
        check(me)
    dist.shutdown()
    assert tfn.process_count() == 1 and not dist.is_initialized()
    print("as expected")


if __name__ == "__main__":
    main()
