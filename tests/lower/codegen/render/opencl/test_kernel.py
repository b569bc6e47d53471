"""OpenCL kernels as text: operands, threads, local memory and barriers."""

from __future__ import annotations

import re

from tests.lower.check_passes import GRID
from tests.lower.graphs import jaxpr, matmul, p
from tfn.dtypes import BOOL
from tfn.lower import pipeline
from tfn.lower.program import Kernel
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def kernel(output: UOp) -> Kernel:
    (only,) = pipeline.lower(jaxpr([output]), GRID).kernels
    return only


def test_operands_are_buffers_with_offsets() -> None:
    k = kernel(p(0, 600) + p(1, 600))
    operands = ", ".join(f"__global char *m{i}, const u64 o{i}" for i in range(3))
    assert f"void {k.name}({operands})" in k.text
    assert "__global f32 *const b2 = (__global f32 *)(m2 + o2);" in k.text


def test_the_number_of_threads_is_part_of_the_text() -> None:
    k = kernel(p(0, 600) * 2.0)
    assert k.tiles == 3 and k.threads == 256
    assert "__attribute__((reqd_work_group_size(256, 1, 1)))" in k.text


def test_tiles_are_local_memory_between_barriers() -> None:
    text = kernel(matmul(p(0, 64, 64), p(1, 64, 64))).text
    assert re.findall(r"__local f32 t(\d)\[1024\];", text) == ["0", "1"]
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") == 2


def test_memory_that_is_not_used_is_no_operand() -> None:
    text = kernel(build.iota((7,), 0)).text
    assert "m0" in text and "m1" not in text


def test_bools_are_bytes_in_memory() -> None:
    text = kernel(build.reduce(p(0, 3, 100, dtype=BOOL), Op.MAX, (1,))).text
    assert "__global u8 *const b1" in text and "__local u8 t0[32];" in text


def test_equal_kernels_have_equal_names() -> None:
    assert kernel(p(0, 600) * 2.0).name == kernel(p(0, 600) * 2.0).name
    assert kernel(p(0, 600) * 2.0).name != kernel(p(0, 600) * 3.0).name
