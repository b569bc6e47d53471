"""Bytes with an owner: an address, a size, and whatever must stay alive for both."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from tfn.dtypes import DType

ALIGNMENT = 64
"""Bytes: every buffer begins at a cache line, and can be loaded by the widest vectors."""
_BYTE = np.dtype(np.uint8)


class Buffer:
    """Memory of a device.

    Attributes:
        address: of the first byte, a multiple of 64.
        size_bytes: how many bytes there are.
        owner: the object whose life the memory depends on.
        exclusive: whether nobody else has seen the memory, so that a donated buffer may be
            written in place; false for memory shared with NumPy, in either direction.
    """

    __slots__ = ("__weakref__", "address", "exclusive", "owner", "size_bytes")

    def __init__(self, address: int, size_bytes: int, owner: Any, exclusive: bool = False) -> None:
        self.address, self.size_bytes = address, size_bytes
        self.owner, self.exclusive = owner, exclusive

    def view(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A writable NumPy view, which keeps the buffer alive; for drivers only."""
        size_bytes = prod(shape) * dtype.itemsize
        if size_bytes == 0:
            return np.empty(shape, dtype)
        memory: Any = (ctypes.c_char * size_bytes).from_address(self.address)
        memory.buffer = self  # the view's base keeps us alive
        return np.ndarray(shape, dtype, memory)

    def read(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        """A NumPy view that cannot be written nor made writable, and keeps the buffer alive."""
        self.exclusive = False
        data: Any = self.view((prod(shape) * dtype.itemsize,), _BYTE)
        memory = memoryview(data).toreadonly()
        if not memory.nbytes:
            return np.ndarray(shape, dtype, b"")
        return np.frombuffer(memory, dtype).reshape(shape)
