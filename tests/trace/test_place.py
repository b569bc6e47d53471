"""The place of a call."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.dtypes import FLOAT32
from tfn.errors import DeviceError
from tfn.trace.aval import Kind, kind_of
from tfn.trace.mesh import Device, Mesh
from tfn.trace.named_sharding import NamedSharding, P, Sharding, SingleDeviceSharding
from tfn.trace.place import common_place, named_partition, result_sharding
from tfn.trace.sharding import Axis, Partition

DEVICES = [Device("cpu", i) for i in range(8)]
MESH = Mesh(np.array(DEVICES, object).reshape(2, 4), ("x", "y"))
ROWS, ONE = NamedSharding(MESH, P("x")), SingleDeviceSharding(DEVICES[1])


def kinds(*shardings: Sharding | None) -> list[Kind]:
    return [kind_of((4, 8), FLOAT32, sharding) for sharding in shardings]


def test_operands_agree_on_a_place() -> None:
    assert common_place("f", kinds()) is None and common_place("f", kinds(None, None)) is None
    assert common_place("f", kinds(None, ROWS, ROWS.with_spec(P()))) == ROWS
    assert common_place("f", kinds(ONE, None)) == ONE
    lone = NamedSharding(Mesh(DEVICES[1:2], "x"), P())
    assert common_place("f", kinds(ONE, lone)) == common_place("f", kinds(lone, ONE)) == lone


def test_operands_that_do_not() -> None:
    with pytest.raises(DeviceError, match=r"f got .*\n.*b: f32\[4,8\] on cpu:1 and c: .*cpu:0,"):
        common_place("f", kinds(None, ONE, ROWS), ["a", "b", "c"])
    backwards = NamedSharding(Mesh(DEVICES[::-1], "x"), P())
    with pytest.raises(DeviceError, match=r"operand 0: .* and operand 1: "):
        common_place("f", kinds(ROWS, backwards))


def test_shardings_of_results() -> None:
    assert result_sharding(None, None) is None and result_sharding(None, ONE) == ONE
    assert result_sharding(None, ROWS) == ROWS.with_spec(P())
    divided = Partition(MESH.axes, (("y",), ()))
    assert result_sharding(divided, ROWS) == NamedSharding(MESH, P("y"))
    assert result_sharding(divided, None) == NamedSharding(MESH, P("y")), "the mesh used last"
    new = result_sharding(Partition((Axis("new", 2),), (("new",),)), None)
    assert isinstance(new, NamedSharding) and new.mesh.ids == (0, 1)


def test_partitions_of_kinds() -> None:
    assert named_partition(kinds(ROWS)[0]) == ROWS.partition(2)
    assert named_partition(kinds(ONE)[0]) is None is named_partition(kinds(None)[0])
