"""Microcontrollers by name: 32-bit processors without a system, for which C is written."""

from __future__ import annotations

from collections.abc import Mapping

from tfn.extend import Op, Target, frozen

_LACKS = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND, Op.FMA, Op.LDEXP})


@frozen
class Core:
    """The compiler of a microcontroller, and the cycles of its operations.

    Attributes:
        tools: the beginning of the names of GCC's tools.
        flags: of the compiler.
        other: flags that are added for the core with another FPU, or without.
        cycles: of operations; others take one.
        fused: cycles that a product and an addition take less together.
    """

    tools: str
    flags: tuple[str, ...]
    other: tuple[str, ...]
    cycles: Mapping[Op, int]
    fused: int


def _target(triple: str, cpu: str) -> Target:
    """A core without vectors, whose memory is as fast as a cache of 64 KiB."""
    caches = 16 << 10, 64 << 10, 256 << 10
    return Target(triple, cpu, "", 4, 12, *caches, _LACKS, address_bits=32)


# fmt: off
MICROCONTROLLERS: dict[str, Target] = {
    "cortex-m0+": _target("thumbv6m-none-eabi",        "cortex-m0plus"),
    "cortex-m4":  _target("thumbv7em-none-eabi",       "cortex-m4"),
    "cortex-m7":  _target("thumbv7em-none-eabi",       "cortex-m7"),
    "cortex-m33": _target("thumbv8m.main-none-eabi",   "cortex-m33"),
    "cortex-m55": _target("thumbv8.1m.main-none-eabi", "cortex-m55"),
    "rv32imc":    _target("riscv32-unknown-elf",       "rv32imc"),
    "rv32imafc":  _target("riscv32-unknown-elf",       "rv32imafc"),
    "xtensa":     _target("xtensa-unknown-elf",        "xtensa"),
}
# fmt: on


def _cycles(load: int, store: int, branch: int, divide: int) -> dict[Op, int]:
    """Cycles of a core by the manual of its maker; conversions are part of loads and stores."""
    free = dict.fromkeys((Op.CONST, Op.PARAM, Op.CAST, Op.BITCAST, Op.ACCUMULATOR, Op.DOT), 0)
    divisions = dict.fromkeys((Op.FLOORDIV, Op.MOD, Op.DIV, Op.SQRT), divide)
    return {**free, **divisions, Op.LOAD: load, Op.STORE: store, Op.LOOP: 1, Op.END: branch}


def _arm(cpu: str, cycles: dict[Op, int], fused: int, fpu: str = "") -> Core:
    other = ("-mfloat-abi=hard", f"-mfpu={fpu}") if fpu else ()
    return Core("arm-none-eabi-", (f"-mcpu={cpu}", "-mthumb"), other, cycles, fused)


def _riscv(machine: str, abi: str) -> Core:
    flags = f"-march={machine}", f"-mabi={abi}"
    return Core("riscv64-unknown-elf-", flags, (), _cycles(2, 1, 4, 34), 0)


M55 = "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"
# fmt: off
CORES: dict[str, Core] = {
    "cortex-m0plus": _arm("cortex-m0plus", _cycles(2, 2, 4, 320), 0),
    "cortex-m4":     _arm("cortex-m4",     _cycles(2, 1, 5, 8), 1, "fpv4-sp-d16"),
    "cortex-m7":     _arm("cortex-m7",     _cycles(1, 1, 2, 8), 1, "fpv5-d16"),
    "cortex-m33":    _arm("cortex-m33",    _cycles(2, 1, 4, 8), 1, "fpv5-sp-d16"),
    "cortex-m55":    Core("arm-none-eabi-", M55, ("-mfloat-abi=soft",), _cycles(1, 1, 1, 8), 1),
    "rv32imc":       _riscv("rv32imc", "ilp32"),
    "rv32imafc":     _riscv("rv32imafc", "ilp32f"),
    "xtensa":        Core("xtensa-esp32-elf-", (), (), _cycles(2, 1, 1, 12), 0),
}
"""Compilers and cycles by the processor of a target.

Cycles are those of the manuals: Arm's technical references of the cores (loads of 2 cycles, fused
products and additions of 1, taken branches of 2 to 4 with the comparison and the count of a loop),
a RISC-V core of two stages, and Cadence's LX6.  Memory is taken to answer at once.
"""
# fmt: on


def core_of(target: Target) -> Core | None:
    """The compiler and cycles of a target; None if it is no microcontroller."""
    return CORES.get(target.cpu)
