"""Elementwise words: each lane is a formula of the same lanes of the operands."""

from __future__ import annotations

import re

from tfn._support.frozen import frozen
from tfn.lower.codegen.render.c.word import Word


@frozen
class Plain:
    """A word that is an operator of C.

    Attributes:
        lane: an expression of scalars a, b and c.
        vector: the same of GNU vectors.
        operands, result: their types, by the names of `Word.names`.
    """

    lane: str
    vector: str
    operands: str = "TT"
    result: str = "T"


# fmt: off
PLAIN: dict[str, Plain] = {
    "add":     Plain("a + b", "a + b"),
    "sub":     Plain("a - b", "a - b"),
    "mul":     Plain("{wide}a * b", "a * b"),
    "div":     Plain("a / b", "a / b"),
    "sdiv":    Plain("({s})a / ({s})b", "({U})(({S})a / ({S})b)"),
    "and":     Plain("a & b", "a & b"),
    "or":      Plain("a | b", "a | b"),
    "xor":     Plain("a ^ b", "a ^ b"),
    "shl":     Plain("{wide}a << b", "a << b"),
    "shr":     Plain("a >> b", "a >> b"),
    "sar":     Plain("({s})a >> b", "({U})(({S})a >> ({S})b)"),
    "not":     Plain("~a", "~a", "T"),
    "neg":     Plain("{zero}-a", "-a", "T"),
    "lt":      Plain("a < b", "({U})(a < b)", result="U"),
    "le":      Plain("a <= b", "({U})(a <= b)", result="U"),
    "eq":      Plain("a == b", "({U})(a == b)", result="U"),
    "ne":      Plain("a != b", "({U})(a != b)", result="U"),
    "slt":     Plain("({s})a < ({s})b", "({U})(({S})a < ({S})b)", result="U"),
    "sle":     Plain("({s})a <= ({s})b", "({U})(({S})a <= ({S})b)", result="U"),
    "select":  Plain("a ? b : c", "({T})((a & ({U})b) | (~a & ({U})c))", "UTT"),
    "convert": Plain("({r})({t})a", "__builtin_convertvector(({T})a, {R})", "T", "R"),
}
# fmt: on


def scalar(operation: str, kind: str, *operands: str) -> str:
    """The expression of a `PLAIN` word on scalars."""
    if operation == "lt" and kind[0] == "u" and operands[1] in ("0u", "0ull"):
        return "0"  # compilers warn that the comparison is constant
    # 8 and 16 bits are promoted to int, whose overflow is undefined: `wide` makes it unsigned.
    text = PLAIN[operation].lane.format(
        s=f"s{kind[1:]}",
        wide="(u32)" if kind in ("u8", "u16") else "",
        zero="0u " if kind[0] == "u" else "",
    )
    values = dict(zip("abc", operands))
    text = re.sub(r"\b[abc]\b", lambda match: values[match[0]], text)
    if kind in ("u8", "u16") and all(operand[0].isdigit() for operand in operands):
        return f"({kind})({text})"  # compilers warn where a constant changes its value
    return text


def plain(word: Word, gnu: bool) -> str:
    """The definition of a row of `PLAIN`: signed values are stored in unsigned types."""
    row, names = PLAIN[word.operation], word.names
    operands = [names[name].replace("s", "u") for name in row.operands]
    result = names[row.result].replace("s", "u")
    if gnu:
        text = re.sub(r"\b([abc])\b", r"(\1)", row.vector).format(**names)
        text = f"({result}){text}" if word.types[-1][0] == "s" else text
        return f"#define {word.name}({', '.join('abc'[: len(operands)])}) ({text})"
    lanes = [f"{x}.lane[i]" for x in "abc"[: len(operands)]]
    if word.operation == "convert":
        lane = f"({names['r']})({names['t']}){lanes[0]}"
    else:
        lane = scalar(word.operation, word.types[0], *lanes)
    return word.vector(result, operands, f"-({names['u']})({lane})" if row.result == "U" else lane)


# fmt: off
FORMULAS: dict[str, tuple[str, str, str]] = {
    "abs": ("T", "T", "return {unbits}({bits}(a) & (({u})-1 >> 1));"),
    "sabs": ("T", "T", "{U} sign = {is}(({S})a < 0);\n  return (a ^ sign) - sign;"),
    "max": ("TT", "T", """\
{U} x = {bits}(a), y = {bits}(b), keep = {is}(a > b) | {is}(a != a), same = {is}(a == b);
  return {unbits}((keep & x) | (~keep & ((x & y) | (~same & y))));"""),
    "min": ("TT", "T", """\
{U} x = {bits}(a), y = {bits}(b), keep = {is}(a < b) | {is}(a != a), same = {is}(a == b);
  return {unbits}((keep & x) | (~keep & (y | (same & x))));"""),
    "unbrain": ("U", "F", "return {unbits}(a << 16);"),
    "half": ("F", "U", """\
{U} all = {bits}(a), size = all & 0x7fffffffu, kept = size >> 13;
  {U} small = {bits}({unbits}(size) + 0.5f) - 0x3f000000u;
  {U} number = (size - 0x37fff001u + (kept & 1u)) >> 13;
  {U} is_small = {is}(size < 0x38800000u), is_big = {is}(size >= 0x477ff000u);
  {U} is_nan = {is}(size > 0x7f800000u);
  number = (is_small & small) | (~is_small & number);
  number = (is_big & 0x7c00u) | (~is_big & number);
  number = (is_nan & ((kept & 0x1ffu) | 0x7e00u)) | (~is_nan & number);
  return number | ((all >> 16) & 0x8000u);"""),
    "unhalf": ("U", "F", """\
{U} size = a & 0x7fffu, moved = size << 13, is_small = {is}(size < 0x400u);
  {U} is_special = {is}(size >= 0x7c00u), is_nan = {is}(size > 0x7c00u);
  {U} small = {bits}(({unbits}(size + 0x4b000000u) - 8388608.0f) * 0x1p-24f);
  {U} number = (is_small & small) | (~is_small & (moved + 0x38000000u));
  {U} special = moved | 0x7f800000u | (is_nan & 0x400000u);
  number = (is_special & special) | (~is_special & number);
  return {unbits}(number | ((a & 0x8000u) << 16));"""),
}
"""Types of operands and result, and a body without branches, for scalars and for GNU vectors.

`abs` clears the sign; `max` and `min` give NaN if either is; `half` rounds a float to
16 bits, half to even, and `unbrain` and `unhalf` widen them: a half below 2^-14 counts in steps of
2^-24, as float32 does from 0.5 to 1.
"""
# fmt: on


def formula(word: Word, gnu: bool) -> str:
    """The definition of a row of `FORMULAS`."""
    operands, result, body = FORMULAS[word.operation]
    names = word.names
    kinds = [names[x] for x in operands]
    if gnu or not word.lanes:
        return word.gnu(names[result], kinds, body.format(**names))
    return word.lane_by_lane(names[result], kinds)
