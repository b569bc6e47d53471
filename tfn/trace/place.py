"""The place of a call: the devices that its operands are committed to, and those of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfn._support.frozen import frozen
from tfn.config import config
from tfn.dtypes import SHORT
from tfn.errors import DeviceError
from tfn.trace.aval import Kind
from tfn.trace.mesh import mesh_of
from tfn.trace.named_sharding import NamedSharding, P, Sharding, SingleDeviceSharding, spec_of
from tfn.trace.sharding import Partition


@frozen
class Request:
    """The shardings that a user has asked for.

    Attributes:
        place: where a call runs if no operand says it.
        results: the shardings of the results; None for any.
    """

    place: Sharding | None
    results: tuple[Sharding | None, ...]


def named_partition(kind: Kind) -> Partition | None:
    """The division of an array of a kind over a mesh; None if it is on one device."""
    sharding = kind.sharding
    return sharding.partition(len(kind.shape)) if isinstance(sharding, NamedSharding) else None


def result_sharding(partition: Partition | None, place: Sharding | None) -> Sharding | None:
    """The sharding of a result of a call.

    Args:
        partition: of the result; None if it is whole.
        place: that of the operands; None if no one is committed to a place.
    """
    if partition is None:
        return place.with_spec(P()) if isinstance(place, NamedSharding) else place
    mesh = place.mesh if isinstance(place, NamedSharding) else None
    if mesh is None or mesh.axes != partition.mesh:
        platform = place.devices[0].platform if place else config.device
        mesh = mesh_of(partition.mesh, platform)
    return NamedSharding(mesh, spec_of(partition.spec))


def common_place(what: str, kinds: Sequence[Kind], names: Sequence[str] = ()) -> Sharding | None:
    """The sharding that says where a call runs: that of the first operand over several devices.

    None if no operand is committed to a place: it runs on the default device.

    Raises:
        DeviceError: for operands that are committed to different devices, naming both.
    """
    first: tuple[int, Sharding] | None = None
    for i, kind in enumerate(kinds):
        sharding = kind.sharding
        if sharding is None or not sharding.devices:
            continue
        if first is None:
            first = i, sharding
        elif sharding is not first[1] and sharding.devices != first[1].devices:
            at = [(j, kinds[j].sharding) for j in (first[0], i)]
            listed = [_at(kinds[j], names[j] if names else f"operand {j}") for j, _ in at]
            raise DeviceError(
                f"{what} got arrays that are on different devices",
                got=" and ".join(listed),
                hint="tfn.device_put brings one of them to the devices of the other",
            )
        elif isinstance(first[1], SingleDeviceSharding):
            first = i, sharding  # a mesh says more than its one device
    return first and first[1]


def _at(kind: Kind, name: str) -> str:
    sharding: Any = kind.sharding
    devices = sharding.devices
    shown = ", ".join(map(repr, devices[:8])) + (", ..." if len(devices) > 8 else "")
    return f"{name}: {SHORT[kind.dtype]}[{','.join(map(str, kind.shape))}] on {shown}"
