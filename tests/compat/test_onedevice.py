"""Devices and shardings, of a process with one device."""

import numpy as np
import pytest

from tfn.compat import onedevice as one
from tfn.errors import ArgumentError


def test_a_mesh_has_one_device():
    mesh = one.Mesh(np.array(one.devices()).reshape(1, 1), ("a", "b"))
    assert mesh.shape == {"a": 1, "b": 1} and mesh.size == 1 and not mesh.empty
    sharding = one.NamedSharding(mesh, one.PartitionSpec("a"))
    assert isinstance(sharding, one.Sharding) and sharding.spec == ("a",)
    assert one.PartitionSpec("a", None) == ("a", None) and len(one.PartitionSpec()) == 0
    more = one.PartitionSpec("a").__add__(("b",))
    assert repr(more) == "PartitionSpec('a', 'b')" and more[1] == "b"
    with pytest.raises(ArgumentError, match="one device"):
        one.make_mesh((2,), ("a",))
