"""The device of a cluster, as the controller sees it: its memory is that of the workers.

Arrays on it are handles: `tfn.Array` with shape, dtype and sharding, whose buffer is a number by
which the workers know their parts.  Data that come from the controller wait in it until a program
needs them, and go out with that program.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from tfn.dtypes import DType
from tfn.errors import DeviceError
from tfn.extend import Buffer, Device, Executable, Learn, Program, Shape, Target, memory

NAME = "remote"
KEPT_BYTES = 4096
"""Data of this size the controller keeps after they are sent: scalars are read again and again.
So it does with arrays that are not committed to devices: functions capture them, and need them
after a restart, too."""


class Owner(Protocol):
    """The controller, as far as its buffers know it."""

    def forgotten(self, number: int) -> None:
        """Remember that an array has no references any more."""

    def fetched(self, buffer: RemoteBuffer) -> np.ndarray[Any, Any]:
        """The stack of the parts that workers have of an array."""

    def flush(self, wait: bool = False) -> None:
        """Send what waits."""


class RemoteBuffer:
    """Memory of the workers of a cluster.

    Attributes:
        owner: the controller.
        number: by which workers know the array; None before it was sent.
        data: those of the controller, as the stack of parts; None if workers alone have them.
        kind: shape, dtype and sharding; None before it was sent.
        size_bytes: of the contents.
        exclusive: always true: no view of the memory exists here.
    """

    __slots__ = ("__weakref__", "data", "exclusive", "kind", "number", "owner", "size_bytes")

    def __init__(
        self,
        owner: Owner,
        size_bytes: int,
        data: np.ndarray[Any, Any] | None = None,
        number: int | None = None,
        kind: Any = None,
    ) -> None:
        self.owner, self.size_bytes, self.data = owner, size_bytes, data
        self.number, self.kind, self.exclusive = number, kind, True

    def __del__(self) -> None:
        if self.number is not None:
            self.owner.forgotten(self.number)

    @property
    def address(self) -> int:
        """Refuse: a program of another device asks.

        Raises:
            DeviceError: always.
        """
        raise memory.without_address(NAME)


def as_buffer(buffer: RemoteBuffer) -> Buffer:
    """The buffer, as arrays hold it."""
    return cast("Buffer", buffer)


class RemoteMemory:
    """The memory of a cluster."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def allocate(self, size_bytes: int) -> Buffer:
        """Refuse: workers allocate.

        Raises:
            DeviceError: always.
        """
        raise _elsewhere("memory is allocated by its workers")

    def check_room(self, size_bytes: int) -> None:
        """Nothing: workers know their room."""

    def copy(self, x: np.ndarray[Any, Any]) -> Buffer:
        """The elements of a NumPy array, which wait here until a program needs them."""
        data = np.array(x, order="C")
        data.flags.writeable = False
        return as_buffer(RemoteBuffer(self._owner, data.nbytes, data))

    def adopt(self, x: np.ndarray[Any, Any]) -> Buffer:
        """Refuse: workers do not share memory with the controller.

        Raises:
            ArgumentError: always.
        """
        raise memory.unshared("the array is for the workers of a cluster")

    def read(self, buffer: Buffer, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
        """The contents, brought here."""
        inner: Any = buffer
        if not isinstance(inner, RemoteBuffer):  # made before the cluster was connected
            return buffer.read(shape, dtype)
        data = inner.data if inner.data is not None else self._owner.fetched(inner)
        data = data.reshape(shape)
        data.flags.writeable = False
        return data


class RemoteQueue:
    """Waits for the workers; programs go to them as wholes, before they are lowered."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """Refuse: workers load programs.

        Raises:
            DeviceError: always.
        """
        raise _elsewhere("programs are lowered and loaded by its workers")

    def synchronize(self) -> None:
        """Wait until the workers have done all that they were sent."""
        self._owner.flush(wait=True)


def _elsewhere(what: str) -> DeviceError:
    return DeviceError(
        f"this process controls a cluster: {what}",
        hint="call the function on arrays of the cluster; close the cluster to work here",
    )


def remote(owner: Owner) -> Device:
    """Makes the device."""
    return Device(NAME, Target("", "", ""), None, RemoteMemory(owner), RemoteQueue(owner))


def size_bytes(kind: Any) -> int:
    """Bytes of an array of a kind."""
    return int(prod(kind.shape) * kind.dtype.itemsize)
