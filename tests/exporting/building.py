"""Builds exported C with the system's compilers, and runs it in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn

Arrays = list[np.ndarray[Any, Any]]
WARNINGS = ("-Wall", "-Wextra", "-Werror")
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
needs_cc = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "NAME.h"
#define ROOM(type, name, count) \\
  type *name = aligned_alloc(64, (sizeof(type) * (count) + 64) & ~63u);
#define READ(type, name, count) \\
  ROOM(type, name, count) \\
  if (fread(name, sizeof(type), count, stdin) != (count)) return 100; \\
  args.name = name;
#define WRITE(type, name, count) \\
  fwrite(args.name, sizeof(type), count, stdout);
#define MAKE(type, name, count) ROOM(type, name, count) args.name = name;
#define FREE(type, name, count) free(name);
int main(void) {
  NAME_args args = CAPITAL_ARGS;
  void *arena = aligned_alloc(64, (CAPITAL_ARENA_BYTES + 127) / 64 * 64);
  CAPITAL_INPUTS(READ)
  CAPITAL_OUTPUTS(MAKE)
  const int error = NAME(&args, arena);
  CAPITAL_OUTPUTS(WRITE)
  CAPITAL_INPUTS(FREE)
  CAPITAL_OUTPUTS(FREE)
  free(arena);
  return error;
}
"""
"""Reads the inputs, runs the function once, writes the outputs."""


def in_c(
    function: Callable[..., Any],
    *args: Any,
    folder: Path,
    compiler: Sequence[str],
    flags: Sequence[str] = ("-O2",),
    **options: Any,
) -> Arrays:
    """The results of a function as a C program that is built with these flags."""
    made = tfn.export(function, *args, path=folder / "made.c", **options)
    signature = made.signature
    main = MAIN.replace("NAME", signature.name).replace("CAPITAL", signature.name.upper())
    (folder / "main.c").write_text(main)
    build = [*compiler, *flags, "-ffp-contract=off", *WARNINGS, "made.c", "main.c", "-o", "made"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and "cannot find" in done.stderr and "libclang_rt" in done.stderr:
        pytest.skip("clang's sanitizers are not installed: apt install libclang-rt-dev")
    assert not done.returncode, done.stderr[:3000]
    data = b"".join(np.asarray(x).tobytes() for x in tfn.tree.leaves(args))
    ran = subprocess.run([folder / "made"], input=data, capture_output=True, check=False)
    assert not ran.returncode, (ran.returncode, ran.stderr.decode()[:3000])
    return split(ran.stdout, signature.outputs)


def emulated(function: Callable[..., Any], *args: Any, folder: Path, target: str) -> Arrays:
    """The results of a function as an object for another processor, run by qemu's emulator."""
    made = tfn.export(function, *args, path=folder / "made.o", target=target)
    signature = made.signature
    main = MAIN.replace("NAME", signature.name).replace("CAPITAL", signature.name.upper())
    (folder / "main.c").write_text(main)
    build = [f"{target}-linux-gnu-gcc", "-static", "main.c", "made.o", "-o", "made"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and "cannot find" in done.stderr and "libclang_rt" in done.stderr:
        pytest.skip("clang's sanitizers are not installed: apt install libclang-rt-dev")
    assert not done.returncode, done.stderr[:3000]
    data = b"".join(np.asarray(x).tobytes() for x in tfn.tree.leaves(args))
    command = [f"qemu-{target}", folder / "made"]
    ran = subprocess.run(command, input=data, capture_output=True, check=False)
    assert not ran.returncode, (ran.returncode, ran.stderr.decode()[:3000])
    return split(ran.stdout, signature.outputs)


def split(data: bytes, fields: Sequence[Any]) -> Arrays:
    """The arrays that a process has written one after the other."""
    found: Arrays = []
    at = 0
    for field in fields:
        part = data[at : at + field.size_bytes]
        found.append(np.frombuffer(part, field.dtype).reshape(field.shape))
        at += field.size_bytes
    assert at == len(data)
    return found


def same_bits(got: Any, want: Any, what: Any = "") -> None:
    """Raise unless two arrays are equal bit by bit, but for what a NaN carries."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, what
    nan = np.isnan(want.astype(float)) if want.dtype.kind in "fV" else np.zeros(want.shape, bool)
    if want.dtype.kind in "fV":
        assert (np.isnan(got.astype(float)) == nan).all(), what
    assert got[~nan].tobytes() == want[~nan].tobytes(), what


LOOP = """\
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include "made.h"
#define READ(type, name, count) \\
  type *name = malloc(sizeof(type) * (count) + 1); \\
  if (fread(name, sizeof(type), count, stdin) != (count)) return 100; \\
  args.name = name;
#define MAKE(type, name, count) \\
  if (!args.name) args.name = malloc(sizeof(type) * (count) + 1);
#define WRITE(type, name, count) fwrite(args.name, sizeof(type), count, stdout);
int main(void) {
  made_args args = MADE_ARGS;
  void *arena = aligned_alloc(64, (MADE_ARENA_BYTES + 127) / 64 * 64);
  MADE_INPUTS(READ)
SHARED
  MADE_OUTPUTS(MAKE)
  for (int i = 0; i < TIMES; ++i) {
    if (made(&args, arena)) return 1;
    MADE_OUTPUTS(WRITE)
COPIED
  }
  return 0;
}
"""
"""Runs the function many times, each time on the state that it has left: in place, or copied."""


def in_a_loop(
    function: Callable[..., Any],
    *args: Any,
    times: int,
    folder: Path,
    embed: Sequence[str] = (),
    carried: int = 0,
) -> list[Arrays]:
    """What each call of a C program gives; the first outputs are the first inputs of the next."""
    made = tfn.export(function, *args, path=folder / "made.c", embed=embed)
    signature = made.signature
    shared = [f"  args.{f.name} = {f.same};" for f in signature.outputs if f.same]
    pairs = zip(signature.outputs[:carried], signature.inputs)
    copied = [
        f"    memcpy((void *)args.{i.name}, args.{o.name}, {i.size_bytes});"
        for o, i in pairs
        if o.same != i.name
    ]
    main = LOOP.replace("SHARED", "\n".join(shared)).replace("TIMES", str(times))
    main = main.replace("COPIED", "\n".join(copied))
    (folder / "main.c").write_text(main)
    build = [COMPILERS[0], "-O1", "-ffp-contract=off", *WARNINGS, "made.c", "main.c", "-o", "made"]
    subprocess.run(build, cwd=folder, check=True)
    leaves = dict(zip([f.path for f in signature.inputs], tfn.tree.leaves(args[len(embed) :])))
    data = b"".join(np.asarray(x).tobytes() for x in leaves.values())
    ran = subprocess.run([folder / "made"], input=data, capture_output=True, check=True)
    size = len(ran.stdout) // times
    return [split(ran.stdout[i * size : (i + 1) * size], signature.outputs) for i in range(times)]


STEPS = """\
#include <stdio.h>
#include <stdlib.h>
#include "made.h"
#define MAKE(type, name, count) args.name = malloc(sizeof(type) * (count) + 1);
#define READ(type, name, count) \\
  if (fread((void *)args.name, sizeof(type), count, stdin) != (count)) return 100;
#define WRITE(type, name, count) fwrite(args.name, sizeof(type), count, stdout);
#define WRITE_STATE(type, name, count) fwrite(state.name, sizeof(type), count, stdout);
#define FREE(type, name, count) free((void *)args.name);
int main(void) {
  made_args args = MADE_ARGS;
  made_state state;
  void *arena = aligned_alloc(64, (MADE_ARENA_BYTES + 127) / 64 * 64);
  MADE_INPUTS(MAKE)
  MADE_OUTPUTS(MAKE)
  made_init(&state);
  for (int i = 0; i < TIMES; ++i) {
    MADE_INPUTS(READ)
    if (made_step(&args, &state, arena)) return 1;
    MADE_OUTPUTS(WRITE)
  }
  MADE_STATE(WRITE_STATE)
  MADE_INPUTS(FREE)
  MADE_OUTPUTS(FREE)
  free(arena);
  return 0;
}
"""
"""Writes a state as it is at first, then runs steps on inputs of their own."""


def in_steps(
    function: Callable[..., Any],
    state: Any,
    inputs: Sequence[Any],
    folder: Path,
    flags: Sequence[str] = ("-O1",),
    **options: Any,
) -> tuple[list[Arrays], Arrays]:
    """The outputs of each step of a C program whose first argument is carried; its last state."""
    example = inputs[0]
    made = tfn.export(function, state, example, path=folder / "made.c", carry=0, **options)
    signature = made.signature
    (folder / "main.c").write_text(STEPS.replace("TIMES", str(len(inputs))))
    build = [COMPILERS[0], *flags, "-ffp-contract=off", *WARNINGS, "made.c", "main.c", "-o", "made"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:3000]
    data = b"".join(np.asarray(x).tobytes() for step in inputs for x in tfn.tree.leaves(step))
    ran = subprocess.run([folder / "made"], input=data, capture_output=True, check=False)
    assert not ran.returncode, (ran.returncode, ran.stderr.decode()[:3000])
    kept = [x.field for x in signature.state]
    size = sum(x.size_bytes for x in signature.outputs)
    steps = [
        split(ran.stdout[i * size : (i + 1) * size], signature.outputs) for i in range(len(inputs))
    ]
    return steps, split(ran.stdout[len(inputs) * size :], kept)


BARE_MAIN = """\
#include "NAME.h"
/* Linux on RISC-V: the number of a call in a7, its operands from a0 on. */
static long call(long number, long a, const void *b, long c) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register const void *a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
}
static void fill(char *to, unsigned long size) {
  while (size) {
    const long n = call(63, 0, to, size);
    if (n <= 0) call(93, 100, 0, 0);
    to += n;
    size -= n;
  }
}
#define ROOM(type, name, count) static _Alignas(64) type name##_room[(count) + 1];
#define READ(type, name, count) \\
  fill((char *)name##_room, sizeof(type) * (count)); \\
  args.name = name##_room;
#define MAKE(type, name, count) args.name = name##_room;
#define WRITE(type, name, count) call(64, 1, name##_room, sizeof(type) * (count));
CAPITAL_INPUTS(ROOM)
CAPITAL_OUTPUTS(ROOM)
static _Alignas(64) char arena[CAPITAL_ARENA_BYTES + 1];
void _start(void) {
  static NAME_args args = CAPITAL_ARGS;
  CAPITAL_INPUTS(READ)
  CAPITAL_OUTPUTS(MAKE)
  const int error = NAME(&args, arena);
  CAPITAL_OUTPUTS(WRITE)
  call(93, error, 0, 0);
}
"""
"""The same as `MAIN` on a 32-bit processor, without any library."""

RISCV = "riscv64-linux-gnu-gcc"
needs_riscv32 = pytest.mark.skipif(
    not (shutil.which(RISCV) and shutil.which("qemu-riscv32")),
    reason="riscv64-linux-gnu-gcc or qemu-riscv32 is not installed: Debian's packages "
    "gcc-riscv64-linux-gnu and qemu-user",
)


def on_bare_metal(function: Callable[..., Any], *args: Any, folder: Path, **options: Any) -> Arrays:
    """The results of a function on a 32-bit microcontroller, linked with no library at all."""
    made = tfn.export(function, *args, path=folder / "made.c", target="rv32imc", **options)
    signature = made.signature
    main = BARE_MAIN.replace("NAME", signature.name).replace("CAPITAL", signature.name.upper())
    (folder / "main.c").write_text(main)
    machine = ["-march=rv32imc", "-mabi=ilp32", "-static", "-nostdlib", "-ffreestanding"]
    machine += ["-Wl,--no-relax"]  # nothing has set the register of small data
    build = [RISCV, *machine, "-Os", *WARNINGS, "made.c", "main.c", "-o", "made"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[:3000]
    data = b"".join(np.asarray(x).tobytes() for x in tfn.tree.leaves(args))
    command = ["qemu-riscv32", folder / "made"]
    ran = subprocess.run(command, input=data, capture_output=True, check=False)
    assert not ran.returncode, (ran.returncode, ran.stderr.decode()[:3000])
    return split(ran.stdout, signature.outputs)
