"""Kernel cache: kernels found on disk equal lowered ones; damaged or old files are ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lower.graphs import jaxpr, matmul, p
from tfn.config import config
from tfn.hw.compile import kernel_cache, tuning_cache
from tfn.hw.compile.kernel_cache import KernelCache
from tfn.hw.cpu.target import host
from tfn.lower import pipeline
from tfn.lower.program import CachedKernel, Program

WRITTEN = CachedKernel("k1", (("split", 0, 2, "upcast"),), 3, "define void @k1() {\n}\n", 7)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "disk_cache", True)
    return tmp_path / "kernels"


def test_kernels_are_found_by_body_and_target() -> None:
    kept, target = KernelCache(), host()
    assert kept.find("body", target) is None
    kept.keep("body", target, WRITTEN)
    assert kept.find("body", target) == WRITTEN
    assert kept.find("other", target) is None
    assert kept.find("body", replace(target, vector_registers=7)) is None


def test_keys_do_not_depend_on_the_order_of_sets() -> None:
    code = """
from tfn.hw.compile.kernel_cache import key
from tfn.lower.target.target import Target
from tfn.trace.op import Op
print(key("body", Target("t", "c", "", lacks=frozenset({Op.FLOOR, Op.FMA, Op.LDEXP, Op.MMA}))))
"""
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(6)
    }
    assert len(keys) == 1


def test_damaged_files_are_ignored(folder: Path) -> None:
    kept, target = KernelCache(), host()
    kept.keep("body", target, WRITTEN)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert kept.find("body", target) is None


def test_another_version_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, target = KernelCache(), host()
    kept.keep("body", target, WRITTEN)
    with monkeypatch.context() as patch:
        patch.setattr(kernel_cache, "version", lambda: "newer")
        assert kept.find("body", target) is None
    assert kept.find("body", target) == WRITTEN
    tuning_cache.keep("k9", target, ())  # a search may have found something for this one too
    assert kept.find("body", target) is None


def test_nothing_is_kept_without_a_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "disk_cache", False)
    KernelCache().keep("body", host(), WRITTEN)
    assert not folder.exists()
    config.disk_cache = True
    KernelCache().keep("body", host(), WRITTEN)
    config.disk_cache = False
    assert KernelCache().find("body", host()) is None


def test_a_second_process_lowers_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were another: nothing is remembered but what is on disk."""
    function = jaxpr([matmul(p(0, 5, 6), p(1, 6, 7)) * 2.0])
    monkeypatch.setattr(pipeline, "_CACHES", [KernelCache()])

    def made() -> Program:
        pipeline.forget()
        return pipeline.lower(function, host())

    first = made()
    monkeypatch.setattr(pipeline, "_lower_kernel", None)
    again = made()
    assert again.text == first.text and again.steps != ()
    for one, other in zip(first.kernels, again.kernels, strict=True):
        assert replace(one, body=other.body) == other
        assert pipeline.instructions(one, host()) == pipeline.instructions(other, host())
