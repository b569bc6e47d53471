"""AMD's GPUs as a device: five parts together.  The one that there is emulates a card."""

from __future__ import annotations

from tfn.extend import Device
from tfn.hw.amd.compiler import AmdCompiler
from tfn.hw.amd.emulator.gpu import EmulatedGpu
from tfn.hw.amd.memory import memory_of
from tfn.hw.amd.queue import AmdQueue
from tfn.hw.amd.target import TARGETS

EMULATED = "gfx1100"


def amd_emulated(level: int = 1) -> Device:
    """Makes the device: a gfx1100 whose machine code runs on the host.

    Args:
        level: LLVM's, for what the host runs: 0 compiles faster, and is slower.
    """
    gpu = EmulatedGpu(level)
    memory = memory_of(gpu, "amd-emulated", f"an emulated {EMULATED}")
    queue = AmdQueue(gpu, memory)
    return Device("amd-emulated", TARGETS[EMULATED], AmdCompiler(), memory, queue)
