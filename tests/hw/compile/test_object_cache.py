"""Objects on disk: damage, races, folders that cannot be written, and age."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from tfn.hw.compile import object_cache

KEY = "ab" * 32


def test_what_is_stored_is_fetched(tmp_path):
    folder = tmp_path / "deep" / "objects"
    assert object_cache.fetch(folder, KEY) is None
    object_cache.store(folder, KEY, b"code")
    assert object_cache.fetch(folder, KEY) == b"code"
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.o"]
    object_cache.store(folder, KEY, b"")
    assert object_cache.fetch(folder, KEY) == b""


@pytest.mark.parametrize("damage", ["empty", "cut", "short", "altered", "longer"])
def test_damaged_files_are_not_believed_and_are_written_again(tmp_path, damage):
    object_cache.store(tmp_path, KEY, b"x" * 1000)
    path = tmp_path / f"{KEY}.o"
    good = path.read_bytes()
    bad = {
        "empty": b"",
        "cut": good[:500],
        "short": good[:10],
        "altered": good[:-1] + b"y",
        "longer": good + b"x",
    }
    path.write_bytes(bad[damage])
    assert object_cache.fetch(tmp_path, KEY) is None
    object_cache.store(tmp_path, KEY, b"x" * 1000)
    assert path.read_bytes() == good


def test_a_folder_that_cannot_be_written_gives_one_warning(tmp_path):
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="TFN_CACHE_DIR"):
        object_cache.store(folder, KEY, b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        object_cache.store(folder, KEY, b"code")
        assert object_cache.fetch(folder, KEY) is None


def test_the_oldest_are_pruned_first(tmp_path):
    for age, name in enumerate("abcde"):
        object_cache.store(tmp_path, name, b"x" * 1000)
        os.utime(tmp_path / f"{name}.o", (1000 - age, 1000 - age))
    assert object_cache.fetch(tmp_path, "e") is not None  # now the youngest
    object_cache.prune(tmp_path, limit_bytes=2100)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["a", "e"]


def test_some_stores_prune(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(object_cache, "prune", seen.append)
    object_cache.store(tmp_path, "01" + KEY[2:], b"x")
    object_cache.store(tmp_path, "00" + KEY[2:], b"x")
    assert seen == [tmp_path]


def test_processes_share_a_folder(tmp_path):
    code = f"""
from pathlib import Path
from tfn.hw.compile import object_cache as cache
folder = Path({str(tmp_path)!r})
for i in range(200):
    cache.store(folder, {KEY!r}, b"z" * 100_000)
    assert cache.fetch(folder, {KEY!r}) == b"z" * 100_000
"""
    many = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait(60) for process in many] == [0, 0, 0]
    assert [p.name for p in tmp_path.iterdir()] == [f"{KEY}.o"]
