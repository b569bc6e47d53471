"""The bus: what a queue asks of a GPU, and that the emulated one has it."""

from __future__ import annotations

import inspect

from tfn.hw.amd.bus import Gpu
from tfn.hw.amd.emulator.gpu import EmulatedGpu


def test_the_emulated_gpu_is_a_gpu() -> None:
    gpu: Gpu = EmulatedGpu()
    methods = {n: f for n, f in vars(Gpu).items() if not n.startswith("_") and callable(f)}
    assert len(methods) == 6
    for name, method in methods.items():
        own = inspect.signature(getattr(gpu, name)).parameters
        assert list(inspect.signature(method).parameters)[1:] == list(own)
