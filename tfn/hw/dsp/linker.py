"""Static linker for Hexagon: relocatable ELF objects become one image at a fixed address.

    objects:  .text .rodata  |  .text .rodata  |  ...       image:  code | constants
                 relocations and undefined symbols     ->           every field filled in

An object that holds a function a second time is no error, since the name of a kernel is a digest of
its text: the first one is used.

Source: Qualcomm Hexagon Application Binary Interface User Guide, on relocations; the masks of
fields that are not contiguous are those of the Hexagon V67 Programmer's Reference Manual, and of
LLD's `Hexagon.cpp`, which must give the same image.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tfn.errors import CompileError
from tfn.extend import frozen

MACHINE = 164  # EM_HEXAGON
PAGE_BYTES = 1 << 16
"""Pages of Hexagon Linux: a segment of a program begins at one."""
SECTION_ALIGNMENT = 128
"""Sections begin at a vector, at least: constants are loaded by aligned instructions."""

_RELOCATIONS, _SYMBOLS, _NO_BITS = 4, 2, 8  # types of sections
_ALLOCATED, _EXECUTABLE = 2, 4  # flags of sections
_ABSOLUTE = 0xFFF1
_GLOBAL, _WEAK = 1, 2
_PARSE_BITS = 0xC000
"""Bits of an instruction that say where its packet ends; both zero for two instructions in one."""
_DUPLEX_MASK = 0x03F0_0000

# By the first byte of an instruction, the bits of its field of 6 bits.
# fmt: off
_SIX_BITS: dict[int, int] = {
    0x38: 0x0000201F, 0x39: 0x0000201F, 0x3E: 0x00001F80, 0x3F: 0x00001F80,
    0x40: 0x000020F8, 0x41: 0x000007E0, 0x42: 0x000020F8, 0x43: 0x000007E0,
    0x44: 0x000020F8, 0x45: 0x000007E0, 0x46: 0x000020F8, 0x47: 0x000007E0,
    0x6A: 0x00001F80, 0x7C: 0x001F2000, 0x9A: 0x00000F60, 0x9B: 0x00000F60,
    0x9C: 0x00000F60, 0x9D: 0x00000F60, 0x9F: 0x001F0100, 0xAB: 0x0000003F,
    0xAD: 0x0000003F, 0xAF: 0x00030078, 0xD7: 0x006020E0, 0xD8: 0x006020E0,
    0xDB: 0x006020E0, 0xDF: 0x006020E0,
}
_SIXTEEN_BITS: dict[int, int] = {
    0x48: 0x061F20FF, 0x49: 0x061F3FE0, 0x78: 0x00DF3FE0, 0xB0: 0x0FE03FE0, 0x74: 0x00001FE0,
}
# fmt: on


def spread(mask: int, value: int) -> int:
    """The low bits of a value at the places of the bits of a mask.

    Example:
        >>> bin(spread(0b110010, 0b101))
        '0b100010'
    """
    out = position = 0
    while mask >> position:
        if mask >> position & 1:
            out |= (value & 1) << position
            value >>= 1
        position += 1
    return out


def _six(word: int) -> int | None:
    return _SIX_BITS.get(word >> 24) if word & _PARSE_BITS else _DUPLEX_MASK


def _eight(word: int) -> int:
    return {0xDE: 0x00E020E8, 0x3C: 0x0000207F}.get(word >> 24, 0x00001FE0)


def _eleven(word: int) -> int:
    return 0x060020FF if word >> 24 == 0xA1 else 0x06003FE0


def _sixteen(word: int) -> int | None:
    if not word & _PARSE_BITS:
        return _DUPLEX_MASK
    return _SIXTEEN_BITS.get(word >> 24) or _SIX_BITS.get(word >> 24)


class Relocation(NamedTuple):
    """A rule by which a field is filled.

    Attributes:
        relative: whether the address of the instruction's packet is subtracted.
        shift: bits of the value that are dropped; those of an extended instruction are its low 6.
        bits: of the field, for the check of its range; 0 if the high bits are elsewhere.
        mask: of the field; or a function of the instruction that it is in.
        low: whether the field holds the low 6 bits of a value whose rest is in an extender.
    """

    relative: bool
    shift: int
    bits: int
    mask: int | Callable[[int], int | None]
    low: bool = False


# fmt: off
RELOCATIONS: dict[int, Relocation] = {
    1:  Relocation(True, 2, 22, 0x01FF3FFE),                # B22_PCREL
    2:  Relocation(True, 2, 15, 0x00DF20FE),                # B15_PCREL
    3:  Relocation(True, 2, 7, 0x00001F18),                 # B7_PCREL
    4:  Relocation(False, 0, 0, 0x00C03FFF),                      # LO16
    5:  Relocation(False, 16, 0, 0x00C03FFF),                     # HI16
    6:  Relocation(False, 0, 0, 0xFFFFFFFF),                      # 32
    14: Relocation(True, 2, 13, 0x00202FFE),                # B13_PCREL
    15: Relocation(True, 2, 9, 0x003000FE),                 # B9_PCREL
    16: Relocation(True, 6, 0, 0x0FFF3FFF),                 # B32_PCREL_X
    17: Relocation(False, 6, 0, 0x0FFF3FFF),                      # 32_6_X
    18: Relocation(True, 0, 0, 0x01FF3FFE, low=True),       # B22_PCREL_X
    19: Relocation(True, 0, 0, 0x00DF20FE, low=True),       # B15_PCREL_X
    20: Relocation(True, 0, 0, 0x00202FFE, low=True),       # B13_PCREL_X
    21: Relocation(True, 0, 0, 0x003000FE, low=True),       # B9_PCREL_X
    22: Relocation(True, 0, 0, 0x00001F18, low=True),       # B7_PCREL_X
    23: Relocation(False, 0, 0, _sixteen, low=True),              # 16_X
    24: Relocation(False, 0, 0, 0x000007E0, low=True),            # 12_X
    25: Relocation(False, 0, 0, _eleven, low=True),               # 11_X
    26: Relocation(False, 0, 0, 0x00203FE0, low=True),            # 10_X
    27: Relocation(False, 0, 0, 0x00003FE0, low=True),            # 9_X
    28: Relocation(False, 0, 0, _eight, low=True),                # 8_X
    30: Relocation(False, 0, 0, _six, low=True),                  # 6_X
    31: Relocation(True, 0, 0, 0xFFFFFFFF),                 # 32_PCREL
    65: Relocation(True, 0, 0, _six, low=True),             # 6_PCREL_X
}
# fmt: on
"""Types of relocations, by number."""


@frozen
class Image:
    """Code and data at a fixed address.

    Attributes:
        address: of the first byte.
        data: the bytes.
        symbols: addresses of functions by name.
        flags: the version of the processor, as ELF says it.
    """

    address: int
    data: bytes
    symbols: dict[str, int]
    flags: int


@dataclass
class _Section:
    """A section of an object, and its address once it has one."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    address: int = 0


@dataclass
class _Object:
    data: bytes
    sections: list[_Section] = field(default_factory=list)
    symbols: list[tuple[str, int, int, int]] = field(default_factory=list)  # name value info home
    flags: int = 0

    def __post_init__(self) -> None:
        data = self.data
        if data[:6] != b"\x7fELF\x01\x01" or struct.unpack_from("<HH", data, 16) != (1, MACHINE):
            raise CompileError(
                "the linker needs relocatable objects for Hexagon",
                got=f"{len(data)} bytes that begin with {data[:8]!r}",
                hint="compile for the target hexagon",
            )
        start, self.flags = struct.unpack_from("<II", data, 32)
        size, count, names = struct.unpack_from("<HHH", data, 46)
        rows = [struct.unpack_from("<10I", data, start + i * size) for i in range(count)]
        for name, kind, flags, _, offset, length, *rest, _ in rows:
            text = _text(data, rows[names][4] + name)
            self.sections.append(_Section(text, kind, flags, offset, length, *rest))
        for section in self.sections:
            if section.kind == _SYMBOLS:
                names = self.sections[section.link].offset
                for at in range(section.offset, section.offset + section.size, 16):
                    name, value, _, info, _, home = struct.unpack_from("<IIIBBH", data, at)
                    self.symbols.append((_text(data, names + name), value, info, home))


def _text(data: bytes, at: int) -> str:
    """A name of a string table."""
    return data[at : data.index(b"\0", at)].decode()


def link(objects: Sequence[bytes], address: int) -> Image:
    """The image of objects at an address.

    Args:
        objects: relocatable ELF files; functions that several define are taken from the first.
        address: a multiple of 128.

    Raises:
        CompileError: for an undefined symbol, a relocation that is not known, or one out of range.
    """
    files = [_Object(data) for data in dict.fromkeys(objects)]
    placed, end = _place(files, address)
    symbols: dict[str, int] = {}
    for file in files:
        for name, value, info, home in file.symbols:
            if home and info >> 4 in (_GLOBAL, _WEAK):
                symbols.setdefault(name, _address(file, value, home))
    data = bytearray(end - address)
    for file, section in placed:
        if section.kind != _NO_BITS:
            begin = section.address - address
            data[begin : begin + section.size] = file.data[
                section.offset : section.offset + section.size
            ]
    for file in files:
        for section in file.sections:
            if section.kind == _RELOCATIONS:
                _relocate(file, section, symbols, data, address)
    flags = max((file.flags for file in files), default=0)
    return Image(address, bytes(data), symbols, flags)


def _place(files: Sequence[_Object], address: int) -> tuple[list[tuple[_Object, _Section]], int]:
    """Gives sections addresses, code first; returns those with one, and the end of the last."""
    placed = [(file, s) for file in files for s in file.sections if s.flags & _ALLOCATED]
    placed.sort(key=lambda row: not row[1].flags & _EXECUTABLE)
    for _, section in placed:
        alignment = max(section.alignment, SECTION_ALIGNMENT)
        section.address = -(-address // alignment) * alignment
        address = section.address + section.size
    return placed, address


def addresses(objects: Sequence[bytes], address: int) -> dict[str, int]:
    """Addresses of the sections of objects that are linked at an address, by name."""
    placed, _ = _place([_Object(data) for data in dict.fromkeys(objects)], address)
    return {section.name: section.address for _, section in placed}


def _address(file: _Object, value: int, home: int) -> int:
    return value if home == _ABSOLUTE else file.sections[home].address + value


def _relocate(
    file: _Object,
    table: _Section,
    symbols: dict[str, int],
    data: bytearray,
    address: int,
) -> None:
    """Fill the fields that one table of an object names."""
    section = file.sections[table.info]
    if not section.flags & _ALLOCATED:
        return
    for at in range(table.offset, table.offset + table.size, 12):
        offset, info, addend = struct.unpack_from("<IIi", file.data, at)
        name, value, binding, home = file.symbols[info >> 8]
        if binding >> 4 == 0:
            target = _address(file, value, home)
        elif name in symbols:
            target = symbols[name]
        else:
            raise CompileError(
                f"nothing defines {name}, which the code for the DSP calls",
                got=f"{len(symbols)} functions",
                hint="this is a fault of tfn, or of a kernel written by hand",
            )
        place = section.address + offset
        word = struct.unpack_from("<I", data, place - address)[0]
        word = filled(info & 255, word, target + addend, place, name)
        struct.pack_into("<I", data, place - address, word)


def filled(kind: int, word: int, target: int, place: int, name: str) -> int:
    """An instruction with its field filled.

    Args:
        kind: of relocation, as a number.
        word: the instruction.
        target: the address that it refers to.
        place: its own address.
        name: of what it refers to, for messages.

    Raises:
        CompileError: for a kind that is not known, or a target out of range.
    """
    row = RELOCATIONS.get(kind)
    mask = row.mask(word) if row and callable(row.mask) else row.mask if row else None
    if row is None or mask is None:
        raise CompileError(
            f"the linker does not know relocation {kind} of {name or 'a section'}",
            got=f"the instruction {word:#010x}",
            hint="this is a fault of tfn; ld.lld links the object",
        )
    assert not callable(mask)
    value = target - (place if row.relative else 0)
    if row.bits:
        limit = 1 << row.bits + row.shift - 1
        if not -limit <= value < limit or value & (1 << row.shift) - 1:
            raise CompileError(
                f"{name or 'a section'} is too far away for its relocation",
                got=f"a distance of {value:,} bytes, relocation {kind}",
                hint="split the program into smaller functions",
            )
    value = value & 63 if row.low else value >> row.shift
    return (word | spread(mask, value)) & 0xFFFFFFFF


def executable(image: Image, entry: str) -> bytes:
    """A static ELF program of one segment, which Linux or qemu-hexagon runs.

    Args:
        image: linked at the address of a page.
        entry: the function where it begins.
    """
    head = struct.pack(
        "<16sHHIIIIIHHHHHH",
        b"\x7fELF\x01\x01\x01",
        2,
        MACHINE,
        1,
        image.symbols[entry],
        52,
        0,
        image.flags,
        52,
        32,
        1,
        40,
        0,
        0,
    )
    size = len(image.data)
    segment = struct.pack(
        "<8I", 1, PAGE_BYTES, image.address, image.address, size, size, 7, PAGE_BYTES
    )
    return (head + segment).ljust(PAGE_BYTES, b"\0") + image.data
