"""Code objects: the linker and loader for what LLVM's backend for AMD's GPUs writes.

An object file has one relocation for each kernel, from its descriptor to its first instruction, and
others where code reads constants.  Linked, all parts lie in one block of memory::

    .rodata     descriptors, 64 bytes each: sizes of memory, the place of the entry, registers
    .text       code, at a multiple of 256 bytes

A relocation, a section or a property of a kernel that is not understood is refused by its name.

Source: User Guide for AMDGPU Backend, llvm.org: code objects of version 6, kernel descriptors.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tfn.errors import CompileError
from tfn.extend import frozen

MACHINES = {0x41: "gfx1100", 0x4E: "gfx1201", 0x4C: "gfx942"}
"""Architectures by the lowest byte of an ELF's flags."""
ELF_MACHINE, ELF_SYSTEM, ELF_VERSION = 224, 64, 4
DESCRIPTOR_BYTES, CODE_ALIGNMENT = 64, 256

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_DESCRIPTOR = struct.Struct("<III4xq20xIIIHH4x")
_ALLOCATED, _NO_BITS, _RELA, _SYMBOLS = 2, 8, 4, 2
# fmt: off
_RELATIVE = {
    4: ("I", 0), 5: ("Q", 0),      # REL32, REL64
    10: ("I", 0), 11: ("I", 32),   # REL32_LO, REL32_HI
}
"""Relocations: how a distance is written, and the bits that are dropped below."""
# fmt: on
_KERNARG_POINTER, _WAVE32 = 1 << 3, 1 << 10
_KNOWN_PROPERTIES = _KERNARG_POINTER | _WAVE32


@frozen
class Kernel:
    """A kernel of a code object, as its descriptor says.

    Attributes:
        name: of the function.
        entry, size: the place of its code, and the bytes of that.
        group_bytes, private_bytes, kernarg_bytes: memory of a group, of a thread, of arguments.
        user_registers: the scalar registers before that with the number of the group.
        groups_by: the axes of which the number of the group is known, x the lowest bit.
        waves_of: the lanes of a wave.
    """

    name: str
    entry: int
    size: int
    group_bytes: int
    private_bytes: int
    kernarg_bytes: int
    user_registers: int
    groups_by: int
    waves_of: int


@frozen
class Image:
    """A linked code object.

    Attributes:
        architecture: of its code.
        data: what is to be loaded, at a multiple of 256 bytes; all distances hold wherever.
        kernels: by name.
    """

    architecture: str
    data: bytes
    kernels: Mapping[str, Kernel]

    def code(self, kernel: Kernel) -> bytes:
        """The code of a kernel."""
        return self.data[kernel.entry : kernel.entry + kernel.size]


def _refused(what: str, got: str) -> CompileError:
    return CompileError(
        f"the linker for AMD's GPUs does not understand {what}",
        got=got,
        hint="objects of LLVM's amdgcn backend, code object version 6, are understood",
    )


@frozen
class _Section:
    """A section of an ELF file."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


@frozen
class _Symbol:
    """A symbol: its name, the number of its section, its value and its size."""

    name: str
    section: int
    value: int
    size: int


def linked(data: bytes) -> Image:
    """An object file, linked.

    Raises:
        CompileError: for a file of another kind, or with a part that is not understood.
    """
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise _refused("a file that is no ELF of 64 bits", repr(data[:6]))
    machine, flags = struct.unpack_from("<H", data, 18)[0], struct.unpack_from("<I", data, 48)[0]
    system = data[7], data[8]
    if machine != ELF_MACHINE or system != (ELF_SYSTEM, ELF_VERSION):
        raise _refused("an ELF of another machine", f"machine {machine}, system {system}")
    if flags & 0xFF not in MACHINES:
        raise _refused("the architecture of a code object", f"flags {flags:#x}")
    sections = _sections(data)
    places, image = _laid_out(data, sections)
    symbols = _symbols(data, sections)
    for section in sections:
        if section.kind == _RELA and section.info in places:
            _relocate(data, section, symbols, places, image)
    kernels = {}
    by_name = {s.name: s for s in symbols if s.name and s.section in places}
    for name, symbol in by_name.items():
        if name.endswith(".kd"):
            at = places[symbol.section] + symbol.value
            code = by_name.get(name[:-3])
            if code is None:
                raise _refused("a descriptor without a function", name)
            kernels[name[:-3]] = _kernel(code, bytes(image[at : at + DESCRIPTOR_BYTES]), at)
    return Image(MACHINES[flags & 0xFF], bytes(image), kernels)


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    if table + count * _SECTION.size > len(data):
        raise _refused("an ELF whose sections pass its end", f"{len(data)} bytes")
    rows = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    strings = rows[names][4]

    def section(row: tuple[int, ...]) -> _Section:
        name, kind, flags, _, offset, size, link, info, alignment, _ = row
        return _Section(
            _text(data, strings + name), kind, flags, offset, size, link, info, alignment
        )

    return [section(row) for row in rows]


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _laid_out(data: bytes, sections: list[_Section]) -> tuple[dict[int, int], bytearray]:
    """The places of the sections that are loaded, and their bytes."""
    places, image = {}, bytearray()
    for number, section in enumerate(sections):
        loaded = section.flags & _ALLOCATED and section.name != ".note"
        if not loaded or not section.size:
            continue
        if not section.name.startswith((".text", ".rodata", ".data.rel.ro")):
            raise _refused("a section", section.name)
        alignment = max(section.alignment, CODE_ALIGNMENT if section.name == ".text" else 64)
        image += bytes(-len(image) % alignment)
        places[number] = len(image)
        is_zero = section.kind == _NO_BITS
        content = data[section.offset : section.offset + section.size]
        image += bytes(section.size) if is_zero else content
    return places, image


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    found = []
    for section in sections:
        if section.kind == _SYMBOLS:
            strings = sections[section.link].offset
            for i in range(section.size // _SYMBOL.size):
                row = _SYMBOL.unpack_from(data, section.offset + i * _SYMBOL.size)
                name, _, _, number, value, size = row
                found.append(_Symbol(_text(data, strings + name), number, value, size))
    return found


def _relocate(
    data: bytes,
    section: _Section,
    symbols: list[_Symbol],
    places: dict[int, int],
    image: bytearray,
) -> None:
    """Write the distances of a section of relocations."""
    for i in range(section.size // _RELOCATION.size):
        row = _RELOCATION.unpack_from(data, section.offset + i * _RELOCATION.size)
        offset, kind, number, addend = row
        symbol = symbols[number]
        if kind not in _RELATIVE:
            raise _refused("a relocation", f"kind {kind}, for {symbol.name}")
        if symbol.section not in places:
            raise _refused("a symbol that is defined nowhere", symbol.name)
        at = places[section.info] + offset
        target = places[symbol.section] + symbol.value + addend
        form, shift = _RELATIVE[kind]
        width = struct.calcsize(form)
        struct.pack_into(f"<{form}", image, at, (target - at) >> shift & (1 << 8 * width) - 1)


def _kernel(code: _Symbol, descriptor: bytes, at: int) -> Kernel:
    """A kernel from its descriptor at a place."""
    group, private, kernarg, entry, _, _, second, properties, preloaded = _DESCRIPTOR.unpack(
        descriptor
    )
    if properties & ~_KNOWN_PROPERTIES or preloaded:
        got = f"properties {properties:#x}, preloaded {preloaded:#x}"
        raise _refused(f"what the kernel {code.name} asks of its launch", got)
    return Kernel(
        code.name,
        at + entry,
        code.size,
        group,
        private,
        kernarg,
        user_registers=second >> 1 & 31,
        groups_by=second >> 7 & 7,
        waves_of=32 if properties & _WAVE32 else 64,
    )
