"""Buffers: an address, a size in bytes, and the object that owns the memory."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import DType

ALIGNMENT = 64
"""Bytes.  A buffer begins at a cache line, and aligned loads of the widest vectors can read it."""
SHARED_ALIGNMENT = 16
"""Bytes, for memory of others: that of the largest element; no load of a kernel assumes more."""
LARGE_BYTES = 256 << 10
"""Blocks above this are large: they are requested from the system, and returned, one by one."""
_BYTE = np.dtype(np.uint8)


class Buffer:
    """Memory of a device.

    Attributes:
        address: of the first byte, a multiple of 64, or of 16 where it is shared.
        size_bytes: of the contents; the block of memory may be larger.
        owner: the object that keeps the memory alive.
        exclusive: whether no view of the memory exists elsewhere, so that a donated buffer may be
            overwritten; false for memory shared with NumPy, in either direction.
    """

    __slots__ = ("__weakref__", "address", "exclusive", "owner", "size_bytes")

    def __init__(
        self, address: int, size_bytes: int, owner: object, exclusive: bool = False
    ) -> None:
        self.address, self.size_bytes = address, size_bytes
        self.owner, self.exclusive = owner, exclusive

    def view(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A writable NumPy view, which keeps the buffer alive; for drivers only."""
        size_bytes = prod(shape) * dtype.itemsize
        if size_bytes == 0:
            return np.empty(shape, dtype)
        memory: Any = (ctypes.c_char * size_bytes).from_address(self.address)
        memory.buffer = self  # the base of the view keeps the buffer alive
        return np.ndarray(shape, dtype, memory)

    def read(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A NumPy view that cannot be written nor made writable, and keeps the buffer alive."""
        self.exclusive = False
        memory = self.view((prod(shape) * dtype.itemsize,), _BYTE).data.toreadonly()
        if not memory.nbytes:
            return np.ndarray(shape, dtype, b"")
        return np.frombuffer(memory, dtype).reshape(shape)
