"""Memory of the emulated GPU: kernels may access it until it is freed."""

from __future__ import annotations

import gc

import numpy as np

from tfn.hw.amd.emulator.gpu import EmulatedGpu


def test_memory_is_accessible_until_it_is_freed() -> None:
    gpu = EmulatedGpu()
    block = gpu.create(100)
    assert gpu.machine.allocations == {gpu.address(block): 100} and gpu.address(block) % 64 == 0
    gpu.write(block, 10, np.arange(5, dtype=np.uint8))
    assert gpu.fetch(block, 9, 4).tolist() == [255, 0, 1, 2]
    del block
    gc.collect()
    assert not gpu.machine.allocations
