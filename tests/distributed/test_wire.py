"""Messages of a controller as bytes: shardings, requests and errors come back as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfn.distributed import wire
from tfn.errors import ArgumentError, DistributedError, ShapeError, WorkerLostError
from tfn.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from tfn.sharding import PartitionSpec as P
from tfn.trace.mesh import Device
from tfn.trace.place import Request

HERE = [Device("remote", i) for i in range(8)]
THERE = [Device("cpu", i, i // 4) for i in range(8)]


@pytest.mark.parametrize("spec", [P(), P("x"), P(None, ("x", "y")), P("y", None, "x")])
def test_a_sharding_over_other_devices(spec: P) -> None:
    kinds = (AxisType.Auto, AxisType.Explicit)
    meshes = [
        Mesh(np.array(d, object)[::-1].reshape(2, 4), ("x", "y"), kinds) for d in (HERE, THERE)
    ]
    record = wire.unpack(wire.pack(wire.place_record(NamedSharding(meshes[0], spec))))
    assert wire.sharding_of(record, THERE) == NamedSharding(meshes[1], spec)


def test_single_devices_and_nothing() -> None:
    record = wire.place_record(SingleDeviceSharding(HERE[3]))
    assert wire.sharding_of(record, THERE) == SingleDeviceSharding(THERE[3])
    assert wire.sharding_of(wire.place_record(None), THERE) is None


def test_requests() -> None:
    mesh = Mesh(HERE, ("x",))
    on = Request(NamedSharding(mesh, P()), (None, NamedSharding(mesh, P("x"))))
    assert wire.request_of(wire.unpack(wire.pack(wire.request_record(on))), HERE) == on
    assert wire.request_of(wire.request_record(None), HERE) is None


def test_names_of_axes_are_text() -> None:
    with pytest.raises(ArgumentError, match="names are text"):
        wire.place_record(NamedSharding(Mesh(HERE, (3,)), P()))


@pytest.mark.parametrize(
    "error",
    [
        WorkerLostError("gone", host="b", rank=1, step=7, collective="psum", committed=5),
        ShapeError("no", got="this", hint="that"),
    ],
)
def test_errors_keep_class_text_and_facts(error: Any) -> None:
    found: Any = wire.error_of(wire.unpack(wire.pack(wire.error_record(error))))
    assert type(found) is type(error) and (found.what, found.hint) == (error.what, error.hint)
    if isinstance(error, DistributedError):
        assert all(getattr(found, name) == getattr(error, name) for name in wire.FACTS)


def test_a_foreign_error_is_one_of_the_job() -> None:
    assert "ValueError: odd" in str(wire.error_of(wire.error_record(ValueError("odd"))))
    record = ("error", "Path", "odd", "", "", (None,) * 5)
    assert type(wire.error_of(record)) is DistributedError
