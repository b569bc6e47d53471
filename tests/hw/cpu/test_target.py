"""CPU targets: the host as it is detected, and targets by name."""

from __future__ import annotations

import platform

import pytest

from tfn.errors import ArgumentError
from tfn.hw.cpu import target as module
from tfn.hw.cpu.target import TARGETS, cache_bytes, host, named, vectors
from tfn.trace.op import Op


def test_the_host_is_described():
    target = host()
    assert target.triple.startswith(platform.machine()) or platform.machine() == "arm64"
    assert target.cpu and target.vector_bytes in (16, 32, 64)
    assert target.vector_registers in (16, 32)
    assert 4 << 10 <= target.l1_bytes <= target.l2_bytes
    assert host() is target


@pytest.mark.parametrize(
    "architecture, features, expected",
    [
        ("x86_64", {"avx512f": True, "avx": True, "sse2": True}, (64, 32)),
        ("x86_64", {"avx512f": False, "avx": True, "sse2": True}, (32, 16)),
        ("x86_64", {"sse2": True}, (16, 16)),
        ("aarch64", {"neon": True}, (16, 32)),
        ("sparc", {}, (16, 16)),
    ],
)
def test_vectors(architecture, features, expected):
    assert vectors(architecture, features) == expected


def test_cache_sizes_from_sysfs(tmp_path):
    table = [
        ("Data", "1", "48K"),
        ("Instruction", "1", "32K"),
        ("Unified", "2", "1024K"),
        ("Unified", "3", "32M"),
    ]
    for i, (kind, level, size) in enumerate(table):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(value + "\n")
    (tmp_path / "index9").mkdir()  # shows nothing
    assert cache_bytes(tmp_path) == {1: 48 << 10, 2: 1 << 20, 3: 32 << 20}
    assert cache_bytes(tmp_path / "absent") == {}


def test_targets_have_names():
    for name, target in TARGETS.items():
        assert named(name) is target
        assert target.vector_bytes in (16, 32, 64, 128)
        assert target.lacks <= {Op.FLOOR, Op.CEIL, Op.ROUND, Op.FMA, Op.LDEXP}
    assert named("host") is host()
    with pytest.raises(ArgumentError, match="targets are host, x86-64, x86-64-v3"):
        named("vax")


def test_tile_registers_are_used_if_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed in (True, False):
        monkeypatch.setattr(module, "_may_use_tiles", lambda allowed=allowed: allowed)
        assert (Op.MMA in module._lacks("x86_64", {"amx-tile": True})) != allowed
        assert Op.MMA in module._lacks("x86_64", {})
        assert Op.MMA in module._lacks("aarch64", {"amx-tile": True})


def test_requests_for_tile_registers_are_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.sys, "platform", "darwin")
    assert not module._may_use_tiles()
