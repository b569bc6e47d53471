"""The static linker: relocations against LLD and by running, errors, executables."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.errors import CompileError
from tfn.hw.compile.link import lld
from tfn.hw.compile.llvm import LlvmCompiler
from tfn.hw.cpu.target import named
from tfn.hw.dsp import commands, linker, monitor
from tfn.hw.dsp.linker import Image, filled, link, spread

COMPILER, TARGET = LlvmCompiler(), named("hexagon")
needs_qemu = pytest.mark.skipif(
    not shutil.which("qemu-hexagon"), reason="qemu-hexagon is not installed"
)
SYSCALL = """
@syscall = constant [3 x i32] [i32 -1851932666, i32 1409335300, i32 1386201088],
  section ".text.syscall", align 16
"""
TABLE = """
@table = constant [4 x i32] [i32 5, i32 7, i32 11, i32 13], section ".rodata"
@pointers = constant [2 x ptr] [ptr @table, ptr getelementptr (i32, ptr @table, i32 2)]
@vector = constant <32 x i32> splat (i32 3)
declare i32 @callee(i32)
define i32 @sum(i32 %i) {
  %at = getelementptr i32, ptr @table, i32 %i
  %x = load i32, ptr %at
  %second = load ptr, ptr getelementptr (ptr, ptr @pointers, i32 1)
  %y = load i32, ptr %second
  %v = load <32 x i32>, ptr @vector
  %z = extractelement <32 x i32> %v, i32 %i
  %w = call i32 @callee(i32 %x)
  %xy = add i32 %y, %w
  %all = add i32 %xy, %z
  ret i32 %all
}
"""
CALLEE = "define i32 @callee(i32 %x) {\n  %y = mul i32 %x, 305419896\n  ret i32 %y\n}\n"
START = (
    SYSCALL
    + """
declare i32 @sum(i32)
define void @_start() {
  %n = call i32 @sum(i32 3)
  %low = and i32 %n, 127
  %gone = call i32 @syscall(i32 %low, i32 0, i32 0, i32 0, i32 0, i32 0, i32 94)
  unreachable
}
"""
)


def compiled(*texts: str) -> list[bytes]:
    return [COMPILER.compile(text, TARGET) for text in texts]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_bits_are_spread_over_a_mask(mask: int, value: int) -> None:
    field = spread(mask, value)
    assert field & ~mask == 0
    places = [i for i in range(32) if mask >> i & 1]
    assert [field >> i & 1 for i in places] == [value >> k & 1 for k in range(len(places))]


@needs_qemu
def test_programs_run_in_the_emulator(tmp_path: Path) -> None:
    image = link(compiled(START, TABLE, CALLEE), 0x10_0000)
    path = tmp_path / "program"
    path.write_bytes(linker.executable(image, "_start"))
    path.chmod(0o700)
    status = subprocess.run(["qemu-hexagon", path], check=False).returncode
    assert status == (13 * 305419896 + 11 + 3) & 127


def sections(elf: bytes) -> dict[str, tuple[int, bytes]]:
    """Addresses and contents of the sections of an ELF file, by name."""
    start = struct.unpack_from("<I", elf, 32)[0]
    size, count, names = struct.unpack_from("<HHH", elf, 46)
    rows = [struct.unpack_from("<10I", elf, start + i * size) for i in range(count)]
    out = {}
    for name, kind, _, address, offset, length, *_ in rows:
        at = rows[names][4] + name
        if kind != 8:
            content = elf[offset : offset + length]
            out[elf[at : elf.index(b"\0", at)].decode()] = (address, content)
    return out


@pytest.mark.skipif(lld("elf") is None, reason="LLD is not installed")
def test_images_are_those_of_lld(tmp_path: Path) -> None:
    """At the addresses that this linker takes, LLD fills the same bits into every field."""
    text = (
        monitor.read_ir("arithmetic", folder=commands.FOLDER)
        + TABLE
        + CALLEE.replace("@callee", "@other")
    )
    (data,) = compiled(text.replace("declare i32 @callee(i32)", "").replace("@callee", "@other"))
    image = link([data], 0x10_0000)
    (tmp_path / "a.o").write_bytes(data)
    placed = linker.addresses([data], 0x10_0000)
    starts = [f"--section-start={name}={address:#x}" for name, address in placed.items()]
    command = [*(lld("elf") or []), "-static", "-e", "0", *starts, "a.o", "-o", "a.out"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    theirs = sections((tmp_path / "a.out").read_bytes())
    compared = 0
    for name, address in placed.items():
        where, content = theirs.get(name, (0, b""))
        if where == address and name != ".eh_frame":  # which LLD makes anew
            at = address - image.address
            assert image.data[at : at + len(content)] == content, name
            compared += len(content)
    assert compared > 2000


def test_the_first_definition_is_used() -> None:
    first, second = compiled(CALLEE, CALLEE.replace("305419896", "3"))
    assert link([first, second], 0).symbols["callee"] == link([first], 0).symbols["callee"]
    assert len(link([first, first], 0).data) == len(link([first], 0).data)


def test_undefined_symbols_are_named() -> None:
    with pytest.raises(CompileError, match="nothing defines callee"):
        link(compiled(TABLE), 0)


def test_fields_have_ranges() -> None:
    """A call reaches 8 MB in either direction, in whole instructions."""
    call, place = 0x5A00_4000, 0x4000_0000
    assert filled(1, call, place, place, "f") == call
    assert filled(1, call, place + 4, place, "f") == call | 2
    assert filled(1, call, place - 4, place, "f") == call | 0x01FF_3FFE
    for target in (place + (1 << 23), place - (1 << 23) - 4, place + 2):
        with pytest.raises(CompileError, match="f is too far away"):
            filled(1, call, target, place, "f")
    with pytest.raises(CompileError, match="does not know relocation 99"):
        filled(99, call, place, place, "f")


def test_other_files_are_refused() -> None:
    for data in (b"", b"\x7fELF\x01\x01" + bytes(60), COMPILER.compile(CALLEE, named("x86-64"))):
        with pytest.raises(CompileError, match="relocatable objects for Hexagon"):
            link([data], 0)


def test_an_executable_says_its_version() -> None:
    image = Image(0x10_0000, b"\0" * 8, {"_start": 0x10_0004}, 0x67)
    elf = linker.executable(image, "_start")
    assert struct.unpack_from("<I", elf, 24)[0] == 0x10_0004
    assert struct.unpack_from("<I", elf, 36)[0] == 0x67
    assert link(compiled(CALLEE), 0).flags & 0xFF == 0x67
