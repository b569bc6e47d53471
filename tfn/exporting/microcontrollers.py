"""Microcontrollers by name: 32-bit processors without a system, for which C is written."""

from __future__ import annotations

from tfn.extend import Op, Target

_LACKS = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND, Op.FMA, Op.LDEXP})


def _core(triple: str, cpu: str) -> Target:
    """A core without vectors, whose memory is as fast as a cache of 64 KiB."""
    caches = 16 << 10, 64 << 10, 256 << 10
    return Target(triple, cpu, "", 4, 12, *caches, _LACKS, address_bits=32)


# fmt: off
MICROCONTROLLERS: dict[str, Target] = {
    "cortex-m0+": _core("thumbv6m-none-eabi",        "cortex-m0plus"),
    "cortex-m4":  _core("thumbv7em-none-eabi",       "cortex-m4"),
    "cortex-m7":  _core("thumbv7em-none-eabi",       "cortex-m7"),
    "cortex-m33": _core("thumbv8m.main-none-eabi",   "cortex-m33"),
    "cortex-m55": _core("thumbv8.1m.main-none-eabi", "cortex-m55"),
    "rv32imc":    _core("riscv32-unknown-elf",       "rv32imc"),
    "rv32imafc":  _core("riscv32-unknown-elf",       "rv32imafc"),
    "xtensa":     _core("xtensa-unknown-elf",        "xtensa"),
}
# fmt: on
