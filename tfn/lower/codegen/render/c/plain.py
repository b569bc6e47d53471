"""Words of which each lane is a formula of the same lanes of the operands."""

from __future__ import annotations

import re

from tfn._support.frozen import frozen
from tfn.lower.codegen.render.c.word import Word


@frozen
class Plain:
    """What C has itself: an expression of scalars a, b and c, and the same of GNU vectors.

    Attributes:
        takes, gives: types of operands and result, by names of `Word.names`.
    """

    lane: str
    vector: str
    takes: str = "TT"
    gives: str = "T"


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
    "lt":      Plain("a < b", "({U})(a < b)", gives="U"),
    "le":      Plain("a <= b", "({U})(a <= b)", gives="U"),
    "eq":      Plain("a == b", "({U})(a == b)", gives="U"),
    "ne":      Plain("a != b", "({U})(a != b)", gives="U"),
    "slt":     Plain("({s})a < ({s})b", "({U})(({S})a < ({S})b)", gives="U"),
    "sle":     Plain("({s})a <= ({s})b", "({U})(({S})a <= ({S})b)", gives="U"),
    "select":  Plain("a ? b : c", "({T})((a & ({U})b) | (~a & ({U})c))", "UTT"),
    "convert": Plain("({r})({t})a", "__builtin_convertvector(({T})a, {R})", "T", "R"),
}
# fmt: on


def scalar(does: str, kind: str, *operands: str) -> str:
    """The expression of a `PLAIN` word on scalars."""
    if does == "lt" and kind[0] == "u" and operands[1] in ("0u", "0ull"):
        return "0"  # compilers warn of a comparison that says nothing
    text = PLAIN[does].lane.format(
        s=f"s{kind[1:]}",
        wide="(u32)" if kind in ("u8", "u16") else "",
        zero="0u " if kind[0] == "u" else "",
    )
    values = dict(zip("abc", operands))
    return re.sub(r"\b[abc]\b", lambda found: values[found[0]], text)


def plain(word: Word, gnu: bool) -> str:
    """The definition of a row of `PLAIN`: signed types are held as unsigned ones."""
    row, names = PLAIN[word.does], word.names
    takes = [names[name].replace("s", "u") for name in row.takes]
    gives = names[row.gives].replace("s", "u")
    if gnu:
        text = re.sub(r"\b([abc])\b", r"(\1)", row.vector).format(**names)
        text = f"({gives}){text}" if word.types[-1][0] == "s" else text
        return f"#define {word.name}({', '.join('abc'[: len(takes)])}) ({text})"
    lanes = [f"{x}.lane[i]" for x in "abc"[: len(takes)]]
    if word.does == "convert":
        lane = f"({names['r']})({names['t']}){lanes[0]}"
    else:
        lane = scalar(word.does, word.types[0], *lanes)
    return word.vector(gives, takes, f"-({names['u']})({lane})" if row.gives == "U" else lane)


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
    "brain": ("F", "U", """\
{U} x = {bits}(a), nan = {is}(a != a);
  return ((nan & (x | 0x400000u)) | (~nan & (x + ((x >> 16) & 1u) + 0x7fffu))) >> 16;"""),
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
"""Operands, result, and what is done, the same for scalars and GNU vectors: without branches.

`abs` clears the sign; `max` and `min` give NaN if either is; `brain` and `half` round a float to
16 bits, half to even, and `unbrain` and `unhalf` widen them: a half below 2^-14 counts in steps of
2^-24, as float does from 0.5 to 1.
"""
# fmt: on


def formula(word: Word, gnu: bool) -> str:
    """The definition of a row of `FORMULAS`."""
    takes, gives, body = FORMULAS[word.does]
    names = word.names
    kinds = [names[x] for x in takes]
    if gnu or not word.lanes:
        return word.gnu(names[gives], kinds, body.format(**names))
    return word.lane_by_lane(names[gives], kinds)
