"""Meshes, and the one that is set."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

from tfn.errors import ArgumentError, AxisError, DeviceError
from tfn.trace.mesh import (
    AbstractMesh,
    AxisType,
    Device,
    Mesh,
    arranged,
    get_abstract_mesh,
    get_mesh,
    mesh_of,
    mesh_reads,
    set_mesh,
    use_abstract_mesh,
)
from tfn.trace.sharding import Axis

DEVICES = [Device("cpu", i) for i in range(8)]
GRID = np.array(DEVICES, object).reshape(2, 4)


def test_a_device() -> None:
    device = Device("cpu", 3)
    assert (str(device), device.device_kind, device.process_index) == ("cpu:3", "cpu", 0)
    assert device == Device("cpu", 3) != Device("null", 3) and device.local_hardware_id == 3


def test_a_mesh_describes_its_axes() -> None:
    mesh = Mesh(GRID, ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    assert repr(mesh) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Explicit))"
    assert mesh.shape == {"x": 2, "y": 4} and mesh.size == 8 and not mesh.empty
    assert mesh.axis_sizes == (2, 4) and mesh.axis_names == ("x", "y")
    assert mesh.axes == (Axis("x", 2), Axis("y", 4)) and mesh.shape_tuple == (("x", 2), ("y", 4))
    assert mesh.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and mesh.ids == tuple(range(8))
    assert mesh.auto_axes == ("x",) and mesh.explicit_axes == ("y",) and mesh.manual_axes == ()
    assert not mesh.are_all_axes_auto and mesh.update(axis_types=AxisType.Auto).are_all_axes_auto
    assert mesh.local_devices == DEVICES and mesh.local_mesh is mesh and not mesh.is_multi_process
    assert mesh.platform == "cpu"
    with pytest.raises(ValueError):
        mesh.devices[0, 0] = DEVICES[1]


def test_equal_meshes_are_equal() -> None:
    mesh = Mesh(GRID, ("x", "y"))
    assert mesh == Mesh(GRID.tolist(), ("x", "y")) and hash(mesh) == hash(Mesh(GRID, ("x", "y")))
    assert mesh != Mesh(GRID.T, ("x", "y")) and mesh != Mesh(GRID, ("a", "y"))
    assert mesh != Mesh(GRID, ("x", "y"), AxisType.Explicit)
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    assert Mesh(DEVICES, "x").axis_names == ("x",)


def test_abstract_meshes() -> None:
    mesh = AbstractMesh((2, 4), ("x", "y"))
    assert mesh == Mesh(GRID, ("x", "y")).abstract_mesh == mesh.abstract_mesh
    assert mesh.size == 8 and mesh.update(axis_names=("a", "b")).axis_names == ("a", "b")
    empty = AbstractMesh((), ())
    assert empty.empty and empty.size == 0 and not empty.are_all_axes_explicit


def test_bad_meshes() -> None:
    with pytest.raises(ArgumentError, match="a mesh of 2 axes needs as many names"):
        Mesh(GRID, ("x",))
    with pytest.raises(AxisError, match="the axis 'x' twice"):
        Mesh(GRID, ("x", "x"))
    with pytest.raises(ArgumentError, match="the device cpu:0 twice"):
        Mesh([DEVICES[0], DEVICES[0]], "x")
    with pytest.raises(ArgumentError, match="made of devices"):
        Mesh([0, 1], "x")
    with pytest.raises(ArgumentError, match="an AxisType for each axis"):
        Mesh(GRID, ("x", "y"), (AxisType.Auto,))
    with pytest.raises(DeviceError, match="a mesh of 12 devices does not fit on 8"):
        arranged((3, 4), ("x", "y"), None, DEVICES)


def test_meshes_of_the_first_devices() -> None:
    mesh = arranged((2, 2), ("x", "y"), None, DEVICES)
    assert mesh.ids == (0, 1, 2, 3) and mesh.are_all_axes_explicit


def test_the_mesh_of_axes() -> None:
    first = mesh_of((Axis("rows", 2),), "cpu")
    assert first.ids == (0, 1) and first.axis_names == ("rows",)
    other = Mesh(DEVICES[4:6], "rows")
    assert mesh_of(other.axes, "cpu") is other, "the one that was used last"


def test_the_mesh_that_is_set() -> None:
    mesh, other = Mesh(GRID, ("x", "y")), Mesh(DEVICES, "z")
    assert get_mesh().empty and get_abstract_mesh().empty
    with mesh:
        assert get_mesh() is mesh and get_abstract_mesh() is mesh.abstract_mesh
        with set_mesh(other):
            assert get_mesh() is other
            found = []
            thread = threading.Thread(target=lambda: found.append(get_mesh()))
            thread.start()
            thread.join()
            assert found[0].empty, "each thread has its own"
        with mesh:
            assert get_mesh() is mesh
        assert get_mesh() is mesh
    assert get_mesh().empty
    set_mesh(other)
    assert get_mesh() is other
    set_mesh(None)
    reads = mesh_reads()
    assert get_mesh().empty and mesh_reads() == reads + 1
    with pytest.raises(ArgumentError, match="set_mesh needs a mesh of devices"):
        set_mesh(mesh.abstract_mesh)  # type: ignore[arg-type]


def test_an_abstract_mesh_is_used_within_its_block():
    mesh = AbstractMesh((8,), ("x",))
    with use_abstract_mesh(mesh):
        assert get_abstract_mesh() is mesh and get_mesh().empty
    assert get_abstract_mesh().empty
    with pytest.raises(ArgumentError, match="needs an AbstractMesh"):
        use_abstract_mesh("x")
