"""A reader of AMD's pseudocode, as far as it is assignments and conditions of single lanes.

The text comes from the package tinygrad, which has that of AMD's manuals as data.  Numbers are
those of Python and NumPy; what the reader does not know it refuses with a KeyError or SyntaxError.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

KINDS = {"u": "uint", "i": "int", "f": "float", "b": "uint"}


def texts() -> dict[str, str]:
    """The pseudocode of RDNA3 by the names of instructions, without those of their formats."""
    module = import_module("tinygrad.runtime.autogen.amd.rdna3.str_pcode")
    return {re.sub(r"_E(32|64)$", "", op.name).lower(): text for op, text in module.PCODE.items()}


def typed(kind: str, value: Any) -> Any:
    """A value as a number of a kind: ``u32``, ``f64``, ``i24``."""
    letter, bits = kind[0], int(kind[1:])
    if letter == "f":
        return np.dtype(f"float{bits}").type(value)
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if letter == "i" and value >> (bits - 1) else value


def reinterpreted(raw: int, kind: str) -> Any:
    """Bits as a number of a kind."""
    letter, bits = kind[0], int(kind[1:])
    if letter != "f":
        return typed(kind, raw)
    return np.array([raw & ((1 << bits) - 1)], f"uint{bits}").view(f"float{bits}")[0]


def raw_bits(value: Any) -> int:
    """The bits of a number."""
    if isinstance(value, np.floating):
        return int(np.array([value]).view(f"uint{8 * value.dtype.itemsize}")[0])
    return int(value)


def _python(text: str) -> str:
    """A line of pseudocode as one of Python."""
    text = re.sub(r"(\d+)'([UIFB])\(", lambda m: f"C('{m[2].lower()}{m[1]}', ", text)
    text = re.sub(r"\d+'(0x[0-9a-fA-F]+|\d+)U?", r"\1", text)
    text = re.sub(r"\b(0x[0-9A-Fa-f]+|\d+)(ULL|LL|U)\b", r"\1", text)
    text = re.sub(r"\b(\d+\.\d+)F\b", r"\1", text)
    text = re.sub(r"\b(S\d|D0|tmp)\[(\d+) : (\d+)\](?:\.\w+)?", r"bits(\1, \2, \3)", text)
    text = re.sub(r"\b(S\d|D0|tmp)\[(\d+)\](?:\.\w+)?", r"bits(\1, \2, \2)", text)
    text = re.sub(r"\bVCC\.u64\[laneId\](?:\.u\d+)?", "carry", text)
    text = re.sub(r"\bSCC(?:\.u\d+)?", "carry", text)
    text = re.sub(r"\b(S\d|D0|tmp)\.([uifb]\d+)", r"R(\1, '\2')", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    ternary = re.fullmatch(r"(.*?) \? (.*) : (.*)", text)
    if ternary:
        text = f"({ternary[2]}) if ({ternary[1]}) else ({ternary[3]})"
    return text


def source(text: str) -> str:
    """Pseudocode as Python."""
    lines, depth = list[str](), 0
    text = re.sub(r"//[^\n]*", "", text)
    for line in filter(None, (part.strip().rstrip(";") for part in re.split(r"[\n;]", text))):
        head, _, rest = line.partition(" ")
        if head in ("elsif", "else", "endif"):
            depth -= 1
        if head == "endif":
            continue
        indent = "    " * depth
        if head in ("if", "elsif"):
            test = _python(rest.removesuffix("then").strip())
            lines.append(f"{indent}{'if' if head == 'if' else 'elif'} {test}:")
            depth += 1
        elif head == "else":
            lines.append(f"{indent}else:")
            depth += 1
        else:
            to, equals, value = line.partition(" = ")
            if not equals:
                raise SyntaxError(line)
            target = re.fullmatch(r"(D0|tmp|VCC|SCC)(?:\.(\w+))?(\[laneId\])?", to.strip())
            if not target:
                raise SyntaxError(line)
            name, kind, lane = target.groups()
            if name in ("VCC", "SCC") or lane:
                own = "D0" if name == "D0" else "carry"
                lines.append(f"{indent}{own} = out['{own}'] = int(bool({_python(value)}))")
            elif kind is None and name == "D0":
                raise SyntaxError(line)
            elif name == "tmp":
                wrapped = f"typed('{kind}', {_python(value)})" if kind else _python(value)
                lines.append(f"{indent}tmp = {wrapped}")
            else:
                lines.append(f"{indent}D0 = out['D0'] = typed('{kind}', {_python(value)})")
    return "\n".join(lines)


def run(code: Any, operands: list[int], carry: int) -> dict[str, int]:
    """The bits of the results of compiled source, from the bits of operands."""
    out: dict[str, Any] = {}
    names = {f"S{i}": x for i, x in enumerate(operands)}
    scope: dict[str, Any] = {
        **names,
        "out": out,
        "carry": carry,
        "R": lambda x, kind: reinterpreted(raw_bits(x), kind),
        "C": typed,
        "typed": typed,
        "bits": lambda x, high, low: raw_bits(x) >> low & ((1 << (high - low + 1)) - 1),
        "fma": None,
        "abs": abs,
        "floor": np.floor,
        "trunc": np.trunc,
        "isNAN": np.isnan,
        "isEven": lambda x: x % 2 == 0,
        "f32_to_f16": np.float16,
        "f16_to_f32": np.float32,
        "f32_to_f64": np.float64,
        "f64_to_f32": np.float32,
        "i32_to_f32": np.float32,
        "u32_to_f32": np.float32,
        "i32_to_f64": np.float64,
        "u32_to_f64": np.float64,
        "signext": lambda x: x,
    }
    del scope["fma"]
    with np.errstate(all="ignore"):
        exec(code, scope)
    return {name: raw_bits(value) for name, value in out.items()}
