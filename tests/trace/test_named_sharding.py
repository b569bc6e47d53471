"""Shardings: specs, parts, equivalence."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from tfn.errors import ArgumentError, AxisError, ShapeError
from tfn.trace.mesh import AbstractMesh, Device, Mesh, set_mesh
from tfn.trace.named_sharding import (
    NamedSharding,
    P,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    as_sharding,
    spec_of,
)
from tfn.trace.sharding import OPEN, Partition

DEVICES = [Device("cpu", i) for i in range(8)]
MESH = Mesh(np.array(DEVICES, object).reshape(2, 4), ("x", "y"))


def over(*spec: object) -> NamedSharding:
    return NamedSharding(MESH, P(*spec))


def test_specs() -> None:
    spec = P("x", None, ("y", "z"))
    assert repr(spec) == "P('x', None, ('y', 'z'))" and len(spec) == 3 and list(spec)[1] is None
    assert spec == PartitionSpec("x", None, ["y", "z"]) and spec != ("x", None, ("y", "z"))
    assert P(("x",), ()) == P("x", None) != P("x") and hash(P(("x",))) == hash(P("x"))
    assert P("x") + P("y") == P("x", "y")
    assert spec.index("x") == 0 and P(None, None).count(None) == 2 and spec[2] == ("y", "z")
    assert spec.partitions == tuple(spec) and spec.update(("a",)) == P("a")
    assert pickle.loads(pickle.dumps(P(P.UNCONSTRAINED, "x"))) == P(P.UNCONSTRAINED, "x")
    assert not isinstance(spec, tuple), "a leaf of trees"


def test_partitions() -> None:
    sharding = over(("y", "x"), None)
    assert sharding.partition(3) == Partition(MESH.axes, (("y", "x"), (), ()))
    assert sharding.shard_shape((16, 5)) == (2, 5) and over().shard_shape((3,)) == (3,)
    assert over(P.UNCONSTRAINED, "x").constraint((3, 4)).spec == (OPEN, ("x",))
    assert over(P.UNCONSTRAINED, "x").partition(2).spec == ((), ("x",))
    assert spec_of(((), ("x",), ())) == P(None, "x") and spec_of(((),)) == P()


def test_indices_are_those_of_jax() -> None:
    indices = over("x", "y").devices_indices_map((4, 8))
    assert list(indices) == DEVICES
    assert indices[DEVICES[1]] == (slice(0, 2), slice(2, 4))
    assert indices[DEVICES[6]] == (slice(2, 4), slice(4, 6))
    assert over("x").devices_indices_map((4, 8))[DEVICES[7]] == (slice(2, 4), slice(None))
    assert over().devices_indices_map((4,))[DEVICES[7]] == (slice(None),)
    assert over(("y", "x")).devices_indices_map((8,))[DEVICES[4]] == (slice(1, 2),)


def test_questions() -> None:
    sharding = over("x")
    assert sharding.device_set == sharding.addressable_devices == set(DEVICES)
    assert sharding.devices == tuple(DEVICES) and sharding.num_devices == 8
    assert sharding.is_fully_addressable and not sharding.is_fully_replicated
    assert over().is_fully_replicated and over(None, None).is_fully_replicated
    assert sharding.with_spec(P("y")) == sharding.update(spec=P("y")) == over("y")
    assert sharding.memory_kind == "device" and sharding.with_memory_kind("pinned_host") is sharding
    one = SingleDeviceSharding(DEVICES[1])
    assert one.device_set == {DEVICES[1]} and one.shard_shape((3,)) == (3,) and one.num_devices == 1
    assert one.devices_indices_map((3, 2)) == {DEVICES[1]: (slice(None), slice(None))}
    assert one.with_memory_kind("device") is one and repr(one) == "SingleDeviceSharding(cpu:1)"
    assert isinstance(one, Sharding) and isinstance(sharding, Sharding)
    assert (
        pickle.loads(pickle.dumps(sharding)) == sharding and pickle.loads(pickle.dumps(one)) == one
    )
    assert NamedSharding(MESH.abstract_mesh, P("x")).spec == P("x")
    assert repr(sharding) == "NamedSharding(Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), P('x'))"


def test_equivalence_is_that_of_indices() -> None:
    flat = NamedSharding(Mesh(DEVICES, "z"), P("z"))
    specs = [(), ("x",), ("x", None), ("y",), ("x", "y"), ("y", "x"), (("x", "y"),), (("y", "x"),)]
    ways = [flat, SingleDeviceSharding(DEVICES[0]), *(over(*spec) for spec in specs)]
    for a, b in itertools.product(ways, ways):
        same = list(a.devices_indices_map((64, 64)).items()) == list(
            b.devices_indices_map((64, 64)).items()
        )
        assert a.is_equivalent_to(b, 2) == same, (a, b)
    assert flat.is_equivalent_to(over(("x", "y")), 1) and over("x") != over("x", None)
    lone = NamedSharding(Mesh(DEVICES[:1], "x"), P("x"))
    assert lone.is_equivalent_to(SingleDeviceSharding(DEVICES[0]), 3)
    assert not over("x", "y").is_equivalent_to(over("x"), 1), "too long for one axis"


def test_bad_shardings() -> None:
    with pytest.raises(AxisError, match="the axis 'z', which the mesh does not have"):
        over("z")
    with pytest.raises(AxisError, match="divides twice over the axis 'x'"):
        over("x", ("y", "x"))
    with pytest.raises(ShapeError, match="is longer than the shape of the array"):
        over("x", "y").partition(1)
    with pytest.raises(ShapeError, match="cannot divide axis 1 of size 6 into 4 equal parts"):
        over("x", "y").shard_shape((4, 6))
    with pytest.raises(ArgumentError, match="a mesh and a PartitionSpec"):
        NamedSharding(MESH, ("x",))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="SingleDeviceSharding needs a device"):
        SingleDeviceSharding(3)  # type: ignore[arg-type]


def test_places() -> None:
    assert as_sharding("f", None) is None and as_sharding("f", over("x")) == over("x")
    assert as_sharding("f", DEVICES[1]) == SingleDeviceSharding(DEVICES[1])
    with set_mesh(MESH):
        assert as_sharding("f", P("x")) == over("x")
    with pytest.raises(ArgumentError, match="f got a PartitionSpec, and no mesh is set"):
        as_sharding("f", P("x"))
    with pytest.raises(ArgumentError, match="f needs a sharding or a device"):
        as_sharding("f", "x")


def test_manual_axes_of_types() -> None:
    mesh = AbstractMesh((2,), ("x",))
    assert NamedSharding(mesh, P("x")) == NamedSharding(mesh, P("x"))
