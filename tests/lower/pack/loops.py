"""Inner loops of kernels, as LLVM makes them: for tests of schedules."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import tfn
from tfn import numpy as jnp
from tfn.hw.compile.server import CompileServer
from tfn.hw.cpu.target import named
from tfn.lower import pipeline
from tfn.lower.pack import assembly
from tfn.lower.pack.instructions import Loop
from tfn.lower.program import Kernel
from tfn.nn import quantize
from tfn.nn.convolution import Steps

TARGETS = {"hexagon": "hexagon", "x86_64": "x86-64-v4"}
SAME = Steps((1, 1), "SAME", (1, 1), 1)


def kinds(dtype: str, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(tfn.ShapeDtypeStruct(shape, dtype) for shape in shapes)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "int8 dot": (
        lambda x, y: (x.astype("int32") * y.astype("int32")).sum(),
        kinds("int8", (4096,), (4096,)),
    ),
    "int8 matmul": (quantize.matmul, kinds("int8", (64, 128), (128, 256))),
    "int8 conv 3x3": (
        lambda x, w: quantize.conv(x, w, SAME),
        kinds("int8", (1, 16, 16, 16), (3, 3, 16, 32)),
    ),
    "int8 relu": (lambda x: jnp.maximum(x, 0), kinds("int8", (4096,))),
    "int16 axpy": (lambda x, y: x * np.int16(3) + y, kinds("int16", (4096,), (4096,))),
    "int32 axpy": (lambda x, y: x * np.int32(3) + y, kinds("int32", (4096,), (4096,))),
    "int32 sum": (lambda x: x.sum(), kinds("int32", (4096,))),
    "int32 matmul": (lambda x, y: x @ y, kinds("int32", (64, 64), (64, 64))),
    "saxpy": (lambda x, y: x * np.float32(3) + y, kinds("float32", (4096,), (4096,))),
    "float32 dot": (lambda x, y: (x * y).sum(), kinds("float32", (4096,), (4096,))),
    "float32 matmul": (lambda x, y: x @ y, kinds("float32", (64, 64), (64, 64))),
}


@cache
def compiled(name: str, architecture: str) -> list[tuple[Kernel, str]]:
    """The kernels of a function, with their assembly code."""
    function, operands = FUNCTIONS[name]
    target, server = named(TARGETS[architecture]), CompileServer()
    program = pipeline.lower(tfn.jit(function).trace(*operands).jaxpr, target)
    out = [(kernel, server.assembly(kernel.text, target)) for kernel in program.kernels]
    server.close()
    return out


def loops(name: str, architecture: str) -> list[Loop]:
    """The innermost loops of a function."""
    return [
        loop
        for _, text in compiled(name, architecture)
        for loop in assembly.divided(text, architecture).loops
    ]
