"""CPU targets: the host as it is detected, and targets by name."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.covering import in_turn
from tfn.config import config
from tfn.errors import ArgumentError, DeviceError
from tfn.hw.cpu import target as module
from tfn.hw.cpu.target import TARGETS, cache_bytes, host, machine, named, vectors
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


def test_no_code_is_generated_for_features_without_avx_forms() -> None:
    """One INSERTQ beside AVX takes as long as a hundred other instructions."""
    features = machine().features.split(",")
    assert not {"+sse4a"}.intersection(features)


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
        assert target.vector_bytes in (4, 16, 32, 64, 128)  # 4: one element, without vectors
        assert target.lacks <= {Op.FLOOR, Op.CEIL, Op.ROUND, Op.FMA, Op.LDEXP, Op.CAST}
    assert named("host") is host()
    with pytest.raises(ArgumentError, match="targets are host, x86-64, x86-64-v2, x86-64-v3"):
        named("vax")


HERE = [
    name
    for name, target in TARGETS.items()
    if target.triple.split("-")[0] == machine().triple.split("-")[0]
    and {*target.features.split(",")} <= {"", *machine().features.split(",")}
]
"""The targets that this machine can stand for."""
PROGRAM = """
import numpy as np, tfn
from tfn import numpy as jnp, random
from tfn.hw.cpu.target import host

def of_all(x, w):
    y = jnp.tanh(x @ w) + jnp.floor(x[:, :1]) + jnp.sort(x, axis=0)[:, :5]
    return jnp.where(y > 0, y * y + y, y).sum()

x, w = random.normal(random.key(0), (33, 47)), random.normal(random.key(1), (47, 5))
here = tfn.jit(tfn.value_and_grad(of_all))(x, w)
tfn.config.device = "python"
there = tfn.value_and_grad(of_all)(x, w)
for got, want in zip(tfn.tree.leaves(here), tfn.tree.leaves(there)):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
print(host().cpu, host().vector_bytes)
"""


@pytest.mark.parametrize("name", in_turn(2, HERE))
def test_programs_run_on_older_processors(name: str) -> None:
    environment = {**os.environ, "TFN_TARGET": name, "TFN_DISK_CACHE": "0"}
    command = [sys.executable, "-c", PROGRAM]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [name, str(TARGETS[name].vector_bytes)]


def test_a_target_has_the_caches_of_this_machine_and_no_more_features() -> None:
    for name in HERE:
        target = module._as_if(named(name), name)
        assert (target.triple, target.l2_bytes) == (machine().triple, machine().l2_bytes)
        assert target.features == TARGETS[name].features


def test_a_target_that_cannot_run_here_is_refused() -> None:
    with pytest.raises(DeviceError, match="cannot run code for hexagon"):
        module._as_if(named("hexagon"), "hexagon")
    ahead = replace(TARGETS["x86-64"], features="+hovers", triple=machine().triple)
    with pytest.raises(DeviceError, match=r"lacks \+hovers"):
        module._as_if(ahead, "ahead")


def test_the_target_stays_once_there_is_code_for_it() -> None:
    assert host().vector_bytes
    before = config.target
    with pytest.raises(ArgumentError, match="cannot change once the CPU device is in use"):
        config.target = "x86-64"
    assert config.target == before


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
