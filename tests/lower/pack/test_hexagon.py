"""Hexagon's assembly language: registers, kinds, packets."""

from __future__ import annotations

import pytest

from tfn.lower.pack import hexagon
from tfn.lower.pack.instructions import Instruction


def one(text: str) -> Instruction:
    (instruction,) = hexagon.parsed([text], 0)
    assert isinstance(instruction, Instruction)
    return instruction


@pytest.mark.parametrize(
    ("text", "kind", "reads", "writes"),
    [
        ("r7 = add(r5,r7)", "alu", "r5 r7", "r7"),
        ("r1:0 = add(r1:0,r9:8)", "alu-64", "r1 r0 r9 r8", "r1 r0"),
        ("r3 |= asl(r0,#16)", "alu-64", "r0 r3", "r3"),
        ("r1 = memb(r0++#1)", "load", "r0", "r1 r0"),
        ("memw(r29+#92) = r5", "store", "r29 r5", ""),
        ("memw(r0+#4) += r1", "memory-operation", "r0 r1", ""),
        ("v1 = vmem(r8+#1)", "vector-load", "r8", "v1"),
        ("v1 = vmemu(r12+#0)", "vector-load-unaligned", "r12", "v1"),
        ("vmemu(r7+#1) = v1", "vector-store-unaligned", "r7 v1", ""),
        ("if (q0) vmem(r6+#1) = v19", "vector-store", "q0 r6 v19", ""),
        ("vmem(r0++#1) = v2.new", "vector-store-new", "r0 v2", "r0"),
        ("v13.w += vmpyie(v8.w,v7.uh)", "vector-multiply-pair", "v8 v7 v13", "v13"),
        ("v5.w = vmpyieo(v10.h,v9.h)", "vector-multiply", "v10 v9", "v5"),
        ("v9:8.w = vunpack(v4.h)", "permute-shift", "v4", "v9 v8"),
        ("v19 = valign(v19,v21,r3)", "permute", "v19 v21 r3", "v19"),
        ("v1.h = vadd(v1.h,v2.h)", "vector", "v1 v2", "v1"),
        ("v1:0.w = vadd(v1:0.w,v3:2.w)", "vector-pair", "v1 v0 v3 v2", "v1 v0"),
        ("v26.w = vinsert(r17)", "insert", "r17 v26", "v26"),
        ("v18 = vsplat(r2)", "insert", "r2", "v18"),
        ("v12 = v10", "vector", "v10", "v12"),
        ("r8 = #64", "alu", "", "r8"),
        ("p0 = cmp.gt(r3:2,r1:0)", "alu-64", "r3 r2 r1 r0", "p0"),
        ("if (!p0.new) jump:nt .LBB0_7", "branch", "p0", ""),
        ("loop0(.LBB0_3,#2)", "loop-setup", "", ""),
        ("r2 = sfmpy(r3,r4)", "float", "r3 r4", "r2"),
    ],
)
def test_instructions(text: str, kind: str, reads: str, writes: str) -> None:
    item = one(text)
    assert item.kind == kind
    assert set(item.reads) == set(reads.split())
    assert item.writes == tuple(writes.split())


def test_values_of_the_same_packet() -> None:
    load, add = hexagon.parsed(["v7.cur = vmem(r3+#1)", "v2 = valign(v7,v2,r6)"], 3)
    assert isinstance(load, Instruction)
    assert isinstance(add, Instruction)
    assert add.within == {"v7"}
    assert not load.within
    assert one("if (p0.new) jump:t .L").within == {"p0"}


def test_what_no_row_describes_is_given_back() -> None:
    assert hexagon.parsed(["v1 = vnovel(v2)", "nop"], 0) == ["v1 = vnovel(v2)"]


def test_long_immediates_take_a_slot() -> None:
    assert one("r1 = ##123456").extenders == 1
