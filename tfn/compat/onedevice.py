"""JAX's names for devices and shardings, for a process with one device.

Every array is on that device, so every sharding is the same, and none is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tfn.compat.names import VERSION
from tfn.eager import run, transfer
from tfn.errors import ArgumentError
from tfn.trace.op import Shape

__version__ = VERSION
__version_info__ = tuple(map(int, VERSION.split(".")))


@dataclass(frozen=True)
class Device:
    """The device, as JAX describes one."""

    platform: str = "cpu"
    id: int = 0
    process_index: int = 0

    @property
    def device_kind(self) -> str:
        """The name of the kind of device."""
        return self.platform


def devices(backend: str | None = None) -> list[Device]:
    """The one device."""
    return [Device(run.device().name)]


local_devices = devices


def device_count(backend: str | None = None) -> int:
    """Returns 1."""
    return 1


local_device_count = process_count = device_count


def process_index(backend: str | None = None) -> int:
    """Returns 0."""
    return 0


def default_backend() -> str:
    """The platform of the device: ``cpu``."""
    return run.device().name


def device_put(x: object, device: object = None, **options: object) -> Any:
    """The arrays and numbers of a tree, on the one device."""
    return transfer.device_put(x)


# Shardings.


class PartitionSpec:
    """The names of the mesh axes over which each axis of an array is split; equal to a tuple."""

    UNCONSTRAINED = "unconstrained"

    def __init__(self, *parts: object) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, i: Any) -> Any:
        return self.parts[i]

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self.parts, *other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, PartitionSpec)) and self.parts == tuple(other)

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True)
class AbstractMesh:
    """Named axes of devices; all of size 1 here."""

    axis_sizes: Shape = ()
    axis_names: tuple[str, ...] = ()

    @property
    def shape(self) -> dict[str, int]:
        """The size of each axis."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod(self.axis_sizes)

    are_all_axes_explicit = False


class Mesh:
    """An array of devices, with a name for each axis; here of one device.

    Raises:
        ArgumentError: for more than the one device.
    """

    def __init__(self, devices: Any, axis_names: Any = (), **options: Any) -> None:
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.devices = np.asarray(devices)
        self.abstract_mesh = make_mesh(np.shape(devices), names)
        self.axis_names, self.shape = names, self.abstract_mesh.shape
        self.size, self.empty = self.abstract_mesh.size, not names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self.abstract_mesh == other.abstract_mesh

    def __hash__(self) -> int:
        return hash(self.abstract_mesh)

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing."""


def make_mesh(axis_shapes: Any, axis_names: Any, **options: Any) -> AbstractMesh:
    """Returns a mesh of devices, of which there is one.

    Args:
        axis_shapes: sizes of the axes, all 1.
        axis_names: a name for each axis.
        options: further arguments of JAX, ignored.

    Raises:
        ArgumentError: for more.
    """
    if prod(axis_shapes) != 1:
        raise ArgumentError(
            "there is one device",
            got=f"a mesh of {tuple(axis_shapes)}",
            hint="make a mesh of shape (1,)",
        )
    return AbstractMesh(tuple(axis_shapes), tuple(axis_names))


@dataclass(frozen=True)
class NamedSharding:
    """The layout of an array over a mesh."""

    mesh: Any = AbstractMesh()
    spec: Any = ()


@dataclass(frozen=True)
class SingleDeviceSharding:
    """An array is on one device."""

    device: Device = Device()


Sharding = NamedSharding | SingleDeviceSharding
