"""AMD targets: GPUs as data, by the name of their architecture, for machines that have none.

Source: RDNA3, RDNA4 and CDNA3 instruction set manuals for registers and LDS; data sheets of the
RX 7900 XTX, the RX 9070 XT and the MI300X for compute units, caches and bandwidths.
"""

from __future__ import annotations

from tfn.errors import DeviceError
from tfn.extend import Grid, Op, Target

TRIPLE = "amdgcn-amd-amdhsa"
LDS_BYTES = 64 << 10  # that a group can have


def _target(
    cpu: str,
    cores: int,
    memory_gb_s: int,
    l2_bytes: int,
    l3_bytes: int,
    features: str = "-real-true16",
    warp_threads: int = 32,
) -> Target:
    """A GPU.

    A half of a register is no operand: the second halves of registers save some, and that they are
    worth their copies has been measured by none of us.
    """
    grid = Grid(
        warp_threads=warp_threads,
        registers=(192 << 10) // 4 * 4 if warp_threads == 32 else 128 << 10,
        local_bytes=LDS_BYTES,
        cores=cores,
        memory_gb_s=memory_gb_s,
        exchanges=warp_threads == 32,
        core_threads=2048,
    )
    return Target(
        TRIPLE,
        cpu,
        features,
        vector_bytes=4,  # a thread computes one element; neighbours load together
        l2_bytes=l2_bytes,
        l3_bytes=l3_bytes,
        lacks=frozenset({Op.LDEXP, Op.MMA}),
        grid=grid,
    )


# fmt: off
TARGETS: dict[str, Target] = {
    "gfx1100": _target("gfx1100",  96,  960,  6 << 20,  96 << 20),
    "gfx1201": _target("gfx1201",  64,  640,  8 << 20,  64 << 20),
    "gfx942":  _target("gfx942",  304, 5300,  4 << 20, 256 << 20, "", warp_threads=64),
}
"""By architecture: RX 7900 XTX, RX 9070 XT, MI300X."""
# fmt: on


def of_architecture(name: str) -> Target:
    """The target of an architecture.

    Raises:
        DeviceError: if there is no row for it.
    """
    if name not in TARGETS:
        raise DeviceError(
            f"tfn makes no code for AMD GPUs of the architecture {name!r}",
            got=f"rows for {', '.join(TARGETS)}",
            hint="the device opencl may run on it",
        )
    return TARGETS[name]
