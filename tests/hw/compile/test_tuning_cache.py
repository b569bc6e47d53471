"""Tuning cache: opt-ops per kernel and machine, on disk or in the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfn.config import config
from tfn.hw.compile import object_cache, tuning_cache
from tfn.lower.target.target import Target

HERE, THERE = Target("x86_64-unknown-linux-gnu", "znver4", ""), Target("aarch64", "", "")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(tuning_cache, "_UNSAVED", {})
    monkeypatch.setattr(object_cache, "_warned", set())
    return tmp_path / "plans"


def test_stored_opt_ops_are_found() -> None:
    assert tuning_cache.find("k1", HERE) is None
    tuning_cache.keep("k1", HERE, (("split",),))
    assert tuning_cache.find("k1", HERE) == (("split",),)
    assert tuning_cache.find("k2", HERE) is None and tuning_cache.find("k1", THERE) is None
    tuning_cache.keep("k1", HERE, ())
    assert tuning_cache.find("k1", HERE) == ()


def test_opt_ops_stay_in_the_process_if_the_disk_refuses(folder: Path) -> None:
    folder.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="not kept on disk"):
        tuning_cache.keep("k1", HERE, (("a",),))
    assert tuning_cache.find("k1", HERE) == (("a",),) and tuning_cache.find("k1", THERE) is None
    folder.unlink()
    tuning_cache.keep("k1", HERE, (("b",),))
    assert tuning_cache.find("k1", HERE) == (("b",),) and not tuning_cache._UNSAVED


def test_without_a_disk_cache_the_disk_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning_cache.keep("k1", HERE, (("a",),))
    monkeypatch.setattr(config, "disk_cache", False)
    assert tuning_cache.find("k1", HERE) is None
    tuning_cache.keep("k1", HERE, (("b",),))
    tuning_cache.keep("k2", HERE, ())
    assert tuning_cache.find("k1", HERE) == (("b",),) and tuning_cache.find("k2", HERE) == ()
    assert tuning_cache.find("k1", THERE) is None
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(config, "disk_cache", True)
    assert tuning_cache.find("k1", HERE) == (("a",),) and tuning_cache.find("k2", HERE) == ()
