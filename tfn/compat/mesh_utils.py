"""Devices arranged for a mesh: the names of `jax.experimental.mesh_utils`.

The devices of one process are equally near to each other, so that every arrangement is as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tfn.errors import DeviceError
from tfn.extend import Shape
from tfn.extend import devices as eager_devices


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """Devices in the shape of a mesh.

    Args:
        mesh_shape: the size of each axis.
        devices: the devices, all of them if left out.
        contiguous_submeshes, allow_split_physical_axes: accepted as in JAX.

    Raises:
        DeviceError: if the mesh has not one place for each device.

    Example:
        >>> create_device_mesh((1, 1)).tolist()
        [[cpu:0]]
    """
    listed = list(devices) if devices is not None else eager_devices.devices()
    sizes: Shape = tuple(mesh_shape)
    if prod(sizes) != len(listed):
        raise DeviceError(
            f"a mesh of shape {sizes} has {prod(sizes)} places",
            got=f"{len(listed)} devices",
            hint="pass as many devices as the mesh has places",
        )
    return np.array(listed, object).reshape(sizes)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:
    """Devices in the shape of a mesh whose axes go over hosts first, and then within a host.

    Args:
        mesh_shape: the size of each axis within a host.
        dcn_mesh_shape: the size of each axis over hosts.
        devices: the devices, host by host; all of them if left out.
        process_is_granule, should_sort_granules_by_key, allow_split_physical_axes: accepted as in
            JAX.

    Returns:
        An array of devices of shape ``mesh_shape * dcn_mesh_shape``.

    Raises:
        DeviceError: if the mesh has not one place for each device.
    """
    inner, outer = tuple(mesh_shape), tuple(dcn_mesh_shape)
    listed = create_device_mesh((*outer, *inner), devices)
    ndim = len(inner)
    order = [axis for i in range(ndim) for axis in (i, ndim + i)]
    sizes = [n * m for n, m in zip(outer, inner, strict=True)]
    return listed.transpose(order).reshape(sizes)
