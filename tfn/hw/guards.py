"""Memory checker: red zones around blocks and poison in free ones, for the device ``cpu-debug``.

::

    | red zone | block in use: size_bytes | red zone up to the next block |
    | red zone | free block: poison                            | red zone |

A read of a free block gets poison; a write to it is found when the block is allocated again.  A
write beside an array is found when its block is freed.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import NamedTuple

from tfn.config import config
from tfn.errors import Line, MemoryCorruptionError, show_line, user_place
from tfn.hw.buffer import ALIGNMENT, LARGE_BYTES

DEBUG = "cpu-debug"
RED = 0xFD
"""The byte of red zones."""
POISON = 0xDB
"""The byte of free blocks: as a float32 -1.2e17, as an int32 -606348325."""
_CHUNK_BYTES = 1 << 20
"""Compared at once: a check takes no more memory than this."""


class _Block(NamedTuple):
    """The bytes in use (all, if the block is free), and the line that allocated or freed it."""

    size_bytes: int
    place: Line


def guards() -> Guards | None:
    """New guards for a pool, if the process runs on the device ``cpu-debug``."""
    return Guards() if config.device == DEBUG else None


def red_bytes(block_bytes: int) -> int:
    """Size of the red zone before a block, and of that after it.

    Example:
        >>> red_bytes(640), red_bytes(1 << 20) % mmap.PAGESIZE
        (64, 0)
    """
    # Large blocks begin at a page, since they are returned to the system one by one.
    return ALIGNMENT if block_bytes <= LARGE_BYTES else mmap.PAGESIZE


class Guards:
    """The blocks of one pool, by address.

    A block is removed while it is being allocated or freed: an interrupt there leaves a block that
    is not checked, but no false report.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}

    def mark_free(self, address: int, block_bytes: int) -> None:
        """Fill a free block with poison, and the red zones around it."""
        red = red_bytes(block_bytes)
        ctypes.memset(address - red, RED, red)
        ctypes.memset(address, POISON, block_bytes)
        ctypes.memset(address + block_bytes, RED, red)
        self._blocks[address] = _Block(block_bytes, user_place())

    def allocated(self, address: int, block_bytes: int, size_bytes: int) -> None:
        """Check a block that is being allocated, for `size_bytes`.

        Raises:
            MemoryCorruptionError: if it was written to since it was freed.
        """
        block = self._blocks.pop(address, None)
        at = _first_other(address, block_bytes, POISON) if block else None
        byte = _byte(address + at) if at is not None else ""
        ctypes.memset(address + size_bytes, RED, block_bytes - size_bytes)
        self._blocks[address] = _Block(size_bytes, user_place())
        if block and at is not None:
            raise MemoryCorruptionError(
                "memory was written after it was freed",
                got=f"byte {at} of a block of {block_bytes:,} bytes at {address:#x} is {byte}",
                hint="it was freed where this error says",
                where=show_line(block.place),
            )

    def freed(self, address: int, block_bytes: int, _: int = 0) -> None:
        """Check a block that is being freed.

        Raises:
            MemoryCorruptionError: if memory beside its array was written.
        """
        block, red = self._blocks.pop(address, None), red_bytes(block_bytes)
        ranges = ((-red, 0), (block.size_bytes, block_bytes + red)) if block else ()
        written = [
            begin + at
            for begin, end in ranges
            if (at := _first_other(address + begin, end - begin, RED)) is not None
        ]
        self.mark_free(address, block_bytes)
        if block and written:
            raise MemoryCorruptionError(
                "memory was written beside an array",
                got=f"byte {written[0]} of an array of {block.size_bytes:,} bytes at {address:#x}",
                hint="the array was made where this error says",
                where=show_line(block.place),
            )


def _byte(address: int) -> str:
    return f"{ctypes.string_at(address, 1)[0]:#04x}"


def _first_other(address: int, size_bytes: int, byte: int) -> int | None:
    """The offset of the first byte that differs from `byte`; None if all are equal."""
    for start in range(0, size_bytes, _CHUNK_BYTES):
        data = ctypes.string_at(address + start, min(_CHUNK_BYTES, size_bytes - start))
        rest = data.lstrip(bytes([byte]))
        if rest:
            return start + len(data) - len(rest)
    return None
