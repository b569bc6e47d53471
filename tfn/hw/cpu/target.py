"""CPU targets: this machine's, detected, and others by name for cross-compilation."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

from tfn.config import config, watch
from tfn.dtypes import FLOATS, INT64, UINT64
from tfn.errors import ArgumentError, DeviceError
from tfn.hw.compile.llvm import binding, uninterrupted
from tfn.lower.target.target import Target
from tfn.trace.op import Op

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNIT_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Per architecture, widest vectors first: the feature that has them, bytes, registers.
# fmt: off
_VECTORS: dict[str, tuple[tuple[str, int, int], ...]] = {
    "x86_64":  (("avx512f", 64, 32), ("avx", 32, 16), ("sse2", 16, 16)),
    "aarch64": (("neon", 16, 32),),
    "arm64":   (("neon", 16, 32),),
}
_X86 = "x86_64-unknown-linux-gnu"
_V2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
_HVX = "+hvxv67,+hvx-length128b"
_ROUNDS = frozenset({Op.FLOOR, Op.CEIL, Op.ROUND})
_FUSES = frozenset({Op.FMA})
_SCALES = frozenset({Op.LDEXP})
_MULTIPLIES = frozenset({Op.MMA})
_CONVERTS = frozenset({Op.CAST})
_SYS_ARCH_PRCTL = 158  # the number of the system call
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18

UNUSED_FEATURES = frozenset({"sse4a"})
"""Features of processors that code is not generated for.

LLVM picks lanes by INSERTQ of SSE4a, which has no form of AVX: beside vectors of AVX, each takes
some 100 ns on AMD's Zen 3.  2,569 sums of 6 products of bytes took 330 us, and take 6 without.
"""

LANE_BYTES = {32: 2}
"""The narrowest lane by the bytes of a vector, where it is not that of other targets.

Bytes of AVX2 in 16 lanes instead of 8: erosion of 294 by 128 took 9.8 us, and takes 6.1; in 32
lanes 4.6, but a step of Life on 64 by 256 two and a half times as long.
"""

TARGETS: dict[str, Target] = {
    "x86-64":    Target(_X86, "x86-64", "", 16, 16, lacks=_ROUNDS | _FUSES | _SCALES),
    "x86-64-v2": Target(_X86, "x86-64-v2", _V2, 16, 16, lacks=_FUSES | _SCALES),
    "x86-64-v3": Target(_X86, "x86-64-v3", _V3, 32, 16, lacks=_SCALES | _CONVERTS, lane_bytes=2),
    "x86-64-v4": Target(_X86, "x86-64-v4", _V4, 64, 32, lacks=frozenset()),
    "aarch64":   Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32),
    "riscv64":   Target("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c", 16, 16,
                        lacks=_ROUNDS | _SCALES),
    "hexagon":   Target("hexagon-unknown-linux-musl", "hexagonv67", _HVX, 128, 32, 32 << 10,
                        1 << 20, 1 << 20, _ROUNDS | _SCALES,
                        scalars=FLOATS | {INT64, UINT64}, lane_bytes=1, address_bits=32),
    "wasm32":    Target("wasm32-unknown-unknown", "", "+simd128", 16, 16,
                        lacks=_FUSES | _SCALES, address_bits=32),
    "wasm32-mvp": Target("wasm32-unknown-unknown", "mvp", "", 4, 16,
                        lacks=_FUSES | _SCALES, address_bits=32),
}
"""Processors by name, for cross-compilation."""
# fmt: on


def named(name: str) -> Target:
    """A target of `TARGETS`, or ``host``, for which this process compiles.

    Raises:
        ArgumentError: for a name that is not there.

    Example:
        >>> named("x86-64-v3").vector_bytes
        32
    """
    if name == "host":
        return host()
    if name not in TARGETS:
        raise ArgumentError(
            f"there is no target {name!r}", hint="targets are host, " + ", ".join(TARGETS)
        )
    return TARGETS[name]


def requested(target: object, default: Target) -> Target:
    """The target that a user asks for: a `Target`, the name of one, or the default if None.

    Raises:
        ArgumentError: for something else, or a name that no target has.

    Example:
        >>> requested("x86-64-v3", host()).vector_bytes, requested(None, host()) is host()
        (32, True)
    """
    if target is None:
        return default
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        return configured(named(target))
    raise ArgumentError(
        "a target is a tfn.Target or the name of one",
        got=f"target={target!r}"[:80],
        hint="targets are host, " + ", ".join(TARGETS),
    )


def configured(target: Target) -> Target:
    """The target as the settings want it: a processor may be `batch_invariant`, a grid never is.

    Example:
        >>> configured(named("x86-64-v3")).batch_invariant
        False
    """
    return replace(target, batch_invariant=config.batch_invariant and target.grid is None)


def cache_bytes(folder: Path = _CACHES) -> dict[int, int]:
    """Bytes of the data cache of each level, as Linux reports them; empty elsewhere."""
    sizes = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = (index / "size").read_text().strip()
            if kind != "Instruction":
                sizes[level] = int(size.rstrip("KMG")) * _UNIT_BYTES.get(size[-1], 1)
        except (OSError, ValueError):  # some virtual machines lack a few of the files
            continue
    return sizes


def vectors(architecture: str, features: dict[str, bool]) -> tuple[int, int]:
    """Bytes of a vector register, and the number of registers."""
    for feature, size_bytes, registers in _VECTORS.get(architecture, ()):
        if features.get(feature):
            return size_bytes, registers
    return 16, 16


@cache
def host() -> Target:
    """The processor that this process compiles for: this machine's, or the one of `config.target`.

    Raises:
        ArgumentError: if `config.target` is the name of no target.
        DeviceError: if this machine cannot run code for it.
    """
    name = config.target
    watch(lambda: _keep(name))
    return machine() if name == "host" else _as_if(named(name), name)


def _keep(name: str) -> None:
    """Refuses to change `config.target` once there is code for the target of that name."""
    if config.target != name:
        got, config.target = config.target, name
        raise ArgumentError(
            "config.target cannot change once the CPU device is in use",
            got=f"{got!r} after {name!r}",
            hint="assign it before the first program, or set TFN_TARGET in the environment",
        )


def _as_if(target: Target, name: str) -> Target:
    """A target of `TARGETS` on this machine: with its system, and its caches."""
    here = machine()
    features = set(here.features.split(","))
    missing = [f for f in target.features.split(",") if f and f not in features]
    if missing or target.triple.split("-")[0] != here.triple.split("-")[0]:
        raise DeviceError(
            f"this machine cannot run code for {name}",
            got=f"config.target={name!r}; {here.cpu} lacks {', '.join(missing) or target.triple}",
            hint="export for another machine with tfn.export(..., target=...)",
        )
    return replace(
        target,
        triple=here.triple,
        l1_bytes=here.l1_bytes,
        l2_bytes=here.l2_bytes,
        l3_bytes=here.l3_bytes,
    )


@cache
def machine() -> Target:
    """The machine that this process runs on, with all that its processor has."""
    llvm = binding()
    triple, cpu, features = uninterrupted(
        lambda: (
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features(),
        )
    )
    features.update(dict.fromkeys(UNUSED_FEATURES.intersection(features), False))
    architecture = triple.split("-")[0]
    vector_bytes, vector_registers = vectors(architecture, features)
    sizes = cache_bytes()
    plain = Target(triple, "", "")
    return Target(
        triple,
        cpu,
        features.flatten(),
        vector_bytes,
        vector_registers,
        sizes.get(1, plain.l1_bytes),
        sizes.get(2, plain.l2_bytes),
        sizes.get(3, plain.l3_bytes),
        _lacks(architecture, features),
        lane_bytes=LANE_BYTES.get(vector_bytes, plain.lane_bytes),
    )


def _may_use_tiles() -> bool:
    """Asks Linux for the tile registers of AMX, once for all threads of a process.

    Returns:
        Whether they may be used.  Where they are refused, the target has no matrix unit.

    Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if sys.platform != "linux":
        return False
    try:
        return not ctypes.CDLL(None).syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)
    except (OSError, AttributeError):
        return False


def _lacks(architecture: str, features: dict[str, bool]) -> frozenset[Op]:
    """Operations for which the processor has no instruction."""
    needs = {
        "x86_64": (("sse4.1", _ROUNDS), ("fma", _FUSES), ("avx512f", _SCALES)),
        "riscv64": (("zfa", _ROUNDS), ("", _SCALES)),
    }
    rows = needs.get(architecture, (("", _SCALES),))
    if not (features.get("amx-tile") and architecture == "x86_64" and _may_use_tiles()):
        rows = (*rows, ("", _MULTIPLIES))
    if features.get("avx2") and architecture == "x86_64":  # two lanes of SSE gain nothing
        rows = (*rows, ("avx512dq", _CONVERTS))
    return frozenset().union(*(ops for feature, ops in rows if not features.get(feature)))
