"""The command for stores, and runs that are killed while they save into one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.nn.store.test_repository import blocks
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.store import Store, __main__, verify

ROOT = Path(__file__).parents[2]


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store, file = str(tmp_path / "s"), tmp_path / "x.safetensors"
    state.save(file, {"x": np.arange(9.0), "y": np.ones(20_000)})

    def said(status: int, *arguments: str) -> str:
        assert __main__.main(arguments) == status
        return capsys.readouterr().out

    said(2, "ls", store)
    for name in ("a", "b/1", "b/2"):
        said(0, "put", store, name, str(file))
    assert said(0, "ls", store, "--prefix", "b/").split() == ["b/1", "b/2"]
    assert "--after b/1" in said(0, "ls", store, "--after", "a", "--limit", "1")
    said(0, "get", store, "a", str(tmp_path / "y.safetensors"))
    assert state.load(tmp_path / "y.safetensors")["x"].tolist() == [*range(9)]
    said(0, "pin", store, "a")
    said(2, "rm", store, "a")
    said(0, "unpin", store, "a")
    said(0, "rm", store, "a")
    assert "320,144" in said(0, "du", store)
    assert "0 blocks" in said(0, "gc", store, "--age-hours", "0")
    assert "whole" in said(0, "verify", store)
    said(0, "join", store, str(tmp_path / "t"), "--replicas", "2")
    assert "missing" in said(1, "scrub", store, "--dry-run")
    assert "mended" in said(0, "scrub", store)
    path = max(blocks(Store(store)), key=lambda path: path.stat().st_size)
    path.write_bytes(b"")
    assert "b/1: y bytes" in said(1, "verify", store)
    assert "mended" in said(0, "scrub", store)


def test_a_save_that_is_killed_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    """Five processes, killed in the middle of saving: all that was said to be saved is there."""
    Store(tmp_path)
    command = [sys.executable, "-m", "tests.nn.checkpoint.saver", str(tmp_path / "run"), "5", "0"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    rows = [tuple(map(int, line.split())) for line in run.stdout.splitlines()]
    assert len(rows) == 5
    for first, last, found in rows:
        assert first < last <= found <= last + 1
    assert verify(Store(tmp_path)) == []
    assert len(Checkpoints("run", store=tmp_path).steps()) <= 3
