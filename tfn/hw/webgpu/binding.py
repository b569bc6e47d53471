"""Operands of kernels of WGSL: the functions that read and write them, for the buffers of a launch.

A buffer is an array of words, so that operands which share one, as slices of the arena do, are one
binding: WebGPU allows eight at least, and refuses one buffer under two names.

Narrow elements share a word with those of other threads: they are written by atomic operations on
their own bits, of which no other thread writes one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from tfn import dtypes
from tfn.extend import frozen
from tfn.hw.webgpu.wgsl import kind_of

_NAN = "fn nan_{f}(x: {f}) -> bool {{ return (bitcast<{u}>(x) & {rest}) > {infinite}; }}"
_EXTREME = """\
fn {name}_{f}(a: {f}, b: {f}) -> {f} {{
  if (nan_{f}(a)) {{ return a; }}
  if (nan_{f}(b)) {{ return b; }}
  if (a == b) {{ return bitcast<{f}>(bitcast<{u}>(a) {both} bitcast<{u}>(b)); }}
  return select(b, a, a {than} b);
}}"""
_FLOATS = (
    {"f": "f32", "u": "u32", "rest": "0x7fffffffu", "infinite": "0x7f800000u"},
    {"f": "f64", "u": "u64", "rest": "0x7ffffffffffffffflu", "infinite": "0x7ff0000000000000lu"},
)
_HOLD = "fn hold_{f}(x: {f}) -> {f} {{ return bitcast<{f}>(bitcast<{u}>(x) ^ {u}(p.zero)); }}"
WORDS = {
    **{f"nan_{x['f']}": _NAN.format(**x) for x in _FLOATS},
    **{f"hold_{x['f']}": _HOLD.format(**x) for x in _FLOATS},
    "hold_i64": "fn hold_i64(x: i64) -> i64 { return x ^ (i64(p.zero) << 32u); }",
    "bits": "fn bits(x: u32) -> f32 { return bitcast<f32>(x ^ p.zero); }",
    **{f"max_{x['f']}": _EXTREME.format(name="max", both="&", than=">", **x) for x in _FLOATS},
    **{f"min_{x['f']}": _EXTREME.format(name="min", both="|", than="<", **x) for x in _FLOATS},
    "of_half": """\
fn of_half(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let exponent = (h >> 10u) & 31u;
  let rest = h & 1023u;
  if (exponent == 0u) { return bitcast<f32>(bitcast<u32>(f32(rest) * 0x1p-24f) | sign); }
  if (exponent == 31u) { return bitcast<f32>(sign | 0x7f800000u | (rest << 13u)); }
  return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (rest << 13u));
}""",
    "to_half": """\
fn to_half(x: f32) -> u32 {
  let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
  let size = bitcast<u32>(x) & 0x7fffffffu;
  if (size > 0x7f800000u) { return sign | 0x7e00u; }
  if (size >= 0x477ff000u) { return sign | 0x7c00u; }
  if (size < 0x38800000u) { return sign | u32(round(bitcast<f32>(size) * 0x1p+24f)); }
  let r = size - 0x38000000u;
  return sign | ((r + 0xfffu + ((r >> 13u) & 1u)) >> 13u);
}""",
}
"""Functions that kernels call, each after those that it calls itself."""


@frozen
class Operand:
    """An operand of a kernel.

    Attributes:
        dtype: the name of its dtype.
        writes: whether the kernel writes it.
    """

    dtype: str
    writes: bool

    @property
    def kind(self) -> str:
        """The type of an element in a register."""
        return kind_of(dtypes.canonical(self.dtype))

    @property
    def bytes(self) -> int:
        """The bytes of an element in memory."""
        return int(dtypes.canonical(self.dtype).itemsize)


def described(text: str) -> tuple[int, tuple[Operand | None, ...]]:
    """The threads of a group and the operands of a kernel; None for one that it does not use."""
    record = json.loads(text[3 : text.index("\n")])
    operands = tuple(None if x is None else Operand(*x) for x in record["operands"])
    return int(record["threads"]), operands


def bindings(text: str, places: Sequence[int]) -> dict[int, bool]:
    """The numbers of the buffers that a kernel uses, in order, and whether it writes each."""
    used = [(at, x.writes) for x, at in zip(described(text)[1], places) if x is not None]
    return {at: (at, True) in used for at in sorted({at for at, _ in used})}


def bound(text: str, places: Sequence[int]) -> str:
    """A shader: a kernel with the functions that read and write its operands.

    Args:
        text: of the kernel, by `kernel_text`.
        places: the number of the buffer of each operand.
    """
    _, operands = described(text)
    words = [f"@group(0) @binding(0) var<uniform> p: Places;\n{_places(len(operands))}"]
    used = [(i, x, places[i]) for i, x in enumerate(operands) if x is not None]
    atomic = {at for _, x, at in used if x.writes and x.bytes < 4}
    for at, writes in bindings(text, places).items():
        mode = "read_write" if writes else "read"
        kind = "atomic<u32>" if at in atomic else "u32"
        words.append(f"@group(0) @binding({at + 1}) var<storage, {mode}> m{at}: array<{kind}>;")
    for i, x, at in used:
        words += _access(i, x, f"m{at}", at in atomic)
    whole = "\n".join((*words, text))
    needed: dict[str, str] = {}
    for name in reversed(WORDS):  # a function is needed by the kernel, or by one that is
        if re.search(rf"\b{name}\(", whole + "".join(needed.values())):
            needed[name] = WORDS[name]
    return "\n".join((*reversed(needed.values()), *words, text))


def _places(count: int) -> str:
    vectors = max(-(-count // 4), 1)
    return f"struct Places {{ zero: u32, groups: u32, @align(16) at: array<vec4<u32>, {vectors}> }}"


def _access(i: int, x: Operand, memory: str, atomic: bool) -> list[str]:
    """The functions that read and write an operand."""
    place, kind = f"p.at[{i // 4}][{i % 4}]", x.kind
    word = f"atomicLoad(&{memory}[at])" if atomic else f"{memory}[at]"
    if x.bytes == 8:
        at = f"let at = ({place} >> 2u) + u32(j) * 2u;"
        low, high = (word.replace("[at]", f"[at{n}]") for n in ("", " + 1u"))
        whole = f"u64({low}) | (u64({high}) << 32u)"
        read = whole if kind == "u64" else f"bitcast<{kind}>({whole})"
        bits = "x" if kind == "u64" else "bitcast<u64>(x)"
        halves = (f"u32({bits} & 0xfffffffflu)", f"u32({bits} >> 32u)")
        form = "atomicStore(&{m}[at{n}], {v});" if atomic else "{m}[at{n}] = {v};"
        pair = zip(("", " + 1u"), halves)
        write = " ".join(form.format(m=memory, n=n, v=v) for n, v in pair)
    elif x.bytes == 4:
        at = f"let at = ({place} >> 2u) + u32(j);"
        read = word if kind == "u32" else f"bitcast<{kind}>({word})"
        bits = "x" if kind == "u32" else "bitcast<u32>(x)"
        write = f"atomicStore(&{memory}[at], {bits});" if atomic else f"{memory}[at] = {bits};"
    else:
        mask = (1 << 8 * x.bytes) - 1
        at = (
            f"let byte = {place} + u32(j) * {x.bytes}u; let at = byte >> 2u; "
            "let shift = (byte & 3u) * 8u;"
        )
        field = f"({word} >> shift) & {mask:#x}u"
        unused = 32 - 8 * x.bytes
        reads = {
            "bool": f"({field}) != 0u",
            "i32": f"bitcast<i32>(({field}) << {unused}u) >> {unused}u",
        }
        read = reads.get(kind, field)
        bits = {"bool": "u32(x)", "i32": f"bitcast<u32>(x) & {mask:#x}u"}.get(
            kind, f"x & {mask:#x}u"
        )
        write = (
            f"atomicAnd(&{memory}[at], ~({mask:#x}u << shift)); "
            f"atomicOr(&{memory}[at], ({bits}) << shift);"
        )
    functions = [f"fn load{i}(j: i32) -> {kind} {{ {at} return {read}; }}"]
    if x.writes:
        functions.append(f"fn store{i}(j: i32, x: {kind}) {{ {at} {write} }}")
    return functions
