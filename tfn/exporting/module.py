"""LLVM IR of an exported function: one module with the program, its constants and the entry."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfn.exporting.header import ERRORS
from tfn.exporting.signature import ABI, ALIGNMENT, Field, Signature
from tfn.exporting.source import copies
from tfn.extend import Program
from tfn.hw.cpu import compiler_rt
from tfn.hw.dsp import monitor

HEAD_BYTES = 16
"""Bytes of the struct before its pointers: two words of 32 bits, and one of 64."""
_DECLARED = re.compile(r"^declare .*?@([\w.]+)\(", re.MULTILINE)
_DEFINED = re.compile(r"^define (?:internal )?(.*?@([\w.]+)\()", re.MULTILINE)

COPY = """
define internal void @copy(ptr %to, ptr %from, i64 %bytes) {
entry:
  %same = icmp eq ptr %to, %from
  %none = icmp eq i64 %bytes, 0
  %done = or i1 %same, %none
  br i1 %done, label %exit, label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from_at = getelementptr i8, ptr %from, i64 %i
  %to_at = getelementptr i8, ptr %to, i64 %i
  %byte = load i8, ptr %from_at
  store i8 %byte, ptr %to_at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %bytes
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""


def module(
    signature: Signature, program: Program, places: Sequence[Field | bytes], pointer_bytes: int
) -> str:
    """The whole text; `places` is a field or data for each input of the program."""
    texts = [kernel.text for kernel in program.kernels] + [program.text]
    if any("half" in text for text in texts):
        texts.append(compiler_rt.float16_text())
    if signature.target.triple.startswith("hexagon"):
        texts.append(monitor.arithmetic_text())
    inner = _merged(texts)
    constants = [
        f"@constant{i} = internal constant [{len(place)} x i8] {_quoted(place)}, align 64"
        for i, place in enumerate(places)
        if isinstance(place, bytes)
    ]
    manifest = signature.manifest + b"\0"
    constants.append(
        f"@{signature.name}_manifest = constant [{len(manifest)} x i8] {_quoted(manifest)}"
    )
    entry = _Entry(signature, program, places, pointer_bytes).text()
    return "\n".join([*constants, inner, COPY, entry])


def _merged(texts: Sequence[str]) -> str:
    """Functions of several modules in one: all internal, no declaration repeated."""
    text = _DEFINED.sub(r"define internal \1", "\n".join(texts))
    defined = {name for _, name in _DEFINED.findall(text)}
    lines, seen = [], set()
    for line in text.splitlines():
        declaration = _DECLARED.match(line)
        if declaration and declaration[1] in defined:
            continue
        if declaration or line.startswith("attributes"):
            if line in seen:
                continue
            seen.add(line)
        lines.append(line)
    return "\n".join(lines)


def _quoted(data: bytes) -> str:
    """Bytes as LLVM writes them."""
    return 'c"' + ("\\" + data.hex("\\") if data else "") + '"'


class _Entry:
    """Builds the public function, which checks its arguments before the program runs."""

    def __init__(
        self,
        signature: Signature,
        program: Program,
        places: Sequence[Field | bytes],
        pointer_bytes: int,
    ) -> None:
        self.signature, self.program = signature, program
        self.places, self.pointer_bytes = places, pointer_bytes
        self.lines: list[str] = []
        self.count = 0

    def let(self, text: str) -> str:
        """A new name for a value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def refuse(self, condition: str, error: str) -> None:
        """Return an error if a condition holds."""
        self.count += 1
        self.lines += [
            f"  br i1 {condition}, label %{error}, label %next{self.count}",
            f"next{self.count}:",
        ]

    def word(self, kind: str, offset: int) -> str:
        """A member of the struct."""
        at = self.let(f"getelementptr i8, ptr %args, i64 {offset}")
        return self.let(f"load {kind}, ptr {at}")

    def aligned(self, pointer: str, alignment: int) -> None:
        """Refuse an address that is not aligned to `alignment` bytes."""
        number = self.let(f"ptrtoint ptr {pointer} to i64")
        rest = self.let(f"and i64 {number}, {alignment - 1}")
        self.refuse(self.let(f"icmp ne i64 {rest}, 0"), "MISALIGNED")

    def text(self) -> str:
        """The whole function."""
        signature, program = self.signature, self.program
        self.refuse(self.let("icmp eq ptr %args, null"), "NULL_POINTER")
        if signature.arena_bytes:
            self.refuse(self.let("icmp eq ptr %arena, null"), "NULL_POINTER")
        for offset, expected in ((0, ABI), (4, signature.program)):
            word = self.word("i32", offset)
            self.refuse(self.let(f"icmp ne i32 {word}, {expected}"), "WRONG_VERSION")
        size = self.word("i64", 8)
        self.refuse(self.let(f"icmp ult i64 {size}, {signature.arena_bytes}"), "SMALL_ARENA")
        self.aligned("%arena", ALIGNMENT)
        pointers = [self.buffer(i, place) for i, place in enumerate(self.buffers())]
        for i, pointer in enumerate(pointers):
            at = self.let(f"getelementptr ptr, ptr %buffers, i64 {i}")
            self.lines.append(f"  store ptr {pointer}, ptr {at}")
        self.run()
        for output, source, count in copies(program, len(self.places)):
            self.lines.append(
                f"  call void @copy(ptr {pointers[output]}, ptr {pointers[source]}, i64 {count})"
            )
        body = "\n".join(self.lines)
        errors = "\n".join(f"{error}:\n  ret i32 {i}" for i, (error, _) in enumerate(ERRORS) if i)
        room = f"  %buffers = alloca [{max(len(pointers), 1)} x ptr]\n"
        head = f"define i32 @{signature.name}(ptr %args, ptr %arena) #1 {{\n"
        return f"{head}{room}{body}\n  ret i32 0\n{errors}\n}}\n"

    def buffers(self) -> list[Field | bytes]:
        """Inputs and outputs of the program."""
        return [*self.places, *self.signature.outputs]

    def buffer(self, i: int, place: Field | bytes) -> str:
        """The checked address of an array."""
        if isinstance(place, bytes):
            return f"@constant{i}"
        member = self.signature.fields.index(place)
        pointer = self.word("ptr", HEAD_BYTES + self.pointer_bytes * member)
        if place.size_bytes:
            self.refuse(self.let(f"icmp eq ptr {pointer}, null"), "NULL_POINTER")
            if place.alignment > 1:
                self.aligned(pointer, place.alignment)
        return pointer

    def run(self) -> None:
        """Call the program."""
        self.lines.append(
            f"  call void @{self.program.name}(i64 0, i64 1, ptr %buffers, ptr %arena, ptr null)"
        )
