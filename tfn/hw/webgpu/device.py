"""WebGPU as a device: five parts together, and the words that its kernels are written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tfn.extend import LANGUAGES, Device, Language, Pass, Target, UOp, grids, no_driver, walk
from tfn.hw.webgpu.compiler import WebGpuCompiler
from tfn.hw.webgpu.driver import driver
from tfn.hw.webgpu.memory import memory_of
from tfn.hw.webgpu.queue import WebGpuQueue
from tfn.hw.webgpu.wgsl import LACKS, kernel_text, no_64_bits


def webgpu(wide: bool = True) -> Device:
    """Makes the device: the adapter that the system prefers.

    Args:
        wide: whether it computes with numbers of 64 bits, if the adapter has them.

    Raises:
        DeviceError: if there is none.
    """
    add_languages()
    first = driver(wide)
    memory = memory_of(first)
    return Device("webgpu", first.target, WebGpuCompiler(), memory, WebGpuQueue(first, memory))


def add_languages() -> None:
    """Let kernels be written for WebGPU."""
    LANGUAGES.setdefault("webgpu", language)
    LANGUAGES.setdefault("webgpu64", wide_language)


def language() -> Language:
    """WGSL without numbers of 64 bits, after the passes of grids."""
    grid = grids.passes.NARROW
    real: Callable[[UOp, Target], UOp] = grid.complex_pairs.run

    def narrow(function: UOp, target: Target) -> UOp:
        return real(_without_64_bits(function), target)

    passes = replace(grid, complex_pairs=Pass("complex_pairs", narrow, "JAXPR", "JAXPR"))
    text = partial(kernel_text, wide=False)
    return Language(text, no_driver, "", LACKS, passes, name="WGSL")


def wide_language() -> Language:
    """WGSL with numbers of 64 bits."""
    return Language(kernel_text, no_driver, "", LACKS, grids.passes.GRID, name="WGSL")


def _without_64_bits(function: UOp) -> UOp:
    """The function, if it has no numbers of 64 bits.

    Raises:
        DTypeError: naming the first op that has.
    """
    for u in walk([function]):
        dtype = getattr(u, "dtype", None)
        if dtype is not None and dtype.kind in "iuf" and dtype.itemsize == 8:
            raise no_64_bits(dtype, f"is what {u.op.value} gives")
    return function
