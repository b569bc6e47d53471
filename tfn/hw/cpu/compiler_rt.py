"""Conversions of float16 and bfloat16 that a CPU may lack: the part of a compiler runtime.

LLVM calls them by these names where the CPU has no instruction.  Compiler runtimes hold them, but a
Python process need not.  `float16.ll` and `bfloat16.ll` say how they round.
"""

from __future__ import annotations

from tfn.hw.cpu.ir import read_ir

NAMES = ("__truncsfhf2", "__truncdfhf2", "__extendhfsf2", "__truncsfbf2", "__truncdfbf2")


def float16_text() -> str:
    """LLVM IR of the conversions from and to float16."""
    return read_ir("float16")


def text() -> str:
    """LLVM IR of all conversions."""
    return float16_text() + read_ir("bfloat16")
