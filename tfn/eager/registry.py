"""Devices of this process by name, each made at its first use.

cpu, cuda     those of a platform; of GPUs with memories of their own the first
cuda:1        another of them
cuda:0,1      several, which run the programs of a mesh together
"""

from __future__ import annotations

from dataclasses import replace

from tfn import lower
from tfn.array import Array
from tfn.config import config
from tfn.eager import operators, platforms
from tfn.hw.compile.kernel_cache import KernelCache
from tfn.hw.cpu.target import configured
from tfn.hw.device import Device

DEVICES: dict[str, Device] = {}
"""The devices that have been made, by name."""


def device(platform: str | None = None) -> Device:
    """The devices of a platform, made at first use; None for the default one.

    Raises:
        DeviceError: if there is no such platform.
    """
    name = platform or config.device
    current = DEVICES.get(name)
    if current is None:
        kind, _, numbers = name.partition(":")
        maker, others = platforms.MAKERS.get(kind), None
        if maker is not None and numbers:
            others = device(kind).others
        if maker is None or (numbers and others is None):
            raise platforms.no_device(name, f"config.device={name!r}")
        if others is not None:
            current = others(tuple(map(int, numbers.split(","))))
            current.queue.serve(Array)
        else:
            current = maker()
            current.queue.serve(Array, operators.learn)
        if current.compiler:
            lower.pipeline.install_cache(KernelCache())
        current = DEVICES[name] = replace(current, target=configured(current.target))
    return current


def synchronize() -> None:
    """Wait until all programs that were started, on any device, have finished."""
    for opened in tuple(DEVICES.values()):  # another thread may open one meanwhile
        opened.queue.synchronize()
