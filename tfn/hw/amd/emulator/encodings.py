"""Decoder of RDNA3: words of machine code become instructions with their operands.

    7E020303    VOP1, number 1    v_mov_b32 v1, v3

Fields are cut by format, rows come from `table`.  A word that no format begins with, a number
without a row, and a modifier without a meaning are refused by their name.

Source: RDNA3 instruction set architecture, chapter 15.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from tfn.errors import CompileError
from tfn.extend import frozen
from tfn.hw.amd.emulator.table import CARRY_OUT, FORMATS, Row

VCC, NULL, M0, EXEC = 106, 124, 125, 126
"""Numbers of scalar registers; vcc and exec have the word above, too."""
SCC = 253
_LITERAL, _DPP16, _DPP8 = 255, 250, (233, 234)
_FLOATS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 0.5 / np.pi)  # from number 240

# fmt: off
REGISTERS = {
    **dict.fromkeys(("u64", "i64", "f64", "b64"), 2), "b96": 3, "b128": 4, "b256": 8, "b512": 16,
    "address": 2,
}
# fmt: on
"""Registers of 32 bits that an operand of a type takes, where it is not one."""


@frozen
class Operand:
    """An operand.

    Attributes:
        kind: ``v`` and ``s`` for registers, ``k`` for a constant, ``null`` for none.
        at: the number of the first register, or the bits of the constant.
        type: as in the rows of the table.
        high: whether it is the upper half of a register.
        negative, magnitude: modifiers of a float.
    """

    kind: str
    at: int
    type: str
    high: bool = False
    negative: bool = False
    magnitude: bool = False

    @property
    def registers(self) -> tuple[tuple[str, int], ...]:
        """The registers that it takes."""
        if self.kind not in "sv":
            return ()
        count = REGISTERS.get(self.type, 1)
        return tuple((self.kind, self.at + i) for i in range(count))


@frozen
class Instruction:
    """An instruction.

    Attributes:
        at, size: its place in the code, and its size, in bytes.
        form: its format.
        row: of the table.
        to, of: its operands.
        offset: of an address, in bytes; of a branch the place to which it goes.
        offsets: those of two addresses at once, as they are written.
        swizzle: how lanes exchange the first source, as the word of DPP; None if they do not.
        clamp: whether the result is a float from 0 to 1.
        second: the other instruction of a pair.
    """

    at: int
    size: int
    form: str
    row: Row
    to: tuple[Operand, ...] = ()
    of: tuple[Operand, ...] = ()
    offset: int = 0
    offsets: tuple[int, int] = (0, 0)
    swizzle: int | None = None
    clamp: bool = False
    second: Instruction | None = None

    @property
    def name(self) -> str:
        """Its name; of a pair both."""
        return f"{self.row.name} :: {self.second.row.name}" if self.second else self.row.name

    @property
    def parts(self) -> tuple[Instruction, ...]:
        """Itself, or both of a pair."""
        return (self, self.second) if self.second else (self,)

    @property
    def reads(self) -> frozenset[tuple[str, int]]:
        """The registers that it reads."""
        return frozenset(r for part in self.parts for o in part.of for r in o.registers)

    @property
    def writes(self) -> frozenset[tuple[str, int]]:
        """The registers that it writes."""
        return frozenset(r for part in self.parts for o in part.to for r in o.registers)


def refused(at: int, what: str, got: str) -> CompileError:
    """The error for machine code that the emulator does not understand."""
    return CompileError(
        f"the emulator of gfx1100 does not understand the instruction at byte {at:#x}: {what}",
        got=got,
        hint="llvm-objdump -d shows the instruction; a row of hw/amd/emulator/table.py runs it",
    )


def decoded(code: bytes) -> list[Instruction]:
    """The instructions of a kernel, up to its last ``s_endpgm``.

    Raises:
        CompileError: for what is not understood.
    """
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    found: list[Instruction] = []
    place = 0
    while place < len(words):
        instruction = _Decoder(words, place).instruction()
        place += instruction.size // 4
        if instruction.row.name == "s_code_end":
            break
        found.append(instruction)
    return found


def bits(value: int, low: int, width: int) -> int:
    """A field of a word."""
    return value >> low & ((1 << width) - 1)


def signed(value: int, width: int) -> int:
    """A field with its sign."""
    return value - (1 << width) if value >> (width - 1) else value


class _Decoder:
    """One instruction as it is decoded.

    Attributes:
        words: of the code.
        place: of the first word.
        size: in words, so far.
        after: the literal, or the word of the swizzle, once it is read.
    """

    def __init__(self, words: Sequence[int], place: int) -> None:
        self.words, self.place, self.size = words, place, 1
        self.swizzle: int | None = None
        self.after: int | None = None

    @property
    def at(self) -> int:
        return 4 * self.place

    def word(self, i: int) -> int:
        """A word of the instruction."""
        if self.place + i >= len(self.words):
            raise refused(self.at, "the code ends within it", f"{len(self.words)} words")
        return self.words[self.place + i]

    def instruction(self) -> Instruction:
        """The instruction."""
        w = self.word(0)
        if not w >> 31:
            if bits(w, 25, 6) == 0x3F:
                return self._vop(w, "VOP1", bits(w, 9, 8), [bits(w, 0, 9)], bits(w, 17, 8))
            if bits(w, 25, 6) == 0x3E:
                sources = [bits(w, 0, 9), 256 + bits(w, 9, 8)]
                return self._vop(w, "VOPC", bits(w, 17, 8), sources, VCC)
            sources = [bits(w, 0, 9), 256 + bits(w, 9, 8)]
            return self._vop(w, "VOP2", bits(w, 25, 6), sources, bits(w, 17, 8))
        for prefix, width, read in (
            (0b101111101, 9, self._sop1),
            (0b101111110, 9, self._sopc),
            (0b101111111, 9, self._sopp),
            (0b11001100, 8, self._vop3p),
            (0b110101, 6, self._vop3),
            (0b110010, 6, self._vopd),
            (0b110110, 6, self._ds),
            (0b110111, 6, self._flat),
            (0b111101, 6, self._smem),
            (0b1110, 4, self._invalidate),
            (0b1011, 4, self._sopk),
            (0b10, 2, self._sop2),
        ):
            if w >> (32 - width) == prefix:
                return read(w)
        raise refused(self.at, "no format begins so", f"{w:08x}")

    def row(self, form: str, number: int) -> Row:
        row = FORMATS[form].get(number)
        if row is None:
            raise refused(self.at, f"no row for number {number} of {form}", f"{self.word(0):08x}")
        return row

    def made(self, form: str, row: Row, **more: object) -> Instruction:
        return Instruction(self.at, 4 * self.size, form, row, **more)  # type: ignore[arg-type]

    def literal(self) -> int:
        """The word after the instruction, which all operands share."""
        if self.after is None:
            self.after = self.word(self.size)
            self.size += 1
        return self.after

    def source(self, code: int, kind: str, **modifiers: bool) -> Operand:
        """A source by its number."""
        if code >= 256:
            high = kind in ("u16", "i16", "f16") and code >= 384 and "high" not in modifiers
            return Operand(
                "v",
                code - 256 - 128 * high,
                kind,
                **(modifiers | {"high": True} if high else modifiers),
            )
        if code < 128:
            return Operand("null" if code == NULL else "s", code, kind, **modifiers)
        if code == SCC:
            return Operand("scc", 0, kind)
        return Operand("k", self.constant(code, kind), kind, **modifiers)

    def constant(self, code: int, kind: str) -> int:
        """The bits of a constant of a type."""
        wide = REGISTERS.get(kind, 1) == 2
        if code == _LITERAL:
            value = self.literal()
            if kind == "f64":
                return value << 32
            return signed(value, 32) & (1 << 64) - 1 if kind == "i64" else value
        ones = (1 << (64 if wide else 16 if kind.endswith("16") else 32)) - 1
        if 128 <= code <= 192:
            return code - 128
        if 193 <= code <= 208:
            return 192 - code & ones
        if 240 <= code < 240 + len(_FLOATS):
            form = "d" if wide else "e" if kind.endswith("16") else "f"
            return int.from_bytes(struct.pack(f"<{form}", _FLOATS[code - 240]), "little")
        raise refused(self.at, f"no source has the number {code}", f"{self.word(0):08x}")

    def scalars(
        self, row: Row, codes: Sequence[int], to: int, immediate: int = 0
    ) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """The operands of a scalar instruction."""
        given = iter(codes)

        def operand(kind: str) -> Operand:
            if kind in ("scc", "exec", "vcc"):
                return _implicit(kind)
            if kind == "simm":
                return Operand("k", signed(immediate, 16) & 0xFFFFFFFF, "i32")
            if kind == "uimm":
                return Operand("k", immediate, "u32")
            if kind.startswith("to"):
                of = kind[3:] or row.to[0]
                return self.source(to, of)
            return self.source(next(given), kind)

        of = tuple(operand(kind) for kind in row.of)
        first = "null" if to == NULL else "s"
        return tuple(
            _implicit(kind) if kind in ("scc", "exec") else Operand(first, to, kind)
            for kind in row.to
        ), of

    def _sop1(self, w: int) -> Instruction:
        row = self.row("SOP1", bits(w, 8, 8))
        to, of = self.scalars(row, [bits(w, 0, 8)], bits(w, 16, 7))
        return self.made("SOP1", row, to=to, of=of)

    def _sop2(self, w: int) -> Instruction:
        row = self.row("SOP2", bits(w, 23, 7))
        to, of = self.scalars(row, [bits(w, 0, 8), bits(w, 8, 8)], bits(w, 16, 7))
        return self.made("SOP2", row, to=to, of=of)

    def _sopc(self, w: int) -> Instruction:
        row = self.row("SOPC", bits(w, 16, 7))
        to, of = self.scalars(row, [bits(w, 0, 8), bits(w, 8, 8)], 0)
        return self.made("SOPC", row, to=to, of=of)

    def _sopk(self, w: int) -> Instruction:
        row = self.row("SOPK", bits(w, 23, 5))
        to, of = self.scalars(row, [], bits(w, 16, 7), bits(w, 0, 16))
        return self.made("SOPK", row, to=to, of=of, offset=bits(w, 0, 16))

    def _sopp(self, w: int) -> Instruction:
        row = self.row("SOPP", bits(w, 16, 7))
        offset = bits(w, 0, 16)
        if row.name.startswith(("s_branch", "s_cbranch")):
            offset = self.at + 4 + 4 * signed(offset, 16)
        return self.made("SOPP", row, of=tuple(map(_implicit, row.of)), offset=offset)

    def _smem(self, w: int) -> Instruction:
        self.size = 2
        high = self.word(1)
        row = self.row("SMEM", bits(w, 18, 8))
        if not row.to:
            return self.made("SMEM", row)
        base, offset = Operand("s", 2 * bits(w, 0, 6), "u64"), bits(high, 25, 7)
        of = (base,) if offset == NULL else (base, Operand("s", offset, "u32"))
        to = (Operand("s", bits(w, 6, 7), row.to[0]),)
        return self.made("SMEM", row, to=to, of=of, offset=signed(bits(high, 0, 21), 21))

    def _vop(self, w: int, form: str, number: int, codes: list[int], to: int) -> Instruction:
        """VOP1, VOP2 and VOPC: one word, and a literal or a swizzle."""
        row = self.row(form, number)
        if codes[0] == _DPP16:
            control = self.literal()
            self.swizzle = control >> 8
            codes[0] = 256 + bits(control, 0, 8)
            flags = [bits(control, 20, 2), bits(control, 22, 2)]
            modifiers = [{"negative": bool(f & 1), "magnitude": bool(f & 2)} for f in flags]
        elif codes[0] in _DPP8:
            raise refused(self.at, f"{row.name} with DPP8", f"{w:08x}")
        else:
            modifiers = []
        given, of = iter(codes), list[Operand]()
        for kind in row.of:
            if kind in ("mask", "vcc"):
                of.append(_implicit("vcc"))
            elif kind == "to":
                of.append(self._vector(to, row.to[0]))
            elif kind == "k":
                of.append(Operand("k", self.literal(), row.to[0]))
            else:
                more = modifiers[len(of)] if len(of) < len(modifiers) else {}
                of.append(self.source(next(given), kind, **more))
        results = [self._result(kind, to) for kind in row.to]
        return self.made(form, row, to=tuple(results), of=tuple(of), swizzle=self.swizzle)

    def _vector(self, to: int, kind: str, high: bool = False) -> Operand:
        """A vector register by its number; of halves from 128 upper ones."""
        half = kind in ("u16", "i16", "f16") and to >= 128 and not high
        return Operand("v", to - 128 * half, kind, high=high or half)

    def _result(self, kind: str, to: int) -> Operand:
        if kind == "mask":
            return _implicit("vcc")
        if kind == "exec":
            return _implicit(kind)
        if kind == "s32":
            return Operand("null" if to == NULL else "s", to, kind)
        return self._vector(to, kind)

    def _vop3(self, w: int) -> Instruction:
        self.size = 2
        high, number = self.word(1), bits(w, 16, 10)
        row, to, swizzle = self.row("VOP3", number), bits(w, 0, 8), None
        codes = [bits(high, 9 * i, 9) for i in range(3)]
        carries = number in CARRY_OUT
        magnitudes, halves = (0, 0) if carries else (bits(w, 8, 3), bits(w, 11, 4))
        negatives = bits(high, 29, 3)
        if bits(high, 27, 2):
            raise refused(self.at, f"{row.name} with an output modifier", f"{w:08x} {high:08x}")
        if codes[0] == _DPP16:
            control = self.literal()
            swizzle, codes[0] = control >> 8, 256 + bits(control, 0, 8)
        elif codes[0] in _DPP8:
            raise refused(self.at, f"{row.name} with DPP8", f"{w:08x} {high:08x}")
        of, i = list[Operand](), 0
        for kind in row.of:
            if kind == "vcc":
                of.append(_implicit(kind))
            elif kind == "to":
                of.append(Operand("v", to, row.to[0], high=bool(halves & 8)))
            elif kind == "mask":
                of.append(self.source(codes[i], kind))
            else:
                flags = {
                    "negative": bool(negatives >> i & 1),
                    "magnitude": bool(magnitudes >> i & 1),
                }
                if kind[0] != "f" and any(flags.values()):
                    raise refused(self.at, f"{row.name} of a negated integer", f"{w:08x}")
                flags["high"] = bool(halves >> i & 1)
                of.append(self.source(codes[i], kind, **flags))
                i += 1
        results = list[Operand]()
        for kind in row.to:
            place = bits(w, 8, 7) if kind == "mask" and carries else to
            if kind in ("mask", "s32"):
                results.append(Operand("null" if place == NULL else "s", place, kind))
            elif kind == "exec":
                results.append(_implicit(kind))
            else:
                results.append(Operand("v", to, kind, high=bool(halves & 8)))
        clamp = bool(bits(w, 15, 1))
        if clamp and row.to[0][0] != "f":
            raise refused(self.at, f"{row.name} of integers with clamp", f"{w:08x} {high:08x}")
        return self.made("VOP3", row, to=tuple(results), of=tuple(of), swizzle=swizzle, clamp=clamp)

    def _vop3p(self, w: int) -> Instruction:
        self.size = 2
        high = self.word(1)
        row = self.row("VOP3P", bits(w, 16, 7))
        if bits(w, 15, 1):
            raise refused(self.at, f"{row.name} with clamp", f"{w:08x} {high:08x}")
        codes = [bits(high, 9 * i, 9) for i in range(3)]
        low_halves, low_negative = bits(w, 11, 3), bits(high, 29, 3)
        high_halves = bits(high, 27, 2) | bits(w, 14, 1) << 2
        high_negative = bits(w, 8, 3)
        of, n = list[Operand](), len(row.of)
        for j, kind in enumerate(row.of):
            if kind == "mix":
                half = high_halves >> j & 1
                flags = {"negative": bool(low_negative >> j & 1)}
                flags["magnitude"] = bool(high_negative >> j & 1)
                flags["high"] = bool(half and low_halves >> j & 1)
                of.append(self.source(codes[j], "f16" if half else "f32", **flags))
                continue
            part, _, of_kind = kind.partition("_")
            i = j % (n // 2)
            chosen, negative = (
                (low_halves, low_negative) if part == "lo" else (high_halves, high_negative)
            )
            modifiers = {"high": bool(chosen >> i & 1)}
            if of_kind == "f16":
                modifiers["negative"] = bool(negative >> i & 1)
            of.append(self.source(codes[i], of_kind, **modifiers))
        to = Operand("v", bits(w, 0, 8), row.to[0], high="mixhi" in row.name)
        return self.made("VOP3P", row, to=(to,), of=tuple(of))

    def _vopd(self, w: int) -> Instruction:
        """Two instructions; the lowest bit of the second destination is not that of the first."""
        self.size = 2
        high = self.word(1)
        numbers = bits(w, 22, 4), bits(w, 17, 5)
        sources = (bits(w, 0, 9), 256 + bits(w, 9, 8)), (bits(high, 0, 9), 256 + bits(high, 9, 8))
        first = bits(high, 24, 8)
        places = first, bits(high, 17, 7) << 1 | (first & 1 ^ 1)
        rows = [self.row("VOPD", number) for number in numbers]
        made = []
        for row, pair, to in zip(rows, sources, places, strict=True):
            given, of = iter(pair), list[Operand]()
            for kind in row.of:
                if kind == "mask":
                    of.append(_implicit("vcc"))
                elif kind == "to":
                    of.append(Operand("v", to, row.to[0]))
                elif kind == "k":
                    of.append(Operand("k", self.literal(), row.to[0]))
                else:
                    of.append(self.source(next(given), kind))
            made.append(self.made("VOPD", row, to=(Operand("v", to, row.to[0]),), of=tuple(of)))
        one, other = made
        return self.made("VOPD", one.row, to=one.to, of=one.of, second=other)

    def _ds(self, w: int) -> Instruction:
        self.size = 2
        high = self.word(1)
        row = self.row("DS", bits(w, 18, 8))
        if bits(w, 17, 1):
            raise refused(self.at, f"{row.name} with global data share", f"{w:08x}")
        given = iter((bits(high, 8, 8), bits(high, 16, 8)))
        of = tuple(
            Operand("v", bits(high, 0, 8) if kind == "a32" else next(given), kind)
            for kind in row.of
        )
        to = tuple(Operand("v", bits(high, 24, 8), kind) for kind in row.to)
        offsets = bits(w, 0, 8), bits(w, 8, 8)
        return self.made("DS", row, to=to, of=of, offset=bits(w, 0, 16), offsets=offsets)

    def _flat(self, w: int) -> Instruction:
        self.size = 2
        high = self.word(1)
        form = ("FLAT", "SCRATCH", "GLOBAL", "")[bits(w, 16, 2)]
        row = self.row(form, bits(w, 18, 7)) if form else self.row("FLAT", -1)
        base, address = bits(high, 16, 7), bits(high, 0, 8)
        of = list[Operand]()
        for kind in row.of:
            if kind == "address":
                if form == "SCRATCH":
                    if bits(high, 23, 1):
                        of.append(Operand("v", address, "u32"))
                elif base == NULL:
                    of.append(Operand("v", address, "u64"))
                else:
                    of.append(Operand("v", address, "u32"))
                if base != NULL:
                    of.append(Operand("s", base, "u32" if form == "SCRATCH" else "u64"))
            elif kind == "to":
                of.append(Operand("v", bits(high, 24, 8), row.to[0]))
            else:
                of.append(Operand("v", bits(high, 8, 8), kind))
        to = tuple(Operand("v", bits(high, 24, 8), kind) for kind in row.to)
        return self.made(form, row, to=to, of=tuple(of), offset=signed(bits(w, 0, 13), 13))

    def _invalidate(self, w: int) -> Instruction:
        """The instructions of buffers that empty a cache: the emulator has none."""
        self.size = 2
        name = {43: "buffer_gl0_inv", 44: "buffer_gl1_inv"}.get(bits(w, 18, 8))
        if name is None:
            raise refused(self.at, "an access by a buffer descriptor", f"{w:08x}")
        return self.made("MUBUF", Row(name))


def _implicit(kind: str) -> Operand:
    """The operand that an instruction names by what it is."""
    if kind == "scc":
        return Operand("scc", 0, kind)
    return Operand("s", EXEC if kind == "exec" else VCC, "mask")
