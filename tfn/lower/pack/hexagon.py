"""Hexagon's assembly language: packets of instructions, their registers and kinds.

    {                                     packet 0:  vector-load   writes v3     reads r6
        v3.cur = vmem(r6++#1)       ->                             writes r6
        v1.w += vmpyie(v3.w,v2.uh)                vector-multiply-pair, reads v3 of this packet
    } :endloop0

Within a packet registers are read before any is written, except those marked ``.new``, and values
of loads marked ``.cur``.

Source: Qualcomm Hexagon V67 Programmer's Reference Manual and HVX Programmer's Reference Manual, on
syntax and on the resources that each instruction uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tfn.lower.pack.instructions import Instruction

_REGISTER = re.compile(r"(?<![\w#@.$])([rvqp])(\d+)(?::(\d+))?(\.new|\.cur|\.tmp)?(?!\w)")
_CONDITION = re.compile(r"if \((!?)([pq]\d+(?:\.new)?)\) ")
_ASSIGNMENT = re.compile(r"^(.*?\)?) ([-+|&^]?=) (.*)$")
_MEMORY = re.compile(r"^(v?mem\w*)\(([^()]*(?:\([^()]*\))?[^()]*)\)(?::\w+)*$")
_NAME = re.compile(r"^!?([a-z_]\w*)")

# Instructions by name.  A pair of vectors as result takes the kind after the slash.
# fmt: off
_VECTOR: dict[str, str] = {
    **dict.fromkeys(("vadd", "vsub", "vmax", "vmin", "vavg", "vnavg", "vabs", "vxor", "vor", "vnot",
                     "vmux", "vcmp", "vsat", "vshuffe", "vshuffo", "vcl0", "vpopcount", "vsplatb"),
                    "vector/vector-pair"),
    **dict.fromkeys(("vcombine", "vsxt", "vzxt", "vswap", "vshuffoe", "vunpacko"), "vector-pair"),
    **dict.fromkeys(("vmpyi", "vmpyie", "vmpyio", "vmpye", "vmpyo", "vaddhw", "vmpa", "vtmpy"),
                    "vector-multiply-pair"),
    **dict.fromkeys(("vmpy", "vmpyieo", "vrmpy", "vdmpy", "vabsdiff", "vrsad", "vmpyh", "vmpyuh"),
                    "vector-multiply/vector-multiply-pair"),
    **dict.fromkeys(("valign", "vlalign", "vror", "vpack", "vpacke", "vpacko", "vdeale"),
                    "permute"),
    **dict.fromkeys(("vunpack", "vdelta", "vrdelta", "vlut32", "vlut16"), "permute-shift"),
    **dict.fromkeys(("vshuff", "vdeal"), "permute/permute-shift"),
    **dict.fromkeys(("vasl", "vasr", "vlsr", "vrol", "vround", "vasrinto", "vclb"), "shift"),
    **dict.fromkeys(("vsplat", "vinsert", "vsetq", "vsetq2"), "insert"),
}
_SCALAR: dict[str, str] = {
    **dict.fromkeys(("add", "sub", "and", "or", "xor", "not", "max", "min", "neg", "cmp", "abs"),
                    "alu/alu-64"),
    **dict.fromkeys(("mux", "combine", "sxtb", "sxth", "zxtb", "zxth", "aslh", "asrh"), "alu"),
    **dict.fromkeys(("asl", "asr", "lsr", "rol", "lslu", "extract", "extractu", "insert", "sxtw",
                     "tstbit", "setbit", "clrbit", "togglebit", "bitsplit", "cl0", "clb", "cl1",
                     "normamt", "ct0", "ct1", "popcount", "brev", "addasl", "vsplatb", "vsplath",
                     "swiz", "packhl", "decbin", "mask", "parity", "interleave", "deinterleave",
                     "vtrunehb", "vtrunohb", "vcmpb", "vmux", "vaddw", "vaddh", "vsubw",
                     "tableidxb", "sat", "satb", "sath", "satub", "satuh", "valignb", "vspliceb",
                     "shuffeb",
                     "shuffob", "vsxtbh", "vzxtbh", "cmpb", "cmph", "bitsclr", "bitsset", "round",
                     "vsxthw", "vzxthw", "vtrunewh", "vtrunowh", "abs", "vextract"), "alu-64"),
    **dict.fromkeys(("mpyi", "mpy", "mpyu", "mpyui", "mpysu", "vmpyh", "vmpybu", "pmpyw", "vmpyhs",
                     "dmpy", "cround", "macsu", "cmpy"), "multiply"),
    **dict.fromkeys(("sfadd", "sfsub", "sfmpy", "sfcmp", "sfmax", "sfmin", "sfclass", "sffixupn",
                     "sffixupd", "sffixupr", "sfrecipa", "sfinvsqrta", "sfmake", "convert_sf2w",
                     "convert_w2sf", "convert_uw2sf", "convert_sf2uw", "convert_sf2df", "dfadd",
                     "convert_df2sf", "convert_w2df", "convert_uw2df", "convert_df2w", "dfsub",
                     "convert_df2uw", "convert_d2df", "convert_ud2df", "convert_df2d", "dfcmp",
                     "convert_df2ud", "convert_sf2d", "convert_sf2ud", "convert_d2sf", "dfclass",
                     "convert_ud2sf", "dfmpyll", "dfmpylh", "dfmpyhh", "dfmpyfix", "dfmax",
                     "dfmin"), "float"),
    **dict.fromkeys(("any8", "all8", "fastcorner9"), "predicate"),
    **dict.fromkeys(("loop0", "loop1", "sp1loop0", "sp2loop0", "sp3loop0"), "loop-setup"),
    **dict.fromkeys(("jump", "jumpr", "call", "callr", "dealloc_return"), "branch"),
}
# fmt: on


def registers(text: str) -> tuple[str, ...]:
    """Registers that a text names, each half of a pair.

    Example:
        >>> registers("vcombine(v5,v3:2) r1:0")
        ('v5', 'v3', 'v2', 'r1', 'r0')
    """
    names = []
    for file, first, second, _ in _REGISTER.findall(text):
        names += [file + first, *([file + second] if second else [])]
    return tuple(names)


def packets(lines: Iterable[str]) -> tuple[list[list[str]], bool]:
    """The packets of a block, each a list of instructions; and whether the last ends a loop."""
    out: list[list[str]] = []
    ends = False
    for raw in lines:
        line = raw.split("//")[0].strip()
        if line == "{":
            out.append([])
        elif line.startswith("}"):
            ends = "endloop" in line
        elif line and out and not line.startswith("."):
            out[-1].append(line)
    return out, ends


def parsed(packet: Sequence[str], number: int) -> list[Instruction | str]:
    """The instructions of a packet; one that no row describes as text."""
    out: list[Instruction | str] = []
    current = {
        name for text in packet if ".cur" in text for name in registers(text.split(" = ")[0])
    }
    for text in packet:
        if text == "nop":
            continue
        instruction = _instruction(text, number)
        if isinstance(instruction, Instruction):
            seen = current & set(instruction.reads) - set(instruction.writes)
            instruction = replace(instruction, within=instruction.within | seen)
        out.append(instruction)
    return out


def _instruction(text: str, number: int) -> Instruction | str:
    rest = text
    reads: list[str] = []
    condition = _CONDITION.match(text)
    if condition:
        reads += registers(condition[2])
        rest = text[condition.end() :]
    assignment = _ASSIGNMENT.match(rest)
    target, operator, value = assignment.groups() if assignment else ("", "", rest)
    within = {f + n for f, n, _, mark in _REGISTER.findall(text) if mark == ".new"}
    extenders = int("##" in text)
    memory = _MEMORY.match(target) or _MEMORY.match(value)
    if memory:
        stores = bool(_MEMORY.match(target))
        address = registers(memory[2])
        stepped = tuple(address[:1]) if "++" in memory[2] else ()
        reads += address
        is_vector = memory[1].startswith("v")
        kind = ("vector-" if is_vector else "") + ("store" if stores else "load")
        if memory[1] == "vmemu":
            kind += "-unaligned"
        if stores and operator != "=":
            kind = "memory-operation"
        if kind == "vector-store" and ".new" in value:
            kind = "vector-store-new"
        if stores:
            reads += registers(value)
            writes = stepped
        else:
            writes = (*registers(target), *stepped)
            if condition:  # what it does not load stays
                reads += registers(target)
        access = "both" if kind == "memory-operation" else "store" if stores else "load"
        return Instruction(
            text,
            kind,
            tuple(dict.fromkeys(reads)),
            writes,
            frozenset(),
            frozenset(within),
            access,
            address,
            memory[2],
            number,
            extenders,
        )
    writes = registers(target)
    reads += registers(value)
    accumulates: frozenset[str] = frozenset()
    if operator != "=" and target:
        accumulates = frozenset(writes)
        reads += writes
    elif (condition and writes) or "vinsert" in value:
        reads += writes
    if value.startswith(("vshuff(", "vdeal(")) and not target:  # both operands are exchanged
        writes = registers(value)[:2]
    row = _kind(target, value)
    if row is None:
        return text
    return Instruction(
        text,
        row,
        tuple(dict.fromkeys(reads)),
        writes,
        accumulates,
        frozenset(within),
        packet=number,
        extenders=extenders,
    )


def _kind(target: str, value: str) -> str | None:
    """The kind of an instruction that accesses no memory; None if no row describes it."""
    name = _NAME.match(value)
    written, wide = registers(target), ":" in target
    called = name is not None and value[name.end() :].lstrip(":ntdlr").startswith(("(", "."))
    is_vector = any(r[0] in "vq" for r in (*written, *registers(value)))
    if name is None or not (called or name[1] in _SCALAR):
        if is_vector:  # a copy
            return "vector-pair" if wide else "vector"
        if any(r[0] == "p" for r in (*written, *registers(value))):
            return "predicate"
        return "alu"
    if is_vector and name[1] == "vand":
        mixed = any(r[0] in "qr" for r in (*written, *registers(value)))
        return "insert" if mixed else "vector-pair" if wide else "vector"
    if written and written[0][0] == "q" and name[1] in ("and", "or", "not", "xor"):
        return "vector"
    if written and written[0][0] == "p" and name[1] in ("and", "or", "not", "xor"):
        return "predicate"
    row = (_VECTOR if is_vector else _SCALAR).get(name[1])
    if row is None:
        return None
    one, _, pair = row.partition("/")
    wide = wide or (any(":" in part for part in (value,)) and not is_vector)
    return pair if wide and pair else one
