"""Machine code from assembly text, by LLVM's assembler."""

from __future__ import annotations

import re

from tests.hw.amd.devices import output
from tfn.hw.amd.emulator.encodings import Instruction, decoded

_ENCODING = re.compile(r"(?:;|//) encoding: \[(.*?)\]")
OPTIONS = ("-triple=amdgcn", "-mcpu=gfx1100", "-mattr=+wavefrontsize32", "-show-encoding")


def code(text: str) -> bytes:
    """The code of lines of assembly, whose jumps are by words."""
    found = _ENCODING.findall(output("llvm-mc", *OPTIONS, given=text))
    return bytes(int(byte, 16) for line in found for byte in line.split(","))


def instructions(text: str) -> list[Instruction]:
    """The instructions of lines of assembly."""
    return decoded(code(text))
