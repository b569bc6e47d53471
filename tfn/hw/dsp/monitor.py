"""The monitor: the program that runs on the DSP, and the functions that all programs may call."""

from __future__ import annotations

from tfn.extend import LlvmCompiler, Target, read_ir
from tfn.hw.cpu import compiler_rt
from tfn.hw.dsp.commands import FOLDER, HOLES
from tfn.hw.dsp.linker import executable, link

ADDRESS = 0x10_0000
"""The address of the monitor: below shared memory, above the pages a null pointer reaches."""


def program(compiler: LlvmCompiler, target: Target) -> bytes:
    """An ELF program that maps shared memory and takes commands; it needs no libraries."""
    text = read_ir("monitor", HOLES, folder=FOLDER)
    return executable(link([compiler.compile(text, target)], ADDRESS), "_start")


def arithmetic_text() -> str:
    """LLVM IR of the functions that LLVM calls: arithmetic that the processor lacks."""
    return read_ir("arithmetic", folder=FOLDER)


def library(compiler: LlvmCompiler, target: Target) -> bytes:
    """An object of arithmetic that the processor lacks, and of conversions of float16."""
    text = arithmetic_text() + compiler_rt.float16_text()
    return compiler.compile(text, target)
