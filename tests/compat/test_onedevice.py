"""Devices, shardings and settings, of a process with one device."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.compat import onedevice as one
from tfn.errors import ArgumentError


def test_a_mesh_has_one_device():
    mesh = one.Mesh(np.array(one.devices()).reshape(1, 1), ("a", "b"))
    assert mesh.shape == {"a": 1, "b": 1} and mesh.size == 1 and not mesh.empty
    sharding = one.NamedSharding(mesh, one.PartitionSpec("a"))
    assert isinstance(sharding, one.Sharding) and sharding.spec == ("a",)
    with pytest.raises(ArgumentError, match="one device"):
        one.make_mesh((2,), ("a",))


def test_types_of_values():
    kind = one.typeof(tnp.ones((2, 3)))
    assert (kind.shape, kind.dtype, kind.ndim, kind.size) == ((2, 3), np.dtype("f"), 2, 6)
    assert kind.sharding.mesh.empty and not kind.sharding.mesh.are_all_axes_explicit
    assert one.typeof(2).weak_type and repr(one.Tracer) == "Tracer"


def test_settings_are_kept():
    settings = one.Settings()
    settings.update("jax_debug_nans", True)
    assert settings.read("jax_debug_nans") is True and settings.jax_enable_x64 is False
    with one.enable_x64(True):
        pass
