"""Messages of a controller to its workers: plain values as canonical bytes, never code.

    ("program", digest, bytes)                    a function, serialized as `tfn.export` does it
    ("new", number, shape, dtype, place, ranks, data)      an array, from data of the controller
    ("call", digest, operands, donated, on, results, ranks, name, first)
    ("put", number, place, result, ranks)         an array divided anew
    ("get", number, ranks)                        the data that a worker has of an array
    ("free", numbers)                             arrays without references
    ("progress", step, committed)                 for errors
    ("save", folder, step, topic, ms, rows)             pieces of a checkpoint, (host, its row) each
    ("read", path, name, place, result, ranks)    an array of a checkpoint
    ("verify", path)                              a share of its digests

Arrays have numbers, programs their SHA-256; places are shardings by axes and numbers of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import errors
from tfn.errors import ArgumentError, DistributedError, TfnError
from tfn.exporting.codec import decode, encode
from tfn.sharding import (
    AxisType,
    Device,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from tfn.trace.place import Request

pack: Callable[[Any], bytes] = encode
unpack: Callable[[bytes], Any] = decode

FACTS = ("host", "rank", "step", "collective", "committed")
"""The attributes of an error of a job."""


def place_record(sharding: Sharding | None) -> Any:
    """A sharding as plain values.

    Raises:
        ArgumentError: for names of axes that are not text.

    Example:
        >>> place_record(SingleDeviceSharding(Device("remote", 1)))
        (1,)
    """
    if sharding is None:
        return None
    if isinstance(sharding, SingleDeviceSharding):
        return (sharding.device.id,)
    mesh = sharding.mesh
    if not all(isinstance(name, str) for name in mesh.axis_names):
        raise ArgumentError(
            "a mesh over the devices of a cluster has axes whose names are text",
            got=repr(mesh),
            hint="tfn.make_mesh((2, 4), ('data', 'model'))",
        )
    kinds = tuple([kind.value for kind in mesh.axis_types])
    axes = tuple(zip(mesh.axis_names, mesh.axis_sizes, kinds, strict=True))
    return axes, mesh.ids, tuple(sharding.spec)


def sharding_of(record: Any, devices: Sequence[Device]) -> Sharding | None:
    """The sharding of a record, over these devices."""
    if record is None:
        return None
    if len(record) == 1:
        return SingleDeviceSharding(devices[record[0]])
    axes, numbers, spec = record
    grid = np.array([devices[i] for i in numbers], object)
    kinds = tuple([AxisType(kind) for _, _, kind in axes])
    mesh = Mesh(grid.reshape([n for _, n, _ in axes]), tuple([name for name, _, _ in axes]), kinds)
    return NamedSharding(mesh, PartitionSpec(*spec))


def request_record(on: Request | None) -> Any:
    """The shardings that a user has asked for, as plain values."""
    return on and (place_record(on.place), tuple(map(place_record, on.results)))


def request_of(record: Any, devices: Sequence[Device]) -> Request | None:
    """The request of a record."""
    if record is None:
        return None
    place, results = record
    return Request(sharding_of(place, devices), tuple([sharding_of(r, devices) for r in results]))


def error_record(error: Exception) -> tuple[Any, ...]:
    """An error as plain values."""
    if not isinstance(error, TfnError):
        error = DistributedError(f"a worker failed: {type(error).__name__}: {error}")
    facts = tuple([getattr(error, name, None) for name in FACTS])
    return "error", type(error).__name__, error.what, error.got, error.hint, facts


def error_of(record: tuple[Any, ...]) -> TfnError:
    """The error of a record; a class that there is not here is a `DistributedError`."""
    _, name, what, got, hint, facts = record
    kind = getattr(errors, name, DistributedError)
    if not (isinstance(kind, type) and issubclass(kind, TfnError)):
        kind = DistributedError
    if not issubclass(kind, DistributedError):
        return kind(what, got=got, hint=hint)
    known = {key: value for key, value in zip(FACTS, facts, strict=True) if value is not None}
    return kind(what, got=got, hint=hint, **known)
