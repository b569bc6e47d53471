"""The emulated GPU of the tests, and marks of tests that need LLVM's tools."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest

from tfn.hw.amd.code_object import Image, linked
from tfn.hw.amd.compiler import AmdCompiler
from tfn.hw.amd.device import amd_emulated
from tfn.hw.amd.target import TARGETS
from tfn.hw.device import Device

TARGET = TARGETS["gfx1100"]


@cache
def quick() -> Device:
    """The device, with kernels that are not optimised for the host: most run once."""
    return amd_emulated(level=0)


def tool(name: str) -> str:
    """The path of one of LLVM's tools, of a version that knows gfx1100; empty if there is none."""
    names = (f"{name}-{version}" for version in range(17, 24))
    return next(filter(None, map(shutil.which, names)), "")


needs_llvm = pytest.mark.skipif(
    not (tool("llvm-mc") and tool("llvm-objdump") and tool("llvm-readelf")),
    reason="LLVM's tools are NOT there: apt-get install llvm-19 brings llvm-mc and llvm-readelf",
)


def output(name: str, *arguments: str, given: str | bytes = "") -> str:
    """The output of one of LLVM's tools."""
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run([tool(name), *arguments], input=data, capture_output=True, check=True)
    return done.stdout.decode()


def image(text: str) -> Image:
    """A kernel of LLVM IR, linked."""
    return linked(AmdCompiler().compile(text, TARGET))
