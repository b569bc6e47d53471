"""Devices in the shape of a mesh."""

from __future__ import annotations

import pytest

import tfn
from tfn.compat.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from tfn.errors import DeviceError


@pytest.mark.usefixtures("eight_devices")
def test_devices_row_by_row() -> None:
    assert [d.id for d in create_device_mesh((2, 4))[1]] == [4, 5, 6, 7]
    chosen = tfn.devices()[4:]
    assert create_device_mesh((4,), chosen).tolist() == chosen
    with pytest.raises(DeviceError, match="has 3 places"):
        create_device_mesh((3,))


@pytest.mark.usefixtures("eight_devices")
def test_hosts_come_first_along_each_axis() -> None:
    grid = create_hybrid_device_mesh((2, 2), (2, 1))
    assert grid.shape == (4, 2)
    assert [[d.id for d in row] for row in grid] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    grid = create_hybrid_device_mesh((2, 2), (1, 2))
    assert [[d.id for d in row] for row in grid] == [[0, 1, 4, 5], [2, 3, 6, 7]]
