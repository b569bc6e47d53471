"""Innermost loops of LLVM IR: what is read of them, and which are left out."""

from __future__ import annotations

import pytest

from tests.lower.pack.loops import FUNCTIONS, compiled
from tfn.lower.pack import llvm_ir
from tfn.lower.pack.machine import MACHINES

LOOP = """
define void @k(i64 %begin, i64 %end, ptr %operands) {
entry:
  br label %loop1
loop1:
  %i1 = phi i64 [ 0, %entry ], [ %v9, %loop1 ]
  %v1 = phi <32 x i32> [ splat (i32 0), %entry ], [ %v8, %loop1 ]
  %v4 = mul i64 %i1, 32
  %v5 = getelementptr i32, ptr %v3, i64 %v4
  %v6 = load <32 x i32>, ptr %v5, align 4
  %v8 = add <32 x i32> %v1, %v6
  OTHER
  %v9 = add nsw i64 %i1, 1
  %v10 = icmp slt i64 %v9, 7
  br i1 %v10, label %loop1, label %exit1
exit1:
  ret void
}
"""


def loop_with(*lines: str) -> list[llvm_ir.InnerLoop]:
    return llvm_ir.inner_loops(
        LOOP.replace("  OTHER\n", "".join(f"  {x}\n" for x in lines)), "hexagon"
    )


def test_a_sum() -> None:
    (loop,) = loop_with()
    assert (loop.header, loop.before, loop.exit) == ("loop1", "entry", "exit1")
    assert (loop.index, loop.begin, loop.end) == ("%i1", "0", "7")
    assert list(loop.addresses) == ["%v4", "%v5"]
    load, add, step = loop.loop.body
    assert (load.kind, load.writes, load.reads) == ("vector-load-unaligned", ("v:%v6",), ())
    assert set(add.reads) == {"v:%v8", "v:%v6"}  # the sum of the iteration before
    assert step.writes == ("r:index",)


def test_an_element_is_read_before_it_is_overwritten() -> None:
    (loop,) = loop_with(
        "%v11 = getelementptr i32, ptr %v2, i64 %v4",
        "store <32 x i32> %v6, ptr %v11, align 4",
        "store <32 x i32> %v6, ptr %v11, align 4",
    )
    first, second = (item for item in loop.loop.body if item.access == "store")
    assert "v:%v6" in first.reads
    assert set(first.writes) < set(second.reads)


@pytest.mark.parametrize(
    "line",
    [
        "call void @host(ptr %v5)",
        "%v11 = load volatile i32, ptr %v5, align 4",
        "store <32 x i32> %v6, ptr %v5, align 4",  # of the array that is loaded
        "%v11 = getelementptr i32, ptr %v7, i64 %v12\n  %v12 = load i64, ptr %v5, align 8",
        "%v11 = fdiv float %v20, %v21",  # no instruction of the processor
        "%v11 = add <32 x i32> %v1, %v6",  # the old sum, after the new one
        "%v11 = getelementptr i32, ptr %v13, i64 %v14",  # below: of a loaded pointer
    ],
)
def test_what_cannot_be_read_is_left_out(line: str) -> None:
    before = ["%v13 = load ptr, ptr %v5, align 4"] if "%v13" in line else []
    assert loop_with(*before, *line.split("\n  ")) == []


@pytest.mark.parametrize("architecture", MACHINES)
def test_every_operation_of_a_kernel_has_a_kind(architecture: str) -> None:
    read = 0
    for name in FUNCTIONS:
        for kernel, _ in compiled(name, architecture):
            for loop in llvm_ir.inner_loops(kernel.text, architecture):
                assert {item.kind for item in loop.loop.body} <= set(MACHINES[architecture].kinds)
                assert len(loop.loop.body) == len(loop.scheduled) + 1
                read += 1
    assert read >= 10
