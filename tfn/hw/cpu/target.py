"""What this machine is: the host's Target."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tfn.hw.compile.llvm import binding
from tfn.lower.kernel import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
# Per architecture and its widest vectors: a feature that shows it, bytes, registers.
# fmt: off
_VECTORS: dict[str, tuple[tuple[str, int, int], ...]] = {
    "x86_64":  (("avx512f", 64, 32), ("avx", 32, 16), ("sse2", 16, 16)),
    "aarch64": (("neon", 16, 32),),
    "arm64":   (("neon", 16, 32),),
}
# fmt: on


def cache_bytes(folder: Path = _CACHES) -> dict[int, int]:
    """Bytes of the data cache of each level, as Linux tells them; empty elsewhere."""
    found = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = (index / "size").read_text().strip()
            if kind != "Instruction":
                found[level] = int(size.rstrip("KMG")) * _UNITS.get(size[-1], 1)
        except (OSError, ValueError):  # some virtual machines show half of it
            continue
    return found


def vectors(architecture: str, features: dict[str, bool]) -> tuple[int, int]:
    """Bytes of a vector register, and how many there are."""
    for feature, size_bytes, registers in _VECTORS.get(architecture, ()):
        if features.get(feature):
            return size_bytes, registers
    return 16, 16


@cache
def host() -> Target:
    """The machine that this process runs on."""
    llvm = binding()
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features()
    vector_bytes, vector_registers = vectors(triple.split("-")[0], features)
    sizes = cache_bytes()
    plain = Target(triple, "", "")
    return Target(
        triple, llvm.get_host_cpu_name(), features.flatten(), vector_bytes, vector_registers,
        sizes.get(1, plain.l1_bytes), sizes.get(2, plain.l2_bytes), sizes.get(3, plain.l3_bytes),
    )  # fmt: skip
