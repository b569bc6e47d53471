"""Memory that shows mistakes, for the device ``cpu-debug``.

::

    | red | block: size_bytes | red up to the next block |

A free block is poison throughout: who reads it gets garbage, and who writes to it is found when the
block is given out again.  Around a block in use, and in what it has left, all bytes are red: who
writes there is found when the block is freed.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import NamedTuple

from tfn.config import config
from tfn.errors import Line, MemoryCorruptionError, show_line, user_place
from tfn.hw.buffer import ALIGNMENT

DEBUG = "cpu-debug"
RED, POISON = 0xFD, 0xDB  # as a float32, poison is -1.2e17; as an int32, -606348325
LARGE_BYTES = 256 << 10  # blocks that begin with a page, so that the system takes them back
_CHUNK_BYTES = 1 << 20  # how much is compared at once


class _Block(NamedTuple):
    """For how many bytes a block was given out, or that it is free, and by which line."""

    size_bytes: int
    place: Line


def guards() -> Guards | None:
    """New guards for a pool, if the process runs on the device ``cpu-debug``."""
    return Guards() if config.device == DEBUG else None


def red_bytes(block_bytes: int) -> int:
    """How many red bytes are before a block, and after it.

    Example:
        >>> red_bytes(640), red_bytes(1 << 20) % mmap.PAGESIZE
        (64, 0)
    """
    return ALIGNMENT if block_bytes <= LARGE_BYTES else mmap.PAGESIZE


class Guards:
    """What is known of the blocks of one pool.

    A block is unknown while it changes hands: what an interrupt leaves half done, nobody checks.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}

    def mark_free(self, address: int, block_bytes: int) -> None:
        """Say that a block is free, with memory for the red bytes around it."""
        red = red_bytes(block_bytes)
        ctypes.memset(address - red, RED, red)
        ctypes.memset(address, POISON, block_bytes)
        ctypes.memset(address + block_bytes, RED, red)
        self._blocks[address] = _Block(block_bytes, user_place())

    def allocated(self, address: int, block_bytes: int, size_bytes: int) -> None:
        """Say that a block is given out, for so many bytes.

        Raises:
            MemoryCorruptionError: if somebody has written to it since it was freed.
        """
        block = self._blocks.pop(address, None)
        at = _first_other(address, block_bytes, POISON) if block else None
        found = _byte(address + at) if at is not None else ""
        ctypes.memset(address + size_bytes, RED, block_bytes - size_bytes)
        self._blocks[address] = _Block(size_bytes, user_place())
        if block and at is not None:
            raise MemoryCorruptionError(
                "memory was written after it was freed",
                got=f"byte {at} of a block of {block_bytes:,} bytes at {address:#x} is {found}",
                hint="it was freed where this error says",
                where=show_line(block.place),
            )

    def freed(self, address: int, block_bytes: int, _: int = 0) -> None:
        """Say that a block is freed.

        Raises:
            MemoryCorruptionError: if somebody has written beside it.
        """
        block, red = self._blocks.pop(address, None), red_bytes(block_bytes)
        ranges = ((-red, 0), (block.size_bytes, block_bytes + red)) if block else ()
        found = [
            begin + at
            for begin, end in ranges
            if (at := _first_other(address + begin, end - begin, RED)) is not None
        ]
        self.mark_free(address, block_bytes)
        if block and found:
            raise MemoryCorruptionError(
                "memory was written beside an array",
                got=f"byte {found[0]} of an array of {block.size_bytes:,} bytes at {address:#x}",
                hint="the array was made where this error says",
                where=show_line(block.place),
            )


def _byte(address: int) -> str:
    return f"{ctypes.string_at(address, 1)[0]:#04x}"


def _first_other(address: int, size_bytes: int, byte: int) -> int | None:
    """Where the first byte stands that is not this one, counted from an address."""
    for start in range(0, size_bytes, _CHUNK_BYTES):
        data = ctypes.string_at(address + start, min(_CHUNK_BYTES, size_bytes - start))
        rest = data.lstrip(bytes([byte]))
        if rest:
            return start + len(data) - len(rest)
    return None
