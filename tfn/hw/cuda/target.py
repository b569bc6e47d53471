"""CUDA targets: NVIDIA's GPUs as data, by compute capability, for machines that have none.

A device that is present says most of its numbers itself (`driver.target_of`); its row here says
what no driver does: the architecture of its code, its matrix units, its bandwidth.

Source: CUDA C++ Programming Guide, tables of compute capabilities; PTX ISA, mma and wgmma; data
sheets of A100, H100 and B200 for cores, caches and bandwidths.
"""

from __future__ import annotations

from dataclasses import replace

from tfn.errors import DeviceError
from tfn.extend import Grid, Op, Target
from tfn.lower.target.grid import GridMatrixUnit

TRIPLE = "nvptx64-nvidia-cuda"

MIN_CAPABILITY = 8, 0
"""Earlier chips lack ``max.NaN``, ``cp.async`` and matrix units of bfloat16."""

_WARP_UNITS = (
    GridMatrixUnit("bfloat16", 16, 8, 16),
    GridMatrixUnit("float16", 16, 8, 16),
    GridMatrixUnit("float32", 16, 8, 8),
    GridMatrixUnit("int8", 16, 8, 32),
)
"""``mma.sync`` of a warp; that of float32 rounds operands to 10 bits of mantissa (tf32)."""

_WARP_GROUP_UNITS = (
    GridMatrixUnit("bfloat16", 64, 256, 16, warps=4),
    GridMatrixUnit("float16", 64, 256, 16, warps=4),
    GridMatrixUnit("float32", 64, 256, 8, warps=4),
    GridMatrixUnit("int8", 64, 256, 32, warps=4),
)
"""``wgmma`` of four warps, which only sm_90a has."""


def _target(
    cpu: str,
    cores: int,
    memory_gb_s: int,
    l2_bytes: int,
    local_bytes: int,
    units: tuple[GridMatrixUnit, ...] = _WARP_UNITS,
    core_threads: int = 2048,
) -> Target:
    grid = Grid(
        local_bytes=local_bytes,
        cores=cores,
        memory_gb_s=memory_gb_s,
        copies_asynchronously=True,
        loads_matrices=True,
        exchanges=True,
        matrix_units=units,
        core_threads=core_threads,
    )
    return Target(
        TRIPLE,
        cpu,
        "",
        vector_bytes=4,  # a thread computes one element; neighbours load together
        l2_bytes=l2_bytes,
        l3_bytes=l2_bytes,
        lacks=frozenset({Op.LDEXP, Op.MMA}),
        grid=grid,
    )


# fmt: off
TARGETS: dict[str, Target] = {
    "sm_80":  _target("sm_80",  108, 2039, 40 << 20, 163 << 10),
    "sm_86":  _target("sm_86",   84,  936,  6 << 20,  99 << 10, core_threads=1536),
    "sm_89":  _target("sm_89",  128, 1008, 72 << 20,  99 << 10, core_threads=1536),
    "sm_90":  _target("sm_90a", 132, 3352, 50 << 20, 227 << 10, (*_WARP_GROUP_UNITS, *_WARP_UNITS)),
    "sm_100": _target("sm_100", 148, 8000, 126 << 20, 227 << 10),
    "sm_120": _target("sm_120", 170, 1792, 96 << 20,  99 << 10, core_threads=1536),
}
"""By capability: A100, the cards of 30xx, of 40xx, H100 and H200, B200, the cards of 50xx."""
# fmt: on


def of_capability(major: int, minor: int) -> Target:
    """The target for a chip: its own row, or the last one whose code it runs.

    Code for sm_86 runs on 8.7 too, that for sm_90a on 9.0 alone; a chip of a major version without
    a row runs nothing of others.

    Raises:
        DeviceError: if tfn makes no code for it.
    """
    rows = {divmod(int(name.removeprefix("sm_")), 10): target for name, target in TARGETS.items()}
    if (major, minor) in rows:
        return rows[major, minor]
    older = [key for key in rows if key[0] == major and key < (major, minor)]
    if (major, minor) < MIN_CAPABILITY or not older:
        raise DeviceError(
            f"tfn makes no code for GPUs of compute capability {major}.{minor}",
            got=f"rows for {', '.join(TARGETS)}",
            hint="capability 8.0 (A100) or later; the device opencl may run on it",
        )
    best = rows[max(older)]
    return replace(best, cpu=best.cpu.removesuffix("a"))
