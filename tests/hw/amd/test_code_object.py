"""The linker for AMD's GPUs: what it links, what it refuses, and what LLVM's tools read in it."""

from __future__ import annotations

import struct
from functools import cache

import pytest

from tests.hw.amd.devices import TARGET
from tests.lower.graphs import jaxpr, p
from tfn.errors import CompileError
from tfn.hw.amd.code_object import CODE_ALIGNMENT, linked
from tfn.hw.amd.compiler import AmdCompiler
from tfn.lower import pipeline


@cache
def objects() -> dict[str, bytes]:
    """The object of a program of two kernels, which is one, by their names."""
    kernels = pipeline.lower(jaxpr([p(0, 300) * 2.0, p(1, 64) + 1.0]), TARGET).kernels
    return dict(
        zip([k.name for k in kernels], AmdCompiler().compile_all([k.text for k in kernels], TARGET))
    )


def test_all_kernels_of_an_object_are_linked() -> None:
    (data,) = set(objects().values())
    image = linked(data)
    assert set(image.kernels) == set(objects())
    for kernel in image.kernels.values():
        assert kernel.entry % CODE_ALIGNMENT == 0 and kernel.waves_of == 32
        assert image.code(kernel)[-4:] == b"\x00\x00\xb0\xbf"  # s_endpgm


def edited(at: int, form: str, value: int) -> bytes:
    data = bytearray(next(iter(objects().values())))
    struct.pack_into(form, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (1, "<B", 0, "no ELF of 64 bits"),
        (4, "<B", 1, "no ELF of 64 bits"),
        (18, "<H", 62, "an ELF of another machine"),
        (7, "<B", 0, "an ELF of another machine"),
        (48, "<I", 0x36, "the architecture of a code object"),
        (40, "<Q", 1 << 40, "an ELF whose sections pass its end"),
    ],
)
def test_a_damaged_header_is_refused(at: int, form: str, value: int, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        linked(edited(at, form, value))


def _section(data: bytes, wanted: str) -> tuple[int, int]:
    """The place and the size of a section."""
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    for row in rows:
        begin = rows[names][4] + row[0]
        if data[begin : data.index(b"\0", begin)].decode() == wanted:
            return row[4], row[5]
    raise AssertionError(wanted)


@pytest.mark.parametrize(
    ("section", "offset", "form", "value", "message"),
    [
        (".rela.rodata", 8, "<I", 9, "a relocation"),
        (".rodata", 56, "<H", 1 << 1, "asks of its launch"),  # a pointer to the dispatch
        (".rodata", 58, "<H", 4, "asks of its launch"),  # arguments in registers
    ],
)
def test_a_damaged_descriptor_is_refused(
    section: str, offset: int, form: str, value: int, message: str
) -> None:
    data = next(iter(objects().values()))
    place, _ = _section(data, section)
    with pytest.raises(CompileError, match=message):
        linked(edited(place + offset, form, value))
