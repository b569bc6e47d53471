"""x86-64's assembly language: registers and kinds."""

from __future__ import annotations

import pytest

from tests.lower.pack.loops import FUNCTIONS, loops
from tfn.lower.pack import x86
from tfn.lower.pack.instructions import Instruction


@pytest.mark.parametrize(
    ("text", "kind", "reads", "writes"),
    [
        ("vfmadd231ps %zmm25, %zmm24, %zmm0", "fma", "v25 v24 v0", "v0"),
        ("vfmadd231ps 64(%r12), %zmm24, %zmm0", "fma-load", "r12 v24 v0", "v0"),
        ("vmovups 64(%rax,%rbx,4), %zmm0", "vector-load", "rax rbx", "v0"),
        ("vmovups %zmm0, 64(%rcx)", "store", "v0 rcx", ""),
        ("vbroadcastss (%r15), %zmm24", "vector-load", "r15", "v24"),
        ("vaddps %zmm1, %zmm2, %zmm3", "float", "v1 v2", "v3"),
        ("vpxor %xmm1, %xmm1, %xmm3", "vector", "", "v3"),
        ("incq %r13", "alu", "r13", "r13 f0"),
        ("addq $256, %r12", "alu", "r12", "r12 f0"),
        ("cmpq $512, %r13", "alu", "r13", "f0"),
        ("leaq 8(%rax), %rdx", "lea", "rax", "rdx"),
        ("movq %rax, %rdx", "move", "rax", "rdx"),
        ("jl .LBB0_4", "branch", "f0", ""),
    ],
)
def test_instructions(text: str, kind: str, reads: str, writes: str) -> None:
    item = x86.parsed(text, 0)
    assert isinstance(item, Instruction)
    assert item.kind == kind
    assert set(item.reads) == set(reads.split())
    assert item.writes == tuple(writes.split())


def test_what_no_row_describes_is_given_back() -> None:
    assert x86.parsed("rdtsc", 0) == "rdtsc"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_of_kernels_have_rows(name: str) -> None:
    assert not [loop.unknown for loop in loops(name, "x86_64") if loop.unknown]
