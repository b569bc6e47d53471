"""The translator: instructions whose values LLVM's kernels seldom use, run for all lanes."""

from __future__ import annotations

import pytest

from tests.hw.amd.devices import needs_llvm
from tests.hw.amd.emulator.assembled import instructions
from tfn.errors import CompileError
from tfn.hw.amd.emulator.blocks import EXEC_REGISTER
from tfn.hw.amd.emulator.translate import translated
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import host

START = {("v", 0): "%thread", EXEC_REGISTER: "%mask"}


@needs_llvm
def test_values_that_nothing_reads_are_not_computed() -> None:
    lines = "v_mul_f32 v1, v0, v0\nv_add_f32 v2, v0, v0\n"
    store = "global_store_b32 v0, v2, s[2:3]\ns_endpgm"
    text = translated("k", instructions(lines + store), START, full=True).text
    assert "fadd" in text and "fmul" not in text
    assert LlvmCompiler(verify=True).compile(text, host(), 0)


@needs_llvm
def test_equal_values_are_computed_once() -> None:
    lines = "v_add_f32 v1, v0, v0\nv_add_f32 v2, v0, v0\nv_mul_f32 v3, v1, v2\n"
    text = translated(
        "k", instructions(lines + "global_store_b32 v0, v3, s[2:3]\ns_endpgm"), START, full=True
    ).text
    assert text.count("fadd") == 1


@needs_llvm
def test_results_are_selected_where_not_all_lanes_may_run() -> None:
    lines = instructions("v_add_f32 v1, v0, v0\nglobal_store_b32 v0, v1, s[2:3]\ns_endpgm")
    texts = [translated("k", lines, START, full=full).text for full in (True, False)]
    assert ["select" in text for text in texts] == [False, True]


@needs_llvm
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ds_permute_b32 v1, v2, v3", "ds_permute_b32 is not emulated"),
        (
            "v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf",
            "a swizzle that keeps results",
        ),
        ("v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0x3 bank_mask:0xf", "with a swizzle"),
    ],
)
def test_an_instruction_without_a_meaning_is_refused(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        translated("k", instructions(f"{line}\ns_endpgm"), START, full=True)
