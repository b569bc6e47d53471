"""Times and sizes in the units that people read them in."""

from __future__ import annotations

UNITS = ("s", 1e9), ("ms", 1e6), ("us", 1e3)
"""Units of times, with their nanoseconds."""


def duration(ns: float) -> str:
    """A time in the unit that people read it in.

    Example:
        >>> duration(950), duration(12_345), duration(2.5e6), duration(3e9)
        ('950 ns', '12.3 us', '2.50 ms', '3.00 s')
    """
    for unit, size in UNITS:
        if ns >= size:
            value = ns / size
            return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"
    return f"{ns:.0f} ns"


SIZES = ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)
"""Units of sizes, with their bytes."""


def size(size_bytes: int) -> str:
    """A number of bytes as people read it.

    Example:
        >>> size(12), size(2_500), size(34_567_890)
        ('12 B', '2.5 kB', '34.6 MB')
    """
    for unit, of in SIZES:
        if size_bytes >= of:
            return f"{size_bytes / of:.1f} {unit}"
    return f"{size_bytes} B"
