"""Host callbacks of the DSP: Python functions that a running program calls.

The program stores the number of the call site and the address of its operands, rings, and waits;
the host runs the function on the shared memory, stores 1 after the operands if it succeeded, and
rings back.  See `tfn.hw.cpu.callbacks` for the same within one process.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

from tfn.errors import DeviceError
from tfn.hw.cpu.callbacks import Site
from tfn.hw.dsp.memory import SharedMemory
from tfn.lower.program import HostCall

POINTER_BYTES = 4


class HostCalls:
    """The functions of one program's call sites."""

    def __init__(
        self, shared: SharedMemory, calls: Sequence[HostCall], functions: Sequence[Any] = ()
    ) -> None:
        self._shared = shared
        self._sites = [Site(call, functions) for call in calls]
        self.error: BaseException | None = None

    def run(self, number: int, operands: int) -> None:
        """Run the function of a call site on operands, whose addresses are at an address.

        What it raises is kept in `error`; number -1 says that the program knows of it.
        """
        at = self._shared.on_host(operands)
        if number < 0:
            ctypes.memmove(at, struct.pack("<I", 1), POINTER_BYTES)
            return
        if number >= len(self._sites):
            raise DeviceError(
                "the DSP calls a function of the host that there is not",
                got=f"call site {number} of {len(self._sites)}",
                hint="arrays are not lost, and the next call starts it again",
            )
        site = self._sites[number]
        count = site.pointer_bytes // 8
        addresses = struct.unpack(f"<{count}I", ctypes.string_at(at, POINTER_BYTES * count))
        arrays = struct.pack(f"{count}Q", *map(self._shared.on_host, addresses))
        succeeded = 1
        try:
            site.bound(arrays)()
        except BaseException as error:  # The caller raises it, of whatever class.
            self.error, succeeded = error, 0
        status = at + POINTER_BYTES * count
        ctypes.memmove(status, struct.pack("<I", succeeded), POINTER_BYTES)
