"""Device nodes: files that take ioctls."""

from __future__ import annotations

import fcntl
import os
from typing import Protocol

from tfn.errors import DeviceError
from tfn.hw.dsp.fastrpc.structures import LAYOUTS, NUMBERS, request

HEAP = "/dev/dma_heap/system"
"""Memory that devices can map, of Linux from 5.6 on."""


class Node(Protocol):
    """An open node of a driver."""

    def ioctl(self, number: int, data: bytearray) -> None:
        """Ask the driver; it changes the structure.

        Raises:
            OSError: as the driver refuses, or as the DSP fails.
        """

    def close(self) -> None:
        """Close it; the driver ends the process on the DSP."""


class FileNode:
    """A node of this machine."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def ioctl(self, number: int, data: bytearray) -> None:
        """Ask the driver, which may take as long as the DSP runs."""
        fcntl.ioctl(self._file, number, data, True)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def call(node: Node, name: str, **values: int) -> bytearray:
    """An ioctl by its name, with members of its structure; returns the structure as it is then.

    Raises:
        DeviceError: with the name of the ioctl, and what the system says.
    """
    layout = LAYOUTS[NUMBERS[name][2]]
    data = layout.pack(**values)
    try:
        node.ioctl(request(name), data)
    except OSError as error:
        raise DeviceError(
            f"the driver of the DSP refuses {name}",
            got=f"{error.strerror or error} (error {error.errno})",
            hint="dmesg may say why; arrays are not lost, and the next call starts the DSP again",
        ) from error
    return data


def shared_file(size_bytes: int, heap: Node | None = None) -> int:
    """The descriptor of new memory that a DSP can map.

    Args:
        size_bytes: its size.
        heap: an open heap; that of this machine unless given.

    Raises:
        DeviceError: if there is no heap, or it has no room.
    """
    try:
        heap = heap or FileNode(HEAP)
    except OSError as error:
        raise DeviceError(
            "memory that is shared with a DSP comes from a heap of the kernel",
            got=f"{HEAP}: {error.strerror}",
            hint="it is there on Linux from 5.6 on; a group of users may open it",
        ) from error
    flags = os.O_RDWR | os.O_CLOEXEC
    data = call(heap, "DMA_HEAP_IOCTL_ALLOC", len=size_bytes, fd_flags=flags)
    heap.close()
    return LAYOUTS["dma_heap_allocation_data"].get(data, "fd")
