"""NVPTX: what kernels say, and what ptxas makes of them for each architecture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import numpy as np
import pytest

import tfn
from tests.covering import cover, in_turn
from tests.hw import op_table
from tests.hw.cuda.ptxas import Assembled, assemble, needs_ptxas
from tests.lower.graphs import jaxpr, matmul, p, softmax
from tests.test_kernels import DOUBLE, t
from tfn.dtypes import BFLOAT16, INT32, int8
from tfn.errors import CompileError
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cuda.target import TARGETS
from tfn.lower import pipeline
from tfn.lower.program import Kernel
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.argument import Sort
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp

TARGET = TARGETS["sm_90"]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")


def kernels(whole: Jaxpr, name: str = "sm_90") -> tuple[Kernel, ...]:
    return pipeline.lower(whole, TARGETS[name]).kernels


def ptx(texts: list[str], name: str = "sm_90") -> bytes:
    return LlvmCompiler(verify=True).translate(texts, TARGETS[name], 2)


def assembled(lowered: Iterable[Kernel], name: str) -> dict[str, Assembled]:
    texts = [kernel.text for kernel in lowered]
    return assemble(ptx(texts, name), TARGETS[name].cpu) if texts else {}


def test_a_kernel_names_its_group_and_its_thread() -> None:
    (kernel,) = kernels(jaxpr([p(0, 1000) * 2.0]))
    assert f"define ptx_kernel void @{kernel.name}(ptr addrspace(1)" in kernel.text
    assert f'"nvvm.reqntid"="{kernel.threads}"' in kernel.text
    text = ptx([kernel.text]).decode()
    assert "%ctaid.x" in text and "%tid.x" in text and f".reqntid {kernel.threads}" in text


def test_address_spaces_are_inferred() -> None:
    whole = jaxpr([softmax(p(0, 5, 700)), matmul(p(1, 64, 64), p(2, 64, 64))])
    text = ptx([kernel.text for kernel in kernels(whole)]).decode()
    accesses = [
        line.split()[0] for line in text.splitlines() if line.strip().startswith(("ld.", "st."))
    ]
    assert {"ld.global.b32", "st.shared.b32"} <= set(accesses)
    assert not [
        word for word in accesses if word.split(".")[1] not in ("global", "shared", "param")
    ]


def test_kernels_of_the_user_are_refused() -> None:
    double = tfn.kernel(DOUBLE, takes=t(12), gives=t(12), tiles=12)
    with pytest.raises(CompileError, match="written in LLVM IR for a processor"):
        pipeline.lower(tfn.make_jaxpr(double)(np.zeros(12, np.float32)), TARGET)


@needs_ptxas
@pytest.mark.parametrize("start, name", in_turn(4, cover(op_table.STARTS, ARCHITECTURES)))
def test_every_kernel_of_the_table_of_ops_assembles(start: int, name: str) -> None:
    _, outputs, values = op_table.cases(start)
    whole, _ = op_table.closed(outputs, values)
    lowered = kernels(whole, name)
    assert set(assembled(lowered, name)) == {kernel.name for kernel in lowered}


def attention(*, keys: int = 512) -> list[UOp]:
    q, k, v = p(0, 4, 256, 64), p(1, 4, keys, 64), p(2, 4, keys, 64)
    scores = build.dot(q, k, ((2,), (2,)), ((0,), (0,)))
    return [build.dot(softmax(scores), v, ((2,), (1,)), ((0,), (0,)))]


def largest(x: UOp, k: int) -> list[UOp]:
    numbers = build.iota(x.shape, x.ndim - 1, INT32)
    return build.several(UOp(Op.SORT, (x, numbers), Sort(1, largest=k)))


# fmt: off
HOT: dict[str, tuple[Callable[[], list[UOp]], int, int, int]] = {
    "axpy":        (lambda: [p(0, 1 << 20) * 2.0 + p(1, 1 << 20)],             32, 0, 8),
    "sum":         (lambda: [build.add_up(p(0, 1 << 20), (0,))],               40, 4096, 2),
    "row_sums":    (lambda: [build.add_up(p(0, 4096, 4096), (1,))],            40, 2048, 4),
    "column_sums": (lambda: [build.add_up(p(0, 4096, 4096), (0,))],            40, 2048, 4),
    "softmax":     (lambda: [softmax(p(0, 4096, 4096))],                       64, 4096, 4),
    "transpose":   (lambda: [build.permute(p(0, 4096, 4096), (1, 0)) * 2.0],   40, 0, 4),
    "matmul":      (lambda: [matmul(p(0, 1024, 1024), p(1, 1024, 1024))],     128, 32768, 2),
    "product":     (lambda: [matmul(p(0, 1024, 1024, dtype=BFLOAT16),
                                    p(1, 1024, 1024, dtype=BFLOAT16))],       168, 200704, 1),
    "tf32 product": (lambda: [build.dot(p(0, 1024, 1024), p(1, 1024, 1024),
                                        ((1,), (0,)), tf32=True)],                168, 200704, 1),
    "int8 product": (lambda: [build.dot(p(0, 1024, 1024, dtype=int8.dtype),
                                        p(1, 1024, 1024, dtype=int8.dtype),
                                        ((1,), (1,)), ((), ()), INT32)],      128, 110592, 2),
    "large product": (lambda: [matmul(p(0, 4096, 4096, dtype=BFLOAT16),
                                      p(1, 4096, 4096, dtype=BFLOAT16))],     208, 200704, 1),
    "sort":        (lambda: build.sort([p(0, 1 << 22, dtype=INT32)])[:1],     96, 27648, 2),
    "short sort":  (lambda: build.sort([p(0, 1000, 2000)])[:1],               64, 16384, 4),
    "largest":     (lambda: largest(p(0, 1024, 50257), 50),                  232, 15360, 1),
    "prefix sums": (lambda: [running(p(0, 1 << 22), Op.ADD)],                128, 1024, 2),
    "scatter-add": (lambda: [build.scatter(p(0, 1 << 20), p(1, 1 << 20, 1, dtype=INT32),
                                           p(2, 1 << 20, 1), Op.ADD)],         96, 27648, 2),
    "attention":   (attention,                                                128, 32768, 2),
}
# fmt: on
HEAVY = ("large product", "tf32 product", "attention", "largest")
"""Hot kernels: registers and shared bytes at most, and groups of a core at least."""


@needs_ptxas
@pytest.mark.parametrize(
    ("kind", "name"),
    in_turn(2, dict.fromkeys([*cover(HOT, ARCHITECTURES), *product(HEAVY, ARCHITECTURES)])),
)
def test_hot_kernels_keep_their_registers(kind: str, name: str) -> None:
    graph, registers, shared_bytes, groups = HOT[kind]
    lowered = kernels(jaxpr(graph()), name)
    grid = TARGETS[name].grid
    assert grid is not None
    found = assembled(lowered, name)
    for kernel in lowered:
        got = found[kernel.name]
        assert got.spill_bytes == got.stack_bytes == 0, (kind, got)
        assert got.registers <= registers and kernel.local_bytes <= shared_bytes, (kind, got)
        assert got.shared_bytes in (0, kernel.local_bytes)  # a large one gets it at its launch
        occupancy = grid.groups_at_once(kernel.threads, got.registers, kernel.local_bytes)
        assert occupancy >= groups, (kind, got, occupancy)
