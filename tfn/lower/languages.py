"""Languages: by the architecture of a target, its text and the passes that lead to it.

    cores with vectors     LLVM IR, and the passes of `passes.CORES`
    groups of threads      OpenCL C, LLVM IR for PTX or AMDGCN,
                           and the passes of `grids.passes.GRID`

A machine brings its own by a row of `LANGUAGES`: nothing else of the compiler asks for its kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

from tfn._support.frozen import frozen
from tfn.lower import grids
from tfn.lower.codegen.render import amdgcn, driver, hexagon, llvm, nvptx, opencl
from tfn.lower.passes import BRANCHING, CORES, Passes
from tfn.lower.program import Step
from tfn.lower.target.target import Target
from tfn.trace.op import Op


@frozen
class Language:
    """An output language: LLVM IR, or C.

    Attributes:
        kernel: renders a kernel, from its name and instructions.
        driver: renders the driver of a program, from its name, steps and number of inputs.
        symbol_prefix: precedes the name of every function.
        lacks: basic ops that it cannot express, whatever the target.
        passes: from a function to the instructions that `kernel` renders.
        takes_llvm: whether users' kernels, which are LLVM IR for a processor, are text of it.
        name: as messages call it.
    """

    kernel: Callable[..., str]
    driver: Callable[[str, Sequence[Step], int], str]
    symbol_prefix: str
    lacks: frozenset[Op] = frozenset()
    passes: Passes = CORES
    takes_llvm: bool = False
    name: str = "C"

    def name_by_digest(self, letter: str, render: Callable[[str], str]) -> tuple[str, str]:
        """Names a text by its digest; returns the name, and the text under that name.

        Equal kernels so have one name in all processes, and are compiled once.
        """
        # The text is rendered with a placeholder, since its digest is not known before.
        text = render("@@"[len(self.symbol_prefix) :])
        name = letter + hashlib.sha256(text.encode()).hexdigest()[:20]
        return name, text.replace("@@", self.symbol_prefix + name)


LLVM = Language(llvm.kernel_text, driver.driver_text, "@", takes_llvm=True, name="LLVM IR")

HEXAGON = replace(
    LLVM,
    kernel=partial(llvm.kernel_text, pointer_bytes=4, rows=hexagon.ROWS),
    driver=partial(driver.driver_text, single_threaded=True, pointer_bytes=4, reports=True),
)
"""LLVM IR for the one thread of a DSP, whose addresses have 32 bits."""

TIMED = replace(
    LLVM, driver=partial(driver.driver_text, timed=True, whole_loops=True), passes=BRANCHING
)
"""LLVM IR for processors that predict branches, and have a counter that programs may read."""


def no_driver(name: str, steps: object, inputs: int) -> str:
    """No text: the queue of a grid runs a program, step by step."""
    return ""


def _nvptx() -> Language:
    return Language(nvptx.kernel_text, no_driver, "@", passes=grids.passes.GRID, name="PTX")


def _amdgcn() -> Language:
    return Language(amdgcn.kernel_text, no_driver, "@", passes=grids.passes.GRID, name="AMDGCN")


def _opencl() -> Language:
    lacks, passes = opencl.kernel.LACKS, grids.passes.GRID
    return Language(opencl.kernel.kernel_text, no_driver, "", lacks, passes, name="OpenCL C")


# fmt: off
LANGUAGES: dict[str, Callable[[], Language]] = {
    "hexagon": lambda: HEXAGON,
    **dict.fromkeys(("x86_64", "aarch64", "arm64"), lambda: TIMED),
    "nvptx64": _nvptx, "amdgcn": _amdgcn, "opencl": _opencl,
}
# fmt: on
"""By the architecture of a triple, loaded at its first use; LLVM IR of processors for others."""


def architecture(target: Target) -> str:
    """The first word of a triple."""
    return target.triple.split("-")[0]


@cache
def language_of(target: Target) -> Language:
    """The output language of a target."""
    return LANGUAGES.get(architecture(target), lambda: LLVM)()


def passes_of(target: Target) -> Passes:
    """The passes of a target, by name: ``passes_of(target).split(body, target)``."""
    return language_of(target).passes
