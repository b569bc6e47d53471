"""Lines of assembly, run by one wave of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.hw.amd.emulator.assembled import code
from tfn.hw.amd.code_object import Image, Kernel
from tfn.hw.amd.emulator.machine import Machine

# fmt: off
HEAD = """
s_load_b128 s[4:7], s[0:1], null
v_lshlrev_b32 v1, 2, v0
s_waitcnt lgkmcnt(0)
s_mov_b64 s[2:3], s[6:7]
"""
"""v0 is the lane, v1 its place in words; s[2:3] points to what a run may read."""
# fmt: on


def image_of(lines: str, group_bytes: int = 0, private_bytes: int = 0) -> Image:
    """A code object of a kernel ``k``."""
    data = code(lines)
    kernel = Kernel("k", 0, len(data), group_bytes, private_bytes, 16, 13, 7, 32)
    return Image("gfx1100", data, {"k": kernel})


def run(
    lines: str,
    register: int,
    memory: np.ndarray[Any, Any] | None = None,
    group_bytes: int = 0,
    private_bytes: int = 0,
) -> np.ndarray[Any, Any]:
    """A vector register after lines of assembly."""
    end = f"global_store_b32 v1, v{register}, s[4:5]\ns_endpgm\n"
    whole = image_of(HEAD + lines + end, group_bytes, private_bytes)
    machine, to = Machine(level=0), np.zeros(32, np.uint32)
    given = np.zeros(1, np.uint8) if memory is None else memory
    machine.allocations = {a.ctypes.data: a.nbytes for a in (to, given)}
    machine.launch(whole, "k", 1, 32, [to.ctypes.data, given.ctypes.data])
    return to
