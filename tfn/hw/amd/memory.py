"""AMD memory: buffers of a GPU, by what its driver makes and copies."""

from __future__ import annotations

from tfn.extend import driven
from tfn.hw.amd.bus import Gpu

EMULATED_BYTES = 24 << 30
"""The memory of the card that is emulated."""


def memory_of(gpu: Gpu, platform: str, name: str) -> driven.DriverMemory:
    """The memory of a GPU."""
    limits = driven.Limits(platform, name, EMULATED_BYTES, EMULATED_BYTES, (MemoryError,))
    return driven.DriverMemory(limits, gpu)
