"""Boards that qemu emulates: exported C on a Cortex-M, linked without any library, and measured.

The stack is painted before the call and looked at after it.  With `-icount shift=0` an instruction
takes a nanosecond, so that SysTick counts them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import tfn
from tests.exporting.building import WARNINGS, Arrays, split
from tfn.exporting import compilers
from tfn.extend import frozen

GCC = "arm-none-eabi-gcc"
needs_boards = pytest.mark.skipif(
    not (shutil.which(GCC) and shutil.which("qemu-system-arm")),
    reason="arm-none-eabi-gcc or qemu-system-arm is not installed: Debian's packages "
    "gcc-arm-none-eabi and qemu-system-arm",
)


@frozen
class Board:
    """A board of qemu's.

    Attributes:
        machine: its name there.
        flags: of the compiler, for its core.
        flash, flash_bytes: the memory of code.
        ram, ram_bytes: that of data; the stack begins at its end.
        hertz: of SysTick.
    """

    machine: str
    flags: tuple[str, ...]
    flash: int
    flash_bytes: int
    ram: int
    ram_bytes: int
    hertz: int


K, M, MHZ = 1 << 10, 1 << 20, 1_000_000
RAM, SRAM = 0x20000000, 0x01000000
M4 = ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
M33, M55 = ("-mcpu=cortex-m33",), ("-mcpu=cortex-m55", "-mfloat-abi=hard")
# fmt: off
BOARDS: dict[str, Board] = {
    "cortex-m0+": Board("microbit", ("-mcpu=cortex-m0plus",), 0, 256 * K, RAM, 16 * K, 16 * MHZ),
    "cortex-m4":  Board("mps2-an386", M4, 0, 4 * M, RAM, 4 * M, 25 * MHZ),
    "cortex-m7":  Board("mps2-an500", ("-mcpu=cortex-m7",), 0, 4 * M, RAM, 4 * M, 25 * MHZ),
    "cortex-m33": Board("mps2-an505", M33, 0x10000000, 4 * M, 0x38000000, 4 * M, 20 * MHZ),
    "cortex-m55": Board("mps3-an547", M55, 0, 512 * K, SRAM, 2 * M, 32 * MHZ),
}
# fmt: on
"""By the name of the core as a target of `tfn.export`."""

SCRIPT = """\
MEMORY { FLASH (rx) : ORIGIN = FLASH_AT, LENGTH = FLASH_BYTES
         RAM (rw) : ORIGIN = RAM_AT, LENGTH = RAM_BYTES }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.*) . = ALIGN(8); } > FLASH
  .data : { data_start = .; *(.data*) . = ALIGN(4); data_end = .; } > RAM AT > FLASH
  data_load = LOADADDR(.data);
  .bss (NOLOAD) : { *(.bss*) *(COMMON) . = ALIGN(8); stack_limit = .; } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""
MAIN = """\
#include "made.h"
extern uint32_t data_load[], data_start[], data_end[], stack_limit[], stack_top[];
static int semihost(int operation, const void *operands) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = operands;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}
static uint32_t console;
static void put(const void *data, uint32_t size) {
  const void *operands[] = {(void *)console, data, (void *)size};
  semihost(5, operands);
}
DATA
#define ROOM(type, name, count) static _Alignas(64) type name##_room[(count) + 1];
#define READ(type, name, count) args.name = (type *)name##_data;
#define MAKE(type, name, count) args.name = name##_room;
#define WRITE(type, name, count) put(name##_room, sizeof(type) * (count));
#define WRITE_STATE(type, name, count) put(state.name, sizeof(type) * (count));
MADE_OUTPUTS(ROOM)
static _Alignas(64) char arena[MADE_ARENA_BYTES + 1];
KEPT
static volatile uint32_t *const systick = (volatile uint32_t *)0xe000e010;
static made_args args = MADE_ARGS;
static int __attribute__((noinline)) measured(uint32_t *figures) {
  uint32_t *top;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  for (volatile uint32_t *at = stack_limit; at < (volatile uint32_t *)top; ++at) *at = 0xa5a5a5a5u;
  systick[1] = 0xffffff;
  systick[2] = 0;
  systick[0] = 5;
  const int error = CALL;
  figures[1] = 0xffffff - systick[2];
  uint32_t *at = stack_limit;
  while (at < top && *at == 0xa5a5a5a5u) ++at;
  figures[0] = (uint32_t)((char *)top - (char *)at);
  return error;
}
#if __GNUC__
__attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif
static void start(void) {
  for (uint32_t *from = data_load, *to = data_start; to < data_end;) *to++ = *from++;
  static const uint32_t opened[] = {(uint32_t)":tt", 4, 3};
  console = semihost(1, opened);
#if __ARM_FP || __ARM_FEATURE_MVE
  *(volatile uint32_t *)0xe000ed88 = 0xf << 20;
#endif
  MADE_INPUTS(READ)
  MADE_OUTPUTS(MAKE)
  static uint32_t figures[2];
  BEFORE
  const int error = measured(figures);
  put(figures, sizeof figures);
  MADE_OUTPUTS(WRITE)
  AFTER
  const int end[] = {0x20026, error};
  semihost(0x20, end);
}
__attribute__((section(".vectors"), used)) static const void *const vectors[] = {stack_top, start};
"""
CALL = {"CALL": "made(&args, arena)", "KEPT": "", "BEFORE": "", "AFTER": ""}
STEP = {
    "CALL": "made_step(&args, &state, arena)",
    "KEPT": "static made_state state;",
    "BEFORE": "made_init(&state);\n  if (made_step(&args, &state, arena)) return;",
    "AFTER": "MADE_STATE(WRITE_STATE)",
}
"""A call, or the second of two steps on the same inputs, with its state behind its outputs."""


@frozen
class Measured:
    """A call on a board.

    Attributes:
        outputs: of the function.
        exported: what was written, for its figures.
        stack_bytes: that the call touched.
        instructions: of the call, to within 40.
        code_bytes, constant_bytes: of the object.
    """

    outputs: Arrays
    exported: Any
    stack_bytes: int
    instructions: int
    code_bytes: int
    constant_bytes: int


def on_board(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    target: str,
    flags: Sequence[str] = ("-Os",),
    libraries: Sequence[str] = (),
    at_all_levels: bool = False,
    **options: Any,
) -> Measured:
    """A call of an exported function on the board of a core.

    Its stack is stated for the level of optimization in `flags`, which takes less time than all.
    """
    board = BOARDS[target]
    levels = dict.fromkeys(("-Os", *(flag for flag in flags if flag.startswith("-O"))))
    with patch.object(compilers, "LEVELS", compilers.LEVELS if at_all_levels else tuple(levels)):
        exported = tfn.export(function, *args, path=folder / "made.c", target=target, **options)
    signature, embedded = exported.signature, set(options.get("embed", ()))
    assert all(isinstance(at, int) for at in embedded)
    embedded |= {options["carry"]} if "carry" in options else set()
    fields = (*signature.outputs, *(x.field for x in signature.state))
    leaves = tfn.tree.leaves([x for i, x in enumerate(args) if i not in embedded])
    data = [
        f"static const _Alignas(64) unsigned char {field.name}_data[] = {{"
        f"{','.join(map(str, np.asarray(x).tobytes()))}}};"
        for field, x in zip(signature.inputs, leaves, strict=True)
    ]
    texts = {"DATA": "\n".join(data), **(STEP if signature.state else CALL)}
    main = re.sub("|".join(texts), lambda found: texts[found[0]], MAIN)
    (folder / "main.c").write_text(main)
    script = SCRIPT.replace("FLASH_AT", hex(board.flash)).replace("RAM_AT", hex(board.ram))
    script = script.replace("FLASH_BYTES", str(board.flash_bytes))
    script = script.replace("RAM_BYTES", str(board.ram_bytes))
    (folder / "board.ld").write_text(script)
    build = [GCC, *board.flags, *flags, "-mthumb", "-ffreestanding", "-ffp-contract=off", *WARNINGS]
    _run([*build, "-c", "made.c"], folder)
    link = ["-O1", "made.o", "main.c", "-nostdlib", "-T", "board.ld", *libraries, "-o", "made.elf"]
    _run([*build, *link], folder)
    machine = ["qemu-system-arm", "-M", board.machine, "-display", "none", "-monitor", "none"]
    how = [
        "-serial",
        "none",
        "-semihosting-config",
        "enable=on,target=native",
        "-icount",
        "shift=0",
    ]
    out = _run([*machine, *how, "-kernel", "made.elf"], folder)
    stack, ticks = np.frombuffer(out[:8], np.uint32).tolist()
    text = _run(["arm-none-eabi-size", "-A", "made.o"], folder).decode()
    sizes = [(n, int(size)) for n, size in re.findall(r"^(\.\S+)\s+(\d+)", text, re.MULTILINE)]
    code = sum(size for name, size in sizes if name.startswith(".text"))
    constants = sum(size for name, size in sizes if name.startswith(".rodata"))
    instructions = ticks * 1_000_000_000 // board.hertz
    return Measured(split(out[8:], fields), exported, stack, instructions, code, constants)


def _run(command: Sequence[str], folder: Path) -> bytes:
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    assert not done.returncode, (done.returncode, done.stderr.decode()[:3000])
    return done.stdout
