"""x86-64's assembly language in AT&T syntax: registers and kinds of instructions.

    vfmadd231ps 64(%r12), %zmm24, %zmm0    ->    fma-load, reads v24 and v0 and r12, writes v0

Parts of a register are one register: xmm3, ymm3 and zmm3 are v3; al, eax and rax are rax.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

from __future__ import annotations

import re

from tfn.lower.pack.instructions import Instruction

_REGISTER = re.compile(r"%([a-z]+\d*[a-z]?)")
_MEMORY = re.compile(r"([-\w.@]*\([^)]*\))|^[-\w.@]+\(%rip\)")
_OLD = {
    name: "r" + name[-1:] if len(name) == 2 else name
    for name in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
}
_FLAGS = "f0"

# Mnemonics by their beginnings, the longest first.
# fmt: off
_ROWS: dict[str, str] = {
    "vfmadd": "fma", "vfmsub": "fma", "vfnmadd": "fma", "vfnmsub": "fma", "vdpbf16": "fma",
    "vadd": "float", "vsub": "float", "vmul": "float", "vmax": "float", "vmin": "float",
    "vdiv": "divide", "vsqrt": "divide", "vcvt": "float", "vrndscale": "float", "vround": "float",
    "vscalef": "float", "vgetexp": "float", "vgetmant": "float", "vfixupimm": "float",
    "vpmull": "vector-multiply", "vpmulh": "vector-multiply", "vpmulu": "vector-multiply",
    "vpmuld": "vector-multiply", "vpmadd": "vector-multiply", "vpdp": "vector-multiply",
    "vpadd": "vector", "vpsub": "vector", "vpand": "vector", "vpor": "vector", "vpxor": "vector",
    "vpternlog": "vector", "vxorp": "vector", "vandp": "vector", "vandnp": "vector",
    "vorp": "vector", "vpmax": "vector", "vpmin": "vector", "vpabs": "vector", "vblend": "vector",
    "vpblend": "vector", "vpsll": "vector", "vpsrl": "vector", "vpsra": "vector",
    "vpmov": "shuffle", "vperm": "shuffle", "vpunpck": "shuffle", "vunpck": "shuffle",
    "vshuf": "shuffle", "vpshuf": "shuffle", "vpalign": "shuffle", "valign": "shuffle",
    "vextract": "shuffle", "vpextr": "shuffle", "vinsert": "shuffle", "vpinsr": "shuffle",
    "vpack": "shuffle", "vbroadcast": "shuffle", "vpbroadcast": "shuffle", "vcompress": "shuffle",
    "vexpand": "shuffle", "vmovshdup": "shuffle", "vmovsldup": "shuffle", "vmovddup": "shuffle",
    "vmovhlps": "shuffle", "vmovlhps": "shuffle", "vhadd": "shuffle", "vmovd": "shuffle",
    "vmovq": "shuffle", "vcmp": "mask", "vpcmp": "mask", "vptest": "mask", "vucomis": "mask",
    "vcomis": "mask", "vfpclass": "mask", "k": "mask", "vmov": "move", "mov": "move",
    "imul": "multiply", "mul": "multiply", "lea": "lea", "j": "branch",
    **dict.fromkeys(("add", "sub", "and", "or", "xor", "inc", "dec", "cmp", "test", "neg", "not",
                     "shl", "shr", "sar", "sal", "rol", "ror", "set", "cmov", "sbb", "adc", "bt",
                     "bzhi", "blsr", "andn", "tzcnt", "lzcnt", "popcnt", "rorx", "shlx", "shrx",
                     "sarx", "cqto", "cltq", "cltd", "xchg"), "alu"),
}
# fmt: on
_BY_LENGTH = sorted(_ROWS, key=len, reverse=True)
_KEEPS_TARGET = (
    "vmov",
    "mov",
    "lea",
    "set",
    "vbroadcast",
    "vpbroadcast",
    "vextract",
    "vpextr",
    "vcvt",
)
_ONLY_READS = ("cmp", "test", "vucomis", "vcomis", "bt", "kortest", "ktest")
_LOAD_KINDS = {"vector": "vector-load-op", "move": "load", "lea": "lea", "mask": "vector-load-op"}


def canonical(name: str) -> str:
    """A register by the name of the whole of it.

    Example:
        >>> [canonical(name) for name in ("zmm17", "eax", "r10d", "bl", "sil", "k1")]
        ['v17', 'rax', 'r10', 'rbx', 'rsi', 'k1']
    """
    if name[1:3] == "mm":
        return "v" + name[3:]
    if name[0] == "k":
        return name
    if re.fullmatch(r"r\d+[bwd]?", name):
        return name.rstrip("bwd")
    core = name[1:] if len(name) == 3 and name[0] in "re" else name
    core = core.rstrip("lh") if core not in ("ax", "bx", "cx", "dx") else core
    core = core + "x" if len(core) == 1 else core
    return "r" + core


def parsed(line: str, number: int) -> Instruction | str:
    """An instruction; its text if no row describes it."""
    text = " ".join(line.split())
    mnemonic, _, rest = text.partition(" ")
    row = next((_ROWS[p] for p in _BY_LENGTH if mnemonic.startswith(p)), None)
    if row is None:
        return text
    operands = _split(rest)
    names = [tuple(map(canonical, _REGISTER.findall(operand))) for operand in operands]
    memory = [i for i, operand in enumerate(operands) if "(" in operand]
    address = names[memory[0]] if memory else ()
    place = operands[memory[0]] if memory else ""
    if row == "branch":
        return Instruction(text, row, (_FLAGS,) if mnemonic != "jmp" else (), (), packet=number)
    only_reads = mnemonic.startswith(_ONLY_READS)
    last = len(operands) - 1
    stores = bool(memory) and memory[0] == last and not only_reads and row != "lea"
    loads = bool(memory) and row != "lea" and not (stores and row in ("move", "shuffle"))
    writes = () if stores or only_reads or last < 0 else names[last][:1]
    masked = names[last][1:] if last >= 0 and not (memory and memory[0] == last) else ()
    reads = [r for i, group in enumerate(names) if i != last or stores for r in group]
    reads += list(masked)
    accumulates: frozenset[str] = frozenset()
    is_vector = mnemonic[0] == "v"
    if row == "fma":
        accumulates = frozenset(writes)
        reads += writes
    elif only_reads and last >= 0:
        reads += names[last]
    elif not is_vector and row in ("alu", "multiply") and len(operands) < 3 and writes:
        if not (mnemonic.startswith("xor") and len(set(names[0] + names[last])) == 1):
            reads += [] if mnemonic.startswith("set") else writes
    elif masked and "{z}" not in rest:
        reads += writes  # lanes outside of the mask stay
    if is_vector and len(operands) == 3 and "xor" in mnemonic and len({*names[0], *names[1]}) == 1:
        reads = []  # zero
    if not is_vector and row == "alu":
        if mnemonic.startswith(("set", "cmov", "sbb", "adc")):
            reads.append(_FLAGS)
        if mnemonic not in ("rorx", "shlx", "shrx", "sarx") and not mnemonic.startswith(
            ("set", "cmov")
        ):
            writes = (*writes, _FLAGS)
    kind = row
    if row == "move" or (row == "shuffle" and mnemonic.startswith(("vbroadcast", "vpbroadcast"))):
        kind = ("vector-load" if is_vector else "load") if loads else row
    elif loads:
        kind = _LOAD_KINDS.get(row, f"{row}-load")
    if stores:
        kind = "store"
    access = ("both" if loads else "store") if stores else "load" if loads else ""
    return Instruction(
        text,
        kind,
        tuple(dict.fromkeys(reads)),
        tuple(writes),
        accumulates,
        frozenset(),
        access,
        address,
        place,
        number,
    )


def _split(text: str) -> list[str]:
    """Operands, which commas part outside of parentheses.

    Example:
        >>> _split("8(%rax,%rcx), %zmm1")
        ['8(%rax,%rcx)', '%zmm1']
    """
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    rest = text[begin:].strip()
    return [*parts, rest] if rest else parts
