"""C source of an exported function: one file with the program, its constants and the entry."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tfn.dtypes import DType
from tfn.exporting import carry
from tfn.exporting.signature import Field, Signature
from tfn.extend import Program, Space, Target
from tfn.lower.codegen.render.c.threads import POOL
from tfn.lower.codegen.render.c.unit import unit

WORDS_PER_LINE = 12
MANIFEST_LINE_CHARACTERS = 90
MAX_STRING_BYTES = 4095
"""The longest string that every compiler of C99 takes."""
_BUFFER = re.compile(r"\bbuffers\[(\d+)\]")


def source(
    signature: Signature,
    program: Program,
    places: Sequence[Field | bytes],
    target: Target,
    texts: Mapping[str, str],
) -> str:
    """The text of NAME.c without its header; `places`: a field or data for each input.

    `texts` are those of kernels by name that are not their own.
    """
    constants = [
        constant(f"constant{i}", place, dtype) + "\n"
        for i, (place, (_, dtype)) in enumerate(zip(places, program.inputs, strict=True))
        if isinstance(place, bytes)
    ]
    constants += [
        constant(f"start_{x.field.name}", carry.pattern(x), x.field.dtype) + "\n"
        for x in signature.state
        if x.field.size_bytes
    ]
    program = replace(program, text=_with_constants(program, places))
    together = signature.threads > 1
    pool = POOL.format(name=program.name, threads=signature.threads) if together else ""
    entry = pool + _entry(signature, program, places)
    return unit(program, target, entry, together, "".join(constants), texts)


def _numbers(places: Sequence[Field | bytes], outputs: int) -> dict[int, int]:
    """The numbers of inputs and outputs of a program in the array that has no constants."""
    passed = [i for i, place in enumerate(places) if not isinstance(place, bytes)]
    return {i: n for n, i in enumerate((*passed, *range(len(places), len(places) + outputs)))}


def _with_constants(program: Program, places: Sequence[Field | bytes]) -> str:
    """The text of a driver in which constants have their names: they are no part of the stack."""
    numbers = _numbers(places, len(program.outputs))

    def named(match: re.Match[str]) -> str:
        number = numbers.get(int(match[1]))
        return f"(char *)constant{match[1]}" if number is None else f"buffers[{number}]"

    routines, head, steps = program.text.partition(f"static void {program.name}(")
    return routines + head + _BUFFER.sub(named, steps)


def constant(name: str, data: bytes, dtype: DType) -> str:
    """An array as the bits of its elements."""
    size = min(dtype.itemsize, 8)  # complex numbers are pairs
    words = np.frombuffer(data or bytes(size), f"<u{size}").byteswap()  # digits, the highest first
    text = "0x" + words.tobytes().hex(",", size).replace(",", ", 0x")
    pitch = WORDS_PER_LINE * len(", 0x") + 2 * size * WORDS_PER_LINE
    body = "\n  ".join(text[at : at + pitch - 1] for at in range(0, len(text), pitch))
    return f"static const u{8 * size} {name}[{len(words)}] = {{\n  {body}\n}};"


def _entry(signature: Signature, program: Program, places: Sequence[Field | bytes]) -> str:
    """The public function, which checks its arguments before the program runs."""
    name, capital = signature.name, signature.name.upper()
    kept = [x.field for x in signature.state]
    passed = [place for place in places if isinstance(place, Field)]
    rows = [
        (f"{'state' if x in kept else 'args'}->{x.name}", x.alignment if x.size_bytes else 0)
        for x in passed
    ]
    for x in signature.state:
        row = (f"state->{x.field.name}", 0) if x.offset is None else (f"arena + {x.offset}", 0)
        rows.append(row)
    rows += [(f"args->{x.name}", x.alignment if x.size_bytes else 0) for x in signature.outputs]
    sources = [f"(char *)constant{i}" for i in range(len(places) + len(program.outputs))]
    for i, number in _numbers(places, len(program.outputs)).items():
        sources[i] = f"buffers[{number}]"
    buffers = "\n".join(f"      (char *){pointer}," for pointer, _ in rows) or "      0,"
    asked = ", ".join(str(alignment) for _, alignment in rows) or "0"
    needed = f"!args || {'!arena' if signature.arena_bytes else '0'}"
    needed += " || !state" if kept else ""
    parameters = f"const {name}_args *args, {f'{name}_state *state, ' if kept else ''}void *arena"
    copied = "".join(
        f"  copy({sources[output]}, {sources[source]}, {size});\n"
        for output, source, size in copies(program, len(places))
    )
    copied += "".join(  # after those that read the present state
        f"  copy((char *)state->{x.name}, (char *)arena + {offset}, {x.size_bytes});\n"
        for x, offset in ((x.field, x.offset) for x in signature.state)
        if offset is not None
    )
    before = (carry.init(signature) if kept else "") + (COPY if copied else "")
    return f"""\
const char {name}_manifest[] =
{_text(signature.manifest)};

{before}int {signature.entry}({parameters}) {{
  if ({needed}) return {capital}_NULL_POINTER;
  if (args->abi != {capital}_ABI || args->program != {capital}_PROGRAM) {{
    return {capital}_WRONG_VERSION;
  }}
{_arena(signature)}  char *const buffers[] = {{
{buffers}
  }};
  static const u8 alignments[] = {{{asked}}}; /* 0: nothing is there to be checked */
  for (unsigned i = 0; i < sizeof alignments; ++i) {{
    if (!alignments[i]) continue;
    if (!buffers[i]) return {capital}_NULL_POINTER;
    if ((uintptr_t)buffers[i] & (alignments[i] - 1u)) return {capital}_MISALIGNED;
  }}
  {"run_together" if signature.threads > 1 else program.name}(buffers, arena);
{copied}  return {capital}_OK;
}}
"""


def _text(data: bytes) -> str:
    """A constant of bytes: text that can be read, or numbers where C99 has no string so long."""
    if len(data) > MAX_STRING_BYTES:
        numbers = textwrap.fill(", ".join(map(str, (*data, 0))), 96)
        return f"{{\n{textwrap.indent(numbers, '  ')}\n}}"
    quoted = data.decode().replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join(f'  "{piece}"' for piece in _pieces(quoted))


def _arena(signature: Signature) -> str:
    """The checks of an arena, if there is to be one."""
    capital = signature.name.upper()
    if not signature.arena_bytes:
        return "  (void)arena;\n"
    return f"""\
  if (args->arena_bytes < {capital}_ARENA_BYTES) return {capital}_SMALL_ARENA;
  if ((uintptr_t)arena % {capital}_ARENA_ALIGNMENT) return {capital}_MISALIGNED;
"""


COPY = """\
KERNEL void copy(char *to, const char *from, u64 bytes) {
  for (u64 i = 0; to != from && i < bytes; ++i) to[i] = from[i];
}

"""


def copies(program: Program, inputs: int) -> Iterator[tuple[int, int, int]]:
    """Outputs that are an input or another output: (buffer, the buffer it equals, bytes)."""
    for output, slot in program.aliases:
        shape, dtype = program.outputs[output]
        source = slot.at + (0 if slot.space is Space.INPUT else inputs)
        yield inputs + output, source, prod(shape) * dtype.itemsize


def _pieces(text: str) -> Iterator[str]:
    """Splits a quoted text into lines that do not end within an escape."""
    while len(text) > MANIFEST_LINE_CHARACTERS:
        end = MANIFEST_LINE_CHARACTERS
        while text[end - 1] == "\\":
            end -= 1
        yield text[:end]
        text = text[end:]
    yield text
