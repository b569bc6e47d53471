"""The decoder, against LLVM's assembler and disassembler, and what it refuses."""

from __future__ import annotations

import re
import struct

import pytest

from tests.hw.amd.devices import needs_llvm, output
from tests.hw.amd.emulator.assembled import OPTIONS, instructions
from tfn.errors import CompileError
from tfn.hw.amd.emulator.encodings import EXEC, VCC, Operand, decoded
from tfn.hw.amd.emulator.table import CARRY_OUT, FORMATS, Row

V, S = 256, 0


def words(form: str, number: int, row: Row) -> tuple[int, ...]:
    """The words of an instruction, by the fields of its format."""
    sources = sum(kind not in ("mask", "to", "vcc", "k") for kind in row.of)
    if form == "VOP1":
        return (0b0111111 << 25 | 5 << 17 | number << 9 | V + 7,)
    if form == "VOP2":
        literal = (0x3FC01234,) if "k" in row.of else ()
        return (number << 25 | 5 << 17 | 6 << 9 | V + 7, *literal)
    if form == "VOPC":
        return (0b0111110 << 25 | number << 17 | 6 << 9 | V + 7,)
    if form == "VOP3":
        scalars = [kind in ("mask", "s32") for kind in row.of if kind not in ("to", "vcc")]
        codes = [2 * i + 2 if s else V + 6 + 2 * i for i, s in enumerate(scalars)]
        fields = sum(code << 9 * i for i, code in enumerate(codes))
        to = 5 << 8 if number in CARRY_OUT else 0
        return 0b110101 << 26 | number << 16 | to | 5 * (row.to != ("exec",)) + 126 * (
            row.to == ("exec",)
        ), fields
    if form == "VOP3P":
        fields = sum(
            V + 6 + 2 * i << 9 * i for i in range(sources if row.of[0] == "mix" else sources // 2)
        )
        return 0b11001100 << 24 | number << 16 | 1 << 14 | 5, fields | 3 << 27
    if form == "SOP2":
        return (0b10 << 30 | number << 23 | 4 << 16 | 6 << 8 | 2,)
    if form == "SOP1":
        return (0b101111101 << 23 | 4 << 16 | number << 8 | 2,)
    if form == "SOPC":
        return (0b101111110 << 23 | number << 16 | 4 << 8 | 2,)
    if form == "SOPK":
        return (0b1011 << 28 | number << 23 | 4 << 16 | 7,)
    if form == "SOPP":
        return (0b101111111 << 23 | number << 16 | row.name.startswith("s_branch"),)
    if form == "SMEM":
        return 0b111101 << 26 | number << 18 | (
            8 << 6 | 1 if row.to else 0
        ), 124 << 25 if row.to else 0
    data = [o for o in row.of if o[0] == "b"]
    fields = 6 | 5 << 24 if row.to else 6
    fields |= (9 << 8 if data else 0) | (13 << 16 if len(data) > 1 else 0)
    if form == "DS":
        return 0b110110 << 26 | number << 18, fields
    segment = {"FLAT": 0, "SCRATCH": 1, "GLOBAL": 2}[form]
    return 0b110111 << 26 | number << 18 | segment << 16, fields | 124 << 16 | (segment == 1) << 23


SILENT = {"s_code_end", "v_nop"}


@needs_llvm
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "VOPD"])
def test_each_row_is_the_instruction_of_its_number(form: str) -> None:
    rows = {n: r for n, r in FORMATS[form].items() if r.name not in SILENT}
    codes = {
        n: struct.pack(f"<{len(words(form, n, r))}I", *words(form, n, r)) for n, r in rows.items()
    }
    lines = "\n".join(" ".join(f"{b:#04x}" for b in code) for code in codes.values())
    found = re.findall(
        r"^\s+(\S+).*(?:;|//) encoding: \[(.*?)\]",
        output("llvm-mc", "--disassemble", *OPTIONS, given=lines),
        re.MULTILINE,
    )
    names = {bytes(int(b, 16) for b in code.split(",")): name for name, code in found}
    for number, row in rows.items():
        name = re.sub(r"_e(32|64)$", "", names.get(codes[number], "nothing"))
        assert name == row.name, f"number {number} of {form}"
        (instruction,) = decoded(codes[number])
        assert instruction.row is row and instruction.size == len(codes[number])


@needs_llvm
def test_operands_are_those_of_the_text() -> None:
    lines = """
    v_fma_f32 v5, -v6, |s7|, 2.0
    v_cndmask_b32_e64 v1, v2, v3, s4
    v_add_co_u32 v1, vcc_lo, v2, v3
    v_fmaak_f32 v1, v2, v3, 0x40490fdb
    v_lshrrev_b64 v[2:3], 5, v[4:5]
    s_mul_i32 s4, s5, -3
    global_load_b64 v[2:3], v4, s[6:7] offset:-8
    ds_store_2addr_b32 v1, v2, v3 offset0:4 offset1:7
    v_cmp_gt_f64_e64 s8, 0x41a00000, v[30:31]
    v_mov_b32_dpp v1, v2 row_xmask:5 row_mask:0xf bank_mask:0xf bound_ctrl:1
    v_dual_mul_f32 v2, v3, v4 :: v_dual_mov_b32 v5, 1.0
    """
    fma, select, carry, literal, shift, scalar, load, store, compare, swizzle, pair = instructions(
        lines
    )
    assert fma.of == (
        Operand("v", 6, "f32", negative=True),
        Operand("s", 7, "f32", magnitude=True),
        Operand("k", 0x40000000, "f32"),
    )
    assert select.of[2] == Operand("s", 4, "mask") and carry.to[1] == Operand("s", VCC, "mask")
    assert literal.of[2].at == 0x40490FDB and literal.size == 8
    assert shift.of[0].at == 5 and shift.writes == {("v", 2), ("v", 3)}
    assert scalar.of[1].at == 0xFFFFFFFD
    assert (load.offset, load.of) == (-8, (Operand("v", 4, "u32"), Operand("s", 6, "u64")))
    assert store.offsets == (4, 7) and [o.at for o in store.of] == [1, 2, 3]
    assert compare.of[0].at == 0x41A00000 << 32 and compare.to == (Operand("s", 8, "mask"),)
    assert swizzle.swizzle is not None and swizzle.of[0].at == 2
    assert (
        pair.second is not None
        and pair.second.to[0].at == 5
        and pair.writes == {("v", 2), ("v", 5)}
    )


@needs_llvm
def test_exec_is_written_by_comparisons_of_lanes() -> None:
    (instruction,) = instructions("v_cmpx_lt_i32_e32 v1, v2")
    assert instruction.writes == {("s", EXEC)}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (0xF0000000, "no format begins so"),
        (0x7E00FE00, "no row for number 127 of VOP1"),
        (0xE0500000, "an access by a buffer descriptor"),
        (0x7E0202E9, "v_mov_b32 with DPP8"),
        (0x7E0202FB, "no source has the number 251"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(word: int, message: str) -> None:
    with pytest.raises(CompileError, match=message) as info:
        decoded(struct.pack("<II", word, 0))
    assert f"{word:08x}" in str(info.value)


def test_code_that_ends_within_an_instruction_is_refused() -> None:
    with pytest.raises(CompileError, match="the code ends within it"):
        decoded(struct.pack("<I", 0x7E0202FF))  # v_mov_b32 of a literal
