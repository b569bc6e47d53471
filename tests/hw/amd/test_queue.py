"""The queue for AMD's GPUs, on a GPU that only notes what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.hw.amd.devices import TARGET
from tests.lower.graphs import jaxpr, p
from tfn.hw.amd.code_object import Image
from tfn.hw.amd.compiler import AmdCompiler
from tfn.hw.amd.memory import memory_of
from tfn.hw.amd.queue import AmdQueue
from tfn.hw.device import Device
from tfn.lower import pipeline


class Noted:
    """A GPU whose memory has addresses, and no kernel runs."""

    def __init__(self) -> None:
        self.next, self.launches = 0x1000, list[tuple[str, int, int, tuple[int, ...]]]()

    def create(self, size_bytes: int) -> int:
        self.next += 0x1000
        return self.next

    def write(self, memory: int, at: int, raw: np.ndarray[Any, Any]) -> None:
        self.launches.append(("write", memory, at, (raw.nbytes,)))

    def fetch(self, memory: int, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        return np.zeros(size_bytes, np.uint8)

    def address(self, memory: int) -> int:
        return memory

    def launch(
        self, image: Image, name: str, groups: int, threads: int, arguments: Sequence[int]
    ) -> None:
        assert name in image.kernels
        self.launches.append((name, groups, threads, tuple(arguments)))

    def synchronize(self) -> None:
        self.launches.append(("synchronize", 0, 0, ()))


def test_kernels_are_launched_in_order_with_the_addresses_of_their_operands() -> None:
    gpu = Noted()
    memory = memory_of(gpu, "amd-emulated", "a GPU that notes")
    device = Device("amd-emulated", TARGET, AmdCompiler(), memory, AmdQueue(gpu, memory))
    program = pipeline.lower(jaxpr([p(0, 1000) * 2.0]), TARGET)
    x, y = memory.copy(np.zeros(1000, np.float32)), memory.allocate(4000)
    device.load(program)([x], [y])
    device.queue.synchronize()
    (name,) = (k.name for k in program.kernels)
    write, launch, wait = gpu.launches
    assert write == ("write", 0x2000, 0, (4000,)) and wait[0] == "synchronize"
    assert launch[0] == name and launch[3] == (0x3000, 0x2000)
    assert launch[1] * launch[2] >= 1000
