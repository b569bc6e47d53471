"""Bytes with an owner: an address, a size, and whatever must stay alive for both."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import DType

ALIGNMENT = 64


class Buffer:
    """Memory of a device.

    Attributes:
        address: of the first byte, a multiple of 64.
        size_bytes: how many bytes there are.
        owner: the object whose life the memory depends on.
    """

    __slots__ = ("address", "size_bytes", "owner", "__weakref__")

    def __init__(self, address: int, size_bytes: int, owner: Any) -> None:
        self.address, self.size_bytes, self.owner = address, size_bytes, owner

    def view(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A writable NumPy view, which keeps the buffer alive; for drivers only."""
        size = prod(shape) * dtype.itemsize
        if size == 0:
            return np.empty(shape, dtype)
        memory = (ctypes.c_char * size).from_address(self.address)
        memory._buffer = self  # type: ignore[attr-defined]  # the view's base keeps us alive
        return np.frombuffer(memory, dtype).reshape(shape)


def allocate(size_bytes: int) -> Buffer:
    """Aligned memory of the host."""
    raw = np.empty(size_bytes + ALIGNMENT, np.uint8)
    start = raw.ctypes.data
    return Buffer(-(-start // ALIGNMENT) * ALIGNMENT, size_bytes, raw)


def adopt(x: np.ndarray[Any, Any]) -> Buffer:
    """The memory of a NumPy array: shared if it is contiguous and aligned, else copied."""
    if x.flags.c_contiguous and x.size and x.ctypes.data % ALIGNMENT == 0:
        return Buffer(x.ctypes.data, x.nbytes, x)
    buffer = allocate(x.nbytes)
    if x.size:
        buffer.view(x.shape, x.dtype)[...] = x
    return buffer
