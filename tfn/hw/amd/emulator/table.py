"""Instructions of RDNA3 as data: number in its format, name, operands and meaning.

The operands of a row are types, the destinations before the sign ``=``::

    f32=f32,f32         registers of 32 bits: u32, i32, f32; of 64: u64, i64, f64; halves: u16, ...
    u32,mask=u32,u32    a bit of each lane, in a scalar register: `mask`
    u32,scc=u32,u32     the condition code
    f32=f32,f32,to      the destination is read, too
    f32=f32,k,f32       a literal after the instruction: the same type as the one before it

The numbers are those of the short formats; that of the long one, VOP3, is larger by a constant.
Numbers without a row are refused by their number: nothing runs that is not understood.

Source: RDNA3 instruction set architecture, chapters 15 and 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import add, and_, invert, mul, or_, sub, xor
from typing import Any

from tfn.dtypes import FLOAT16, FLOAT32, FLOAT64
from tfn.extend import Op, UOp, frozen
from tfn.hw.amd.emulator import floats as fl
from tfn.hw.amd.emulator import meaning as m


@frozen
class Row:
    """An instruction.

    Attributes:
        name: as AMD's manual has it.
        to, of: the types of its destinations and of its sources.
        meaning: the values of the destinations from those of the sources; None where lanes exchange
            values, or memory or the flow of control changes: the translator has a function for it.
    """

    name: str
    to: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    meaning: m.Meaning | None = None


Rows = Mapping[int, Row]


def _row(name: str, operands: str, meaning: m.Meaning | None = None) -> Row:
    to, _, of = operands.partition("=")
    destinations, sources = (tuple(filter(None, side.split(","))) for side in (to, of))
    return Row(name, destinations, sources, meaning)


# fmt: off
_SOP2 = {
    0: ("s_add_u32", "u32,scc=u32,u32", m.add_carry),
    1: ("s_sub_u32", "u32,scc=u32,u32", m.subtract_borrow),
    2: ("s_add_i32", "i32,scc=i32,i32", m.add_overflow),
    3: ("s_sub_i32", "i32,scc=i32,i32", m.subtract_overflow),
    4: ("s_addc_u32", "u32,scc=u32,u32,scc", m.add_with_carry),
    5: ("s_subb_u32", "u32,scc=u32,u32,scc", m.subtract_with_borrow),
    6: ("s_absdiff_i32", "i32,scc=i32,i32", m.nonzero(m.scalar_distance)),
    8: ("s_lshl_b32", "u32,scc=u32,u32", m.nonzero(m.left)),
    9: ("s_lshl_b64", "u64,scc=u64,u32", m.nonzero(m.left)),
    10: ("s_lshr_b32", "u32,scc=u32,u32", m.nonzero(m.right)),
    11: ("s_lshr_b64", "u64,scc=u64,u32", m.nonzero(m.right)),
    12: ("s_ashr_i32", "i32,scc=i32,u32", m.nonzero(m.right)),
    13: ("s_ashr_i64", "i64,scc=i64,u32", m.nonzero(m.right)),
    **{13 + n: (f"s_lshl{n}_add_u32", "u32,scc=u32,u32", m.shift_add(n)) for n in range(1, 5)},
    18: ("s_min_i32", "i32,scc=i32,i32", m.chosen(Op.MIN)),
    19: ("s_min_u32", "u32,scc=u32,u32", m.chosen(Op.MIN)),
    20: ("s_max_i32", "i32,scc=i32,i32", m.chosen(Op.MAX)),
    21: ("s_max_u32", "u32,scc=u32,u32", m.chosen(Op.MAX)),
    22: ("s_and_b32", "u32,scc=u32,u32", m.nonzero(and_)),
    23: ("s_and_b64", "u64,scc=u64,u64", m.nonzero(and_)),
    24: ("s_or_b32", "u32,scc=u32,u32", m.nonzero(or_)),
    25: ("s_or_b64", "u64,scc=u64,u64", m.nonzero(or_)),
    26: ("s_xor_b32", "u32,scc=u32,u32", m.nonzero(xor)),
    27: ("s_xor_b64", "u64,scc=u64,u64", m.nonzero(xor)),
    28: ("s_nand_b32", "u32,scc=u32,u32", m.nonzero(m.inverted(and_))),
    29: ("s_nand_b64", "u64,scc=u64,u64", m.nonzero(m.inverted(and_))),
    30: ("s_nor_b32", "u32,scc=u32,u32", m.nonzero(m.inverted(or_))),
    31: ("s_nor_b64", "u64,scc=u64,u64", m.nonzero(m.inverted(or_))),
    32: ("s_xnor_b32", "u32,scc=u32,u32", m.nonzero(m.inverted(xor))),
    33: ("s_xnor_b64", "u64,scc=u64,u64", m.nonzero(m.inverted(xor))),
    34: ("s_and_not1_b32", "u32,scc=u32,u32", m.nonzero(m.without)),
    35: ("s_and_not1_b64", "u64,scc=u64,u64", m.nonzero(m.without)),
    36: ("s_or_not1_b32", "u32,scc=u32,u32", m.nonzero(m.or_not)),
    37: ("s_or_not1_b64", "u64,scc=u64,u64", m.nonzero(m.or_not)),
    38: ("s_bfe_u32", "u32,scc=u32,u32", m.nonzero(m.scalar_field)),
    39: ("s_bfe_i32", "i32,scc=i32,u32", m.nonzero(m.scalar_field)),
    40: ("s_bfe_u64", "u64,scc=u64,u32", m.nonzero(m.scalar_field)),
    41: ("s_bfe_i64", "i64,scc=i64,u32", m.nonzero(m.scalar_field)),
    42: ("s_bfm_b32", "u32=u32,u32", m.field_mask),
    43: ("s_bfm_b64", "u64=u32,u32", m.field_mask_64),
    44: ("s_mul_i32", "u32=u32,u32", mul),
    45: ("s_mul_hi_u32", "u32=u32,u32", m.high_product),
    46: ("s_mul_hi_i32", "i32=i32,i32", m.high_product),
    48: ("s_cselect_b32", "u32=u32,u32,scc", m.first_if),
    49: ("s_cselect_b64", "u64=u64,u64,scc", m.first_if),
    50: ("s_pack_ll_b32_b16", "u32=u32,u32", m.scalar_packed(0, 0)),
    51: ("s_pack_lh_b32_b16", "u32=u32,u32", m.scalar_packed(0, 16)),
    52: ("s_pack_hh_b32_b16", "u32=u32,u32", m.scalar_packed(16, 16)),
    53: ("s_pack_hl_b32_b16", "u32=u32,u32", m.scalar_packed(16, 0)),
}

_SAVEEXEC = (
    "and", "or", "xor", "nand", "nor", "xnor", "and_not0", "or_not0", "and_not1", "or_not1",
)
"""Functions of a word and the mask of lanes, which becomes their value, by twos from number 32."""

_SOP1 = {
    0: ("s_mov_b32", "u32=u32", m.same), 1: ("s_mov_b64", "u64=u64", m.same),
    2: ("s_cmov_b32", "u32=to,u32,scc", m.selected),
    3: ("s_cmov_b64", "u64=to,u64,scc", m.selected),
    4: ("s_brev_b32", "u32=u32", m.reversed_bits), 5: ("s_brev_b64", "u64=u64", m.reversed_bits),
    8: ("s_ctz_i32_b32", "i32=u32", m.trailing_zeros),
    9: ("s_ctz_i32_b64", "i32=u64", m.trailing_zeros),
    10: ("s_clz_i32_u32", "i32=u32", m.leading_zeros),
    11: ("s_clz_i32_u64", "i32=u64", m.leading_zeros),
    12: ("s_cls_i32", "i32=i32", m.leading_signs),
    13: ("s_cls_i32_i64", "i32=i64", m.leading_signs),
    14: ("s_sext_i32_i8", "i32=u32", m.sign_extended(m.I8)),
    15: ("s_sext_i32_i16", "i32=u32", m.sign_extended(m.I16)),
    16: ("s_bitset0_b32", "u32=u32,to", m.bit_set(False)),
    17: ("s_bitset0_b64", "u64=u32,to", m.bit_set(False)),
    18: ("s_bitset1_b32", "u32=u32,to", m.bit_set(True)),
    19: ("s_bitset1_b64", "u64=u32,to", m.bit_set(True)),
    21: ("s_abs_i32", "i32,scc=i32", m.nonzero(m.magnitude)),
    22: ("s_bcnt0_i32_b32", "i32,scc=u32", m.nonzero(m.zeros)),
    23: ("s_bcnt0_i32_b64", "i32,scc=u64", m.nonzero(m.zeros)),
    24: ("s_bcnt1_i32_b32", "i32,scc=u32", m.nonzero(m.ones)),
    25: ("s_bcnt1_i32_b64", "i32,scc=u64", m.nonzero(m.ones)),
    30: ("s_not_b32", "u32,scc=u32", m.nonzero(invert)),
    31: ("s_not_b64", "u64,scc=u64", m.nonzero(invert)),
    **{32 + 2 * i: (f"s_{name}_saveexec_b32", "u32,exec,scc=u32,exec")
       for i, name in enumerate(_SAVEEXEC)},
    52: ("s_and_not0_wrexec_b32", "u32,exec,scc=u32,exec"),
    54: ("s_and_not1_wrexec_b32", "u32,exec,scc=u32,exec"),
}

_COMPARISONS = {
    "lt": fl.compared(Op.LT), "eq": fl.compared(Op.EQ), "le": fl.compared(Op.LE),
    "gt": fl.compared(Op.LT, swapped=True), "ne": fl.compared(Op.NE), "lg": fl.compared(Op.NE),
    "ge": fl.compared(Op.LE, swapped=True),
}

_SOPC = {
    **{6 * i + j: (f"s_cmp_{name}_{t}", f"scc={t},{t}", _COMPARISONS[name])
       for i, t in enumerate(("i32", "u32"))
       for j, name in enumerate(("eq", "lg", "gt", "ge", "lt", "le"))},
    12: ("s_bitcmp0_b32", "scc=u32,u32", m.bit_test(False)),
    13: ("s_bitcmp1_b32", "scc=u32,u32", m.bit_test(True)),
    14: ("s_bitcmp0_b64", "scc=u64,u32", m.bit_test(False)),
    15: ("s_bitcmp1_b64", "scc=u64,u32", m.bit_test(True)),
    16: ("s_cmp_eq_u64", "scc=u64,u64", _COMPARISONS["eq"]),
    17: ("s_cmp_lg_u64", "scc=u64,u64", _COMPARISONS["lg"]),
}

_SOPK = {
    0: ("s_movk_i32", "i32=simm", m.same), 2: ("s_cmovk_i32", "i32=to,simm,scc", m.selected),
    **{3 + i: (f"s_cmpk_{name}_i32", "scc=to_i32,simm", _COMPARISONS[name])
       for i, name in enumerate(("eq", "lg", "gt", "ge", "lt", "le"))},
    **{9 + i: (f"s_cmpk_{name}_u32", "scc=to_u32,uimm", _COMPARISONS[name])
       for i, name in enumerate(("eq", "lg", "gt", "ge", "lt", "le"))},
    15: ("s_addk_i32", "i32,scc=to,simm", m.add_overflow),
    16: ("s_mulk_i32", "i32=to,simm", mul),
    **{24 + i: (f"s_waitcnt_{name}", "")
       for i, name in enumerate(("vscnt", "vmcnt", "expcnt", "lgkmcnt"))},
}

_SOPP = {
    0: ("s_nop", ""), 3: ("s_sleep", ""), 4: ("s_set_inst_prefetch_distance", ""),
    5: ("s_clause", ""), 7: ("s_delay_alu", ""), 8: ("s_waitcnt_depctr", ""), 9: ("s_waitcnt", ""),
    31: ("s_code_end", ""), 32: ("s_branch", ""), 33: ("s_cbranch_scc0", "=scc"),
    34: ("s_cbranch_scc1", "=scc"), 35: ("s_cbranch_vccz", "=vcc"),
    36: ("s_cbranch_vccnz", "=vcc"), 37: ("s_cbranch_execz", "=exec"),
    38: ("s_cbranch_execnz", "=exec"), 48: ("s_endpgm", ""), 53: ("s_setprio", ""),
    54: ("s_sendmsg", ""), 61: ("s_barrier", ""),
}

_SMEM = {i: (f"s_load_b{32 << i}", f"b{32 << i}=u64") for i in range(5)} | {
    32: ("s_gl1_inv", ""), 33: ("s_dcache_inv", ""),
}

_VOP2 = {
    1: ("v_cndmask_b32", "f32=f32,f32,mask", m.selected),  # its sources may be negated
    3: ("v_add_f32", "f32=f32,f32", add), 4: ("v_sub_f32", "f32=f32,f32", sub),
    5: ("v_subrev_f32", "f32=f32,f32", m.reverse(sub)),
    8: ("v_mul_f32", "f32=f32,f32", mul),
    9: ("v_mul_i32_i24", "i32=i32,i32", m.short_product),
    10: ("v_mul_hi_i32_i24", "i32=i32,i32", m.short_high_product),
    11: ("v_mul_u32_u24", "u32=u32,u32", m.short_product),
    12: ("v_mul_hi_u32_u24", "u32=u32,u32", m.short_high_product),
    15: ("v_min_f32", "f32=f32,f32", fl.smallest), 16: ("v_max_f32", "f32=f32,f32", fl.largest),
    17: ("v_min_i32", "i32=i32,i32", fl.smallest), 18: ("v_max_i32", "i32=i32,i32", fl.largest),
    19: ("v_min_u32", "u32=u32,u32", fl.smallest), 20: ("v_max_u32", "u32=u32,u32", fl.largest),
    24: ("v_lshlrev_b32", "u32=u32,u32", m.reverse(m.left)),
    25: ("v_lshrrev_b32", "u32=u32,u32", m.reverse(m.right)),
    26: ("v_ashrrev_i32", "i32=u32,i32", m.reverse(m.right)),
    27: ("v_and_b32", "u32=u32,u32", and_), 28: ("v_or_b32", "u32=u32,u32", or_),
    29: ("v_xor_b32", "u32=u32,u32", xor),
    30: ("v_xnor_b32", "u32=u32,u32", m.inverted(xor)),
    32: ("v_add_co_ci_u32", "u32,mask=u32,u32,mask", m.add_with_carry),
    33: ("v_sub_co_ci_u32", "u32,mask=u32,u32,mask", m.subtract_with_borrow),
    34: ("v_subrev_co_ci_u32", "u32,mask=u32,u32,mask", m.subtract_from_with_borrow),
    37: ("v_add_nc_u32", "u32=u32,u32", add), 38: ("v_sub_nc_u32", "u32=u32,u32", sub),
    39: ("v_subrev_nc_u32", "u32=u32,u32", m.reverse(sub)),
    43: ("v_fmac_f32", "f32=f32,f32,to", m.fused),
    44: ("v_fmamk_f32", "f32=f32,k,f32", m.fused_middle),
    45: ("v_fmaak_f32", "f32=f32,f32,k", m.fused),
    47: ("v_cvt_pk_rtz_f16_f32", "u32=f32,f32", fl.packed_to_zero),
    50: ("v_add_f16", "f16=f16,f16", add), 51: ("v_sub_f16", "f16=f16,f16", sub),
    52: ("v_subrev_f16", "f16=f16,f16", m.reverse(sub)),
    53: ("v_mul_f16", "f16=f16,f16", mul),
    54: ("v_fmac_f16", "f16=f16,f16,to", m.fused),
    55: ("v_fmamk_f16", "f16=f16,k,f16", m.fused_middle),
    56: ("v_fmaak_f16", "f16=f16,f16,k", m.fused),
    57: ("v_max_f16", "f16=f16,f16", fl.largest), 58: ("v_min_f16", "f16=f16,f16", fl.smallest),
    59: ("v_ldexp_f16", "f16=f16,i16", fl.scaled),
}


Entry = tuple[str, str, m.Meaning]
"""A row before it is one."""


def _floats(numbers: Mapping[str, int], name: str, f: m.Meaning) -> dict[int, Entry]:
    return {n: (f"v_{name}_{t}", f"{t}={t}", f) for t, n in numbers.items()}


_VOP1 = {
    0: ("v_nop", ""), 1: ("v_mov_b32", "u32=u32", m.same), 2: ("v_readfirstlane_b32", "s32=u32"),
    3: ("v_cvt_i32_f64", "i32=f64", m.converted(m.I32)),
    4: ("v_cvt_f64_i32", "f64=i32", m.converted(FLOAT64)),
    5: ("v_cvt_f32_i32", "f32=i32", m.converted(FLOAT32)),
    6: ("v_cvt_f32_u32", "f32=u32", m.converted(FLOAT32)),
    7: ("v_cvt_u32_f32", "u32=f32", m.converted(m.U32)),
    8: ("v_cvt_i32_f32", "i32=f32", m.converted(m.I32)),
    10: ("v_cvt_f16_f32", "f16=f32", m.converted(FLOAT16)),
    11: ("v_cvt_f32_f16", "f32=f16", m.converted(FLOAT32)),
    12: ("v_cvt_nearest_i32_f32", "i32=f32", fl.to_nearest),
    13: ("v_cvt_floor_i32_f32", "i32=f32", fl.to_floor),
    15: ("v_cvt_f32_f64", "f32=f64", m.converted(FLOAT32)),
    16: ("v_cvt_f64_f32", "f64=f32", m.converted(FLOAT64)),
    **{17 + i: (f"v_cvt_f32_ubyte{i}", "f32=u32", m.unsigned_byte(i)) for i in range(4)},
    21: ("v_cvt_u32_f64", "u32=f64", m.converted(m.U32)),
    22: ("v_cvt_f64_u32", "f64=u32", m.converted(FLOAT64)),
    **_floats({"f64": 23, "f32": 33, "f16": 93}, "trunc", fl.truncated),
    **_floats({"f64": 24, "f32": 34, "f16": 92}, "ceil", m.unary(Op.CEIL)),
    **_floats({"f64": 25, "f32": 35, "f16": 94}, "rndne", m.unary(Op.ROUND)),
    **_floats({"f64": 26, "f32": 36, "f16": 91}, "floor", m.unary(Op.FLOOR)),
    **_floats({"f64": 62, "f32": 32, "f16": 95}, "fract", fl.fraction),
    **_floats({"f32": 37, "f16": 88}, "exp", m.unary(Op.EXP2)),
    **_floats({"f32": 39, "f16": 87}, "log", m.unary(Op.LOG2)),
    **_floats({"f32": 42, "f64": 47, "f16": 84}, "rcp", fl.reciprocal),
    43: ("v_rcp_iflag_f32", "f32=f32", fl.reciprocal),
    **_floats({"f32": 46, "f64": 49, "f16": 86}, "rsq", fl.reciprocal_root),
    **_floats({"f32": 51, "f64": 52, "f16": 85}, "sqrt", m.unary(Op.SQRT)),
    **_floats({"f32": 53, "f16": 96}, "sin", fl.turns(Op.SIN)),
    **_floats({"f32": 54, "f16": 97}, "cos", fl.turns(Op.COS)),
    **_floats({"f64": 61, "f32": 64, "f16": 89}, "frexp_mant", fl.mantissa),
    55: ("v_not_b32", "u32=u32", invert), 56: ("v_bfrev_b32", "u32=u32", m.reversed_bits),
    57: ("v_clz_i32_u32", "i32=u32", m.leading_zeros),
    58: ("v_ctz_i32_b32", "i32=u32", m.trailing_zeros),
    59: ("v_cls_i32", "i32=i32", m.leading_signs),
    60: ("v_frexp_exp_i32_f64", "i32=f64", fl.exponent_of),
    63: ("v_frexp_exp_i32_f32", "i32=f32", fl.exponent_of),
    80: ("v_cvt_f16_u16", "f16=u16", m.converted(FLOAT16)),
    81: ("v_cvt_f16_i16", "f16=i16", m.converted(FLOAT16)),
    82: ("v_cvt_u16_f16", "u16=f16", m.converted(m.U16)),
    83: ("v_cvt_i16_f16", "i16=f16", m.converted(m.I16)),
    101: ("v_swap_b32", "u32=u32"),
    105: ("v_not_b16", "u16=u16", invert),
    106: ("v_cvt_i32_i16", "i32=i16", m.converted(m.I32)),
    107: ("v_cvt_u32_u16", "u32=u16", m.converted(m.U32)),
}

_FLOAT_COMPARISONS: tuple[tuple[str, m.Meaning], ...] = (
    ("f", fl.never), ("lt", fl.compared(Op.LT)), ("eq", fl.compared(Op.EQ)),
    ("le", fl.compared(Op.LE)), ("gt", fl.compared(Op.LT, True)), ("lg", fl.less_or_greater),
    ("ge", fl.compared(Op.LE, True)), ("o", fl.ordered), ("u", fl.unordered),
    ("nge", fl.compared(Op.LE, True, True)), ("nlg", m.inverted(fl.less_or_greater)),
    ("ngt", fl.compared(Op.LT, True, True)), ("nle", fl.compared(Op.LE, negated=True)),
    ("neq", fl.compared(Op.NE)), ("nlt", fl.compared(Op.LT, negated=True)), ("t", fl.always),
)
_INTEGER_COMPARISONS = (
    ("f", fl.never), *((name, _COMPARISONS[name]) for name in ("lt", "eq", "le", "gt", "ne", "ge")),
    ("t", fl.always),
)

_VOPC = {
    **{begin + i: (f"v_cmp_{name}_{t}", f"mask={t},{t}", f)
       for begin, t in ((0, "f16"), (16, "f32"), (32, "f64"))
       for i, (name, f) in enumerate(_FLOAT_COMPARISONS)},
    **{48 + 8 * begin + i: (f"v_cmp_{name}_{t}", f"mask={t},{t}", f)
       for begin, t in enumerate(("i16", "u16", "i32", "u32", "i64", "u64"))
       for i, (name, f) in enumerate(_INTEGER_COMPARISONS)
       if t[1:] != "16" or name not in "ft"},
    125: ("v_cmp_class_f16", "mask=f16,u32", fl.of_class),
    126: ("v_cmp_class_f32", "mask=f32,u32", fl.of_class),
    127: ("v_cmp_class_f64", "mask=f64,u32", fl.of_class),
}
_VOPC |= {
    128 + n: (name.replace("v_cmp_", "v_cmpx_"), operands.replace("mask=", "exec="), f)
    for n, (name, operands, f) in _VOPC.items()
}


def _three(begin: int, name: str, f: m.Meaning, of: str = "f32 i32 u32") -> dict[int, Entry]:
    """Functions of three operands, for each type a row."""
    rows = enumerate(of.split())
    return {begin + i: (f"v_{name}_{t}", f"{t}={t},{t},{t}", f) for i, t in rows}


_VOP3 = {
    522: ("v_mad_i32_i24", "i32=i32,i32,i32", m.short_multiply_add),
    523: ("v_mad_u32_u24", "u32=u32,u32,u32", m.short_multiply_add),
    528: ("v_bfe_u32", "u32=u32,u32,u32", m.field),
    529: ("v_bfe_i32", "i32=i32,u32,u32", m.field),
    530: ("v_bfi_b32", "u32=u32,u32,u32", m.insert),
    531: ("v_fma_f32", "f32=f32,f32,f32", m.fused), 532: ("v_fma_f64", "f64=f64,f64,f64", m.fused),
    534: ("v_alignbit_b32", "u32=u32,u32,u32", m.align_bits),
    535: ("v_alignbyte_b32", "u32=u32,u32,u32", m.align_bytes),
    **_three(537, "min3", m.then(fl.smallest, fl.smallest)),
    **_three(540, "max3", m.then(fl.largest, fl.largest)),
    **_three(543, "med3", fl.median),
    549: ("v_sad_u32", "u32=u32,u32,u32", m.distance_add),
    551: ("v_div_fixup_f32", "f32=f32,f32,f32", fl.division_fixed),
    552: ("v_div_fixup_f64", "f64=f64,f64,f64", fl.division_fixed),
    567: ("v_div_fmas_f32", "f32=f32,f32,f32,vcc", fl.division_step),
    568: ("v_div_fmas_f64", "f64=f64,f64,f64,vcc", fl.division_step),
    576: ("v_xor3_b32", "u32=u32,u32,u32", m.then(xor, xor)),
    577: ("v_mad_u16", "u16=u16,u16,u16", m.multiply_add),
    580: ("v_perm_b32", "u32=u32,u32,u32", m.permuted),
    581: ("v_xad_u32", "u32=u32,u32,u32", m.then(xor, add)),
    582: ("v_lshl_add_u32", "u32=u32,u32,u32", m.left_add),
    583: ("v_add_lshl_u32", "u32=u32,u32,u32", m.add_left),
    584: ("v_fma_f16", "f16=f16,f16,f16", m.fused),
    **_three(585, "min3", m.then(fl.smallest, fl.smallest), "f16 i16 u16"),
    **_three(588, "max3", m.then(fl.largest, fl.largest), "f16 i16 u16"),
    **_three(591, "med3", fl.median, "f16 i16 u16"),
    595: ("v_mad_i16", "i16=i16,i16,i16", m.multiply_add),
    596: ("v_div_fixup_f16", "f16=f16,f16,f16", fl.division_fixed),
    597: ("v_add3_u32", "u32=u32,u32,u32", m.then(add, add)),
    598: ("v_lshl_or_b32", "u32=u32,u32,u32", m.left_or),
    599: ("v_and_or_b32", "u32=u32,u32,u32", m.then(and_, or_)),
    600: ("v_or3_b32", "u32=u32,u32,u32", m.then(or_, or_)),
    601: ("v_mad_u32_u16", "u32=u16,u16,u32", m.half_multiply_add),
    602: ("v_mad_i32_i16", "i32=i16,i16,i32", m.half_multiply_add),
    603: ("v_permlane16_b32", "u32=u32,s32,s32,to"),
    604: ("v_permlanex16_b32", "u32=u32,s32,s32,to"),
    605: ("v_cndmask_b16", "u16=u16,u16,mask", m.selected),
    606: ("v_maxmin_f32", "f32=f32,f32,f32", m.then(fl.largest, fl.smallest)),
    607: ("v_minmax_f32", "f32=f32,f32,f32", m.then(fl.smallest, fl.largest)),
    608: ("v_maxmin_f16", "f16=f16,f16,f16", m.then(fl.largest, fl.smallest)),
    609: ("v_minmax_f16", "f16=f16,f16,f16", m.then(fl.smallest, fl.largest)),
    610: ("v_maxmin_u32", "u32=u32,u32,u32", m.then(fl.largest, fl.smallest)),
    611: ("v_minmax_u32", "u32=u32,u32,u32", m.then(fl.smallest, fl.largest)),
    612: ("v_maxmin_i32", "i32=i32,i32,i32", m.then(fl.largest, fl.smallest)),
    613: ("v_minmax_i32", "i32=i32,i32,i32", m.then(fl.smallest, fl.largest)),
    764: ("v_div_scale_f32", "f32,mask=f32,f32,f32", fl.division_scaled),
    765: ("v_div_scale_f64", "f64,mask=f64,f64,f64", fl.division_scaled),
    766: ("v_mad_u64_u32", "u64,mask=u32,u32,u64", m.wide_multiply_add),
    767: ("v_mad_i64_i32", "i64,mask=i32,i32,i64", m.wide_multiply_add),
    768: ("v_add_co_u32", "u32,mask=u32,u32", m.add_carry),
    769: ("v_sub_co_u32", "u32,mask=u32,u32", m.subtract_borrow),
    770: ("v_subrev_co_u32", "u32,mask=u32,u32", m.reverse(m.subtract_borrow)),
    771: ("v_add_nc_u16", "u16=u16,u16", add), 772: ("v_sub_nc_u16", "u16=u16,u16", sub),
    773: ("v_mul_lo_u16", "u16=u16,u16", mul),
    774: ("v_cvt_pk_i16_f32", "u32=f32,f32", fl.packed_conversion(m.I16)),
    775: ("v_cvt_pk_u16_f32", "u32=f32,f32", fl.packed_conversion(m.U16)),
    777: ("v_max_u16", "u16=u16,u16", fl.largest), 778: ("v_max_i16", "i16=i16,i16", fl.largest),
    779: ("v_min_u16", "u16=u16,u16", fl.smallest), 780: ("v_min_i16", "i16=i16,i16", fl.smallest),
    781: ("v_add_nc_i16", "i16=i16,i16", add), 782: ("v_sub_nc_i16", "i16=i16,i16", sub),
    785: ("v_pack_b32_f16", "u32=f16,f16", m.packed),
    796: ("v_ldexp_f32", "f32=f32,i32", fl.scaled),
    797: ("v_bfm_b32", "u32=u32,u32", m.field_mask),
    798: ("v_bcnt_u32_b32", "u32=u32,u32", m.ones_plus),
    799: ("v_mbcnt_lo_u32_b32", "u32=u32,u32", m.masked_ones),
    800: ("v_mbcnt_hi_u32_b32", "u32=u32,u32", lambda mask, start: start),
    803: ("v_cvt_pk_u16_u32", "u32=u32,u32", fl.packed_conversion(m.U16)),
    804: ("v_cvt_pk_i16_i32", "u32=i32,i32", fl.packed_conversion(m.I16)),
    805: ("v_sub_nc_i32", "i32=i32,i32", sub), 806: ("v_add_nc_i32", "i32=i32,i32", add),
    807: ("v_add_f64", "f64=f64,f64", add), 808: ("v_mul_f64", "f64=f64,f64", mul),
    809: ("v_min_f64", "f64=f64,f64", fl.smallest), 810: ("v_max_f64", "f64=f64,f64", fl.largest),
    811: ("v_ldexp_f64", "f64=f64,i32", fl.scaled),
    812: ("v_mul_lo_u32", "u32=u32,u32", mul),
    813: ("v_mul_hi_u32", "u32=u32,u32", m.high_product),
    814: ("v_mul_hi_i32", "i32=i32,i32", m.high_product),
    824: ("v_lshlrev_b16", "u16=u16,u16", m.reverse(m.left)),
    825: ("v_lshrrev_b16", "u16=u16,u16", m.reverse(m.right)),
    826: ("v_ashrrev_i16", "i16=u16,i16", m.reverse(m.right)),
    828: ("v_lshlrev_b64", "u64=u32,u64", m.reverse(m.left)),
    829: ("v_lshrrev_b64", "u64=u32,u64", m.reverse(m.right)),
    830: ("v_ashrrev_i64", "i64=u32,i64", m.reverse(m.right)),
    864: ("v_readlane_b32", "s32=u32,s32"), 865: ("v_writelane_b32", "u32=s32,s32,to"),
    866: ("v_and_b16", "u16=u16,u16", and_), 867: ("v_or_b16", "u16=u16,u16", or_),
    868: ("v_xor_b16", "u16=u16,u16", xor),
}


def _pair(f: m.Meaning) -> m.Meaning:
    """A function of halves for the lower and the higher ones."""
    def meaning(*halves: UOp) -> UOp:
        n = len(halves) // 2
        return m.packed(m.one(f(*halves[:n])), m.one(f(*halves[n:])))
    return meaning


def _pk(name: str, t: str, f: m.Meaning, n: int = 2) -> tuple[str, str, m.Meaning]:
    return f"v_pk_{name}", "u32=" + ",".join([f"lo_{t}"] * n + [f"hi_{t}"] * n), _pair(f)


_VOP3P = {
    0: _pk("mad_i16", "i16", m.multiply_add, 3), 1: _pk("mul_lo_u16", "u16", mul),
    2: _pk("add_i16", "i16", add), 3: _pk("sub_i16", "i16", sub),
    4: _pk("lshlrev_b16", "u16", m.reverse(m.left)),
    5: _pk("lshrrev_b16", "u16", m.reverse(m.right)),
    6: _pk("ashrrev_i16", "i16", m.reverse(m.right)), 7: _pk("max_i16", "i16", fl.largest),
    8: _pk("min_i16", "i16", fl.smallest), 9: _pk("mad_u16", "u16", m.multiply_add, 3),
    10: _pk("add_u16", "u16", add), 11: _pk("sub_u16", "u16", sub),
    12: _pk("max_u16", "u16", fl.largest), 13: _pk("min_u16", "u16", fl.smallest),
    14: _pk("fma_f16", "f16", m.fused, 3), 15: _pk("add_f16", "f16", add),
    16: _pk("mul_f16", "f16", mul), 17: _pk("min_f16", "f16", fl.smallest),
    18: _pk("max_f16", "f16", fl.largest),
    32: ("v_fma_mix_f32", "f32=mix,mix,mix", m.mixed(FLOAT32)),
    33: ("v_fma_mixlo_f16", "f16=mix,mix,mix", m.mixed(FLOAT16)),
    34: ("v_fma_mixhi_f16", "f16=mix,mix,mix", m.mixed(FLOAT16)),
}

_DUAL = {
    0: "v_fmac_f32", 1: "v_fmaak_f32", 2: "v_fmamk_f32", 3: "v_mul_f32", 4: "v_add_f32",
    5: "v_sub_f32", 6: "v_subrev_f32", 8: "v_mov_b32", 9: "v_cndmask_b32", 10: "v_max_f32",
    11: "v_min_f32", 16: "v_add_nc_u32", 17: "v_lshlrev_b32", 18: "v_and_b32",
}
"""Numbers of VOPD, which does two of these at once; those from 16 are second ones."""


def _memory(kind: str, begin: int = 16) -> dict[int, tuple[str, str]]:
    """Loads and stores of a kind of memory, by the order of their numbers."""
    loads = (*((t, "b32") for t in ("u8", "i8", "u16", "i16")),
             *((f"b{n}", f"b{n}") for n in (32, 64, 96, 128)))
    rows = {begin + i: (f"{kind}_load_{t}", f"{to}=address") for i, (t, to) in enumerate(loads)}
    stores = enumerate((8, 16, 32, 64, 96, 128))
    rows |= {begin + 8 + i: (f"{kind}_store_b{n}", f"=address,b{max(n, 32)}") for i, n in stores}
    d16 = enumerate(("u8", "i8", "b16", "hi_u8", "hi_i8", "hi_b16"))
    rows |= {begin + 14 + i: (f"{kind}_load_d16_{t}", "b32=address,to") for i, t in d16}
    hi = enumerate(("b8", "b16"))
    return rows | {begin + 20 + i: (f"{kind}_store_d16_hi_{t}", "=address,b32") for i, t in hi}


_DS = {
    13: ("ds_store_b32", "=a32,b32"), 14: ("ds_store_2addr_b32", "=a32,b32,b32"),
    15: ("ds_store_2addr_stride64_b32", "=a32,b32,b32"), 30: ("ds_store_b8", "=a32,b32"),
    31: ("ds_store_b16", "=a32,b32"), 54: ("ds_load_b32", "b32=a32"),
    55: ("ds_load_2addr_b32", "b64=a32"), 56: ("ds_load_2addr_stride64_b32", "b64=a32"),
    57: ("ds_load_i8", "b32=a32"), 58: ("ds_load_u8", "b32=a32"), 59: ("ds_load_i16", "b32=a32"),
    60: ("ds_load_u16", "b32=a32"), 77: ("ds_store_b64", "=a32,b64"),
    78: ("ds_store_2addr_b64", "=a32,b64,b64"), 79: ("ds_store_2addr_stride64_b64", "=a32,b64,b64"),
    118: ("ds_load_b64", "b64=a32"), 119: ("ds_load_2addr_b64", "b128=a32"),
    120: ("ds_load_2addr_stride64_b64", "b128=a32"), 160: ("ds_store_b8_d16_hi", "=a32,b32"),
    161: ("ds_store_b16_d16_hi", "=a32,b32"),
    178: ("ds_permute_b32", "b32=a32,b32"), 179: ("ds_bpermute_b32", "b32=a32,b32"),
    222: ("ds_store_b96", "=a32,b96"), 223: ("ds_store_b128", "=a32,b128"),
    254: ("ds_load_b96", "b96=a32"), 255: ("ds_load_b128", "b128=a32"),
}
# fmt: on


def _rows(table: Mapping[int, Any]) -> Rows:
    return {number: _row(*row) for number, row in table.items()}


SOP1, SOP2, SOPC = _rows(_SOP1), _rows(_SOP2), _rows(_SOPC)
SOPK, SOPP, SMEM = _rows(_SOPK), _rows(_SOPP), _rows(_SMEM)
VOP1, VOP2, VOPC = _rows(_VOP1), _rows(_VOP2), _rows(_VOPC)
VOP3P, DS = _rows(_VOP3P), _rows(_DS)
VOP3: Rows = {
    **VOPC,
    **{256 + n: row for n, row in VOP2.items() if "k" not in row.of},
    **{384 + n: row for n, row in VOP1.items() if row.meaning},
    **_rows(_VOP3),
}
FLAT, SCRATCH, GLOBAL = (_rows(_memory(kind)) for kind in ("flat", "scratch", "global"))
_BY_NAME = {row.name: row for rows in (VOP1, VOP2) for row in rows.values()}
DUAL: Rows = {n: _BY_NAME[name] for n, name in _DUAL.items()}

FORMATS: Mapping[str, Rows] = {
    "SOP1": SOP1,
    "SOP2": SOP2,
    "SOPC": SOPC,
    "SOPK": SOPK,
    "SOPP": SOPP,
    "SMEM": SMEM,
    "VOP1": VOP1,
    "VOP2": VOP2,
    "VOPC": VOPC,
    "VOP3": VOP3,
    "VOP3P": VOP3P,
    "VOPD": DUAL,
    "DS": DS,
    "FLAT": FLAT,
    "SCRATCH": SCRATCH,
    "GLOBAL": GLOBAL,
}
"""The rows of each format."""

CARRY_OUT = frozenset(n for n, row in VOP3.items() if row.to[1:] == ("mask",))
"""Numbers of VOP3 whose second destination is a scalar register, in place of modifiers."""
