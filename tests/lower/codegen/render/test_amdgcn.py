"""AMDGCN: what kernels say."""

from __future__ import annotations

import pytest

from tests.lower.graphs import jaxpr, p, softmax
from tfn.hw.amd.target import TARGETS
from tfn.lower import pipeline
from tfn.lower.program import Kernel
from tfn.trace.uop import UOp

TARGET = TARGETS["gfx1100"]


def kernels(*outputs: UOp) -> tuple[Kernel, ...]:
    return pipeline.lower(jaxpr(list(outputs)), TARGET).kernels


def test_a_kernel_names_its_group_its_thread_and_its_operands() -> None:
    (kernel,) = kernels(p(0, 1000) * 2.0)
    parameters = "ptr addrspace(1) %p0, ptr addrspace(1) %p1"
    assert f"define amdgpu_kernel void @{kernel.name}({parameters})" in kernel.text
    assert f'"amdgpu-flat-work-group-size"="{kernel.threads},{kernel.threads}"' in kernel.text
    assert "amdgcn.workgroup.id.x()" in kernel.text and "amdgcn.workitem.id.x()" in kernel.text


def test_no_pointer_is_of_an_unknown_memory() -> None:
    for kernel in kernels(softmax(p(0, 8, 1000))):
        accesses = [
            line for line in kernel.text.splitlines() if " load " in line or "  store " in line
        ]
        assert accesses and all("addrspace(" in line for line in accesses)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_a_group_waits_between_fences(dtype: str) -> None:
    texts = [k.text for k in kernels(softmax(p(0, 8, 1000)))]
    barriers = sum(text.count("call void @llvm.amdgcn.s.barrier()") for text in texts)
    assert barriers == sum(text.count('fence syncscope("workgroup") release') for text in texts)
