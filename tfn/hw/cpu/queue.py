"""Programs made ready to run on this machine's cores."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfn.hw.buffer import Buffer
from tfn.hw.cpu.loader import Code, Loader
from tfn.hw.device import Executable
from tfn.hw.memory import HostMemory
from tfn.lower.kernel import Program

_ENTRY = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
)


class CpuQueue:
    """Loads programs, and runs them at once in the caller's thread."""

    def __init__(self, memory: HostMemory) -> None:
        self.memory, self.loader = memory, Loader()

    def load(self, program: Program, objects: Mapping[str, bytes]) -> Executable:
        """The program, linked with its kernels."""
        kernels = {k.name: self.loader.load_once(k.name, objects[k.name]) for k in program.kernels}
        code = self.loader.load(program.name, objects[program.name], kernels)
        entry = _ENTRY(code.address)
        pack = struct.Struct(f"{len(program.inputs) + len(program.outputs)}Q").pack
        arena_bytes = -(-program.arena_bytes // 64) * 64
        work_bytes = arena_bytes + program.sync_bytes

        def run(inputs: Sequence[Buffer], outputs: Sequence[Buffer], code: Code = code) -> None:
            work = self.memory.allocate(work_bytes)
            ctypes.memset(work.address + arena_bytes, 0, program.sync_bytes)
            buffers = pack(*[b.address for b in inputs], *[b.address for b in outputs])
            entry(0, 1, buffers, work.address, work.address + arena_bytes)

        return run

    def synchronize(self) -> None:
        """Programs have finished when their call returns."""
