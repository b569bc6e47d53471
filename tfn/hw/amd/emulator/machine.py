"""The machine: kernels of a code object, run on the host by groups.

A kernel is translated and compiled once, for groups of whole waves or of others.  A launch runs its
groups one after the other in one call of native code, checks each access to memory against the
allocations, and raises an error that names the instruction, the lane and the address of a fault.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfn.errors import CompileError, DeviceError
from tfn.extend import LlvmCompiler, frozen, host, read_ir
from tfn.hw.amd.code_object import Image, Kernel
from tfn.hw.amd.emulator.blocks import EXEC_REGISTER, Register
from tfn.hw.amd.emulator.encodings import decoded
from tfn.hw.amd.emulator.translate import translated
from tfn.hw.amd.emulator.write import IMPORTS
from tfn.hw.cpu.loader import Code, Loader

CONTEXT_BYTES = 384
_ALLOCATIONS_AT, _FAULT_AT, _ADDRESS_AT = 48, 64, 80
_FAULTS = {1: "outside of all memory that it may access", 2: "at an address that is not aligned"}
_SPACES = {"ds_": "the memory of the group", "scr": "the memory of a thread"}
_RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2, *[ctypes.c_int32] * 3)


@frozen
class Compiled:
    """A kernel that runs on the host.

    Attributes:
        code: keeps it loaded.
        address: of its function.
        state_bytes: of a wave.
    """

    code: Code
    address: int
    state_bytes: int


class Machine:
    """An emulated GPU: its allocations, and the kernels that it has compiled.

    Attributes:
        level: LLVM's, for kernels.
        allocations: the beginnings and sizes of the memory that kernels may access.
    """

    def __init__(self, level: int = 1) -> None:
        self.level, self._compiler = level, LlvmCompiler()
        self._loader = Loader(self._compiler)
        self._support: Code | None = None
        self._kernels: dict[tuple[bytes, int, bool], Compiled] = {}
        self.allocations: dict[int, int] = {}

    def support(self) -> Code:
        """The functions of `memory.ll`."""
        if self._support is None:
            text = read_ir("memory", folder=os.path.dirname(__file__))
            names = (*IMPORTS, "run_groups")
            self._support = self._loader.load(self._compiler.compile(text, host()), names)
        return self._support

    def compiled(self, image: Image, kernel: Kernel, full: bool) -> Compiled:
        """A kernel for the host.

        Args:
            image: the code object.
            kernel: one of it.
            full: whether groups are of whole waves.

        Raises:
            CompileError: for code that is not understood, or that misses a wait.
        """
        code = image.code(kernel)
        key = code, kernel.private_bytes, full
        if key not in self._kernels:
            if image.architecture != "gfx1100" or kernel.waves_of != 32:
                raise CompileError(
                    "the emulator runs code of gfx1100 in waves of 32 lanes",
                    got=f"{image.architecture}, waves of {kernel.waves_of}",
                    hint="compile for gfx1100",
                )
            wave = translated(kernel.name, decoded(code), start(kernel), full, kernel.private_bytes)
            support = self.support()
            imports = dict.fromkeys(IMPORTS, support)
            data = self._compiler.compile(wave.text, host(), self.level)
            loaded = self._loader.load(data, [kernel.name], imports)
            address = loaded.addresses[kernel.name]
            self._kernels[key] = Compiled(loaded, address, wave.state_bytes)
        return self._kernels[key]

    def launch(
        self, image: Image, name: str, groups: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """Run a kernel, and wait.

        Args:
            image: the code object.
            name: of the kernel.
            groups: their number.
            threads: of each group.
            arguments: the addresses of its operands.

        Raises:
            CompileError: as `compiled`.
            DeviceError: for an access outside of the allocations, or one that is not aligned.
        """
        kernel = image.kernels[name]
        compiled = self.compiled(image, kernel, threads % 32 == 0)
        # Code reads whole lines of the segment, which has the alignment of one.
        size = max(8 * len(arguments), kernel.kernarg_bytes, 1)
        segment = aligned(-(-size // 64) * 64).view(np.uint64)
        segment[: len(arguments)] = arguments
        waves = -(-threads // 32)
        states = aligned(waves * compiled.state_bytes)
        group = aligned(max(kernel.group_bytes, 1))
        private = aligned(max(waves * 32 * kernel.private_bytes, 1))
        spaces = {**self.allocations, segment.ctypes.data: segment.nbytes}
        table = np.array(sorted(spaces.items()), np.uint64).reshape(-1)
        context = aligned(CONTEXT_BYTES)
        words = context[:_FAULT_AT].view(np.uint64)
        words[:6] = (
            *(0, 0, group.ctypes.data, kernel.group_bytes),
            *(private.ctypes.data, waves * 32 * kernel.private_bytes),
        )
        words[6:8] = table.ctypes.data, len(spaces)
        run = _RUN(self.support().addresses["run_groups"])
        run(
            *(context.ctypes.data, compiled.address, states.ctypes.data, compiled.state_bytes),
            *(segment.ctypes.data, 0, groups, threads),
        )
        if context[_FAULT_AT:].view(np.int32)[0]:
            raise fault(image, kernel, context)


def start(kernel: Kernel) -> Mapping[Register, str]:
    """The registers that a launch sets, by their names in the text."""
    at = kernel.user_registers
    return {
        ("s", 0): "%arguments_low",
        ("s", 1): "%arguments_high",
        ("s", at): "%group",
        ("v", 0): "%thread",
        EXEC_REGISTER: "%mask",
    }


def fault(image: Image, kernel: Kernel, context: np.ndarray[Any, Any]) -> DeviceError:
    """The error for a fault that is noted in the context of a launch."""
    kind, site, lane, group = (int(x) for x in context[_FAULT_AT : _FAULT_AT + 16].view(np.int32))
    address = int(context[_ADDRESS_AT : _ADDRESS_AT + 8].view(np.uint64)[0])
    size = int(context[_ADDRESS_AT + 8 : _ADDRESS_AT + 12].view(np.int32)[0])
    names = {i.at: i.name for i in decoded(image.code(kernel))}
    name = names.get(site, "an instruction")
    space = _SPACES.get(name[:3], "memory of the device")
    return DeviceError(
        f"{name} at byte {site:#x} of the kernel {kernel.name} accesses {space} {_FAULTS[kind]}",
        got=f"{size} bytes at {address:#x}, lane {lane} of a wave of group {group}",
        hint="this is a fault of tfn, or of a kernel written by hand",
    )


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Bytes that begin at a line of the cache, zero."""
    whole = np.zeros(size + 64, np.uint8)
    begin = -whole.ctypes.data % 64
    return whole[begin : begin + size]
