"""The command for stores, and runs that are killed while they save into one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.nn.store.test_repository import blocks
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints
from tfn.nn.checkpoint import __main__ as checkpoint
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("rm s nothing", "has no nothing"),
        ("ls s --limit 0", "limit >= 1"),
        ("gc s --age-hours -1", "0 or more"),
        ("join s t --replicas 0", "replicas >= 1"),
        ("join s t --replicas 5", "replicas=5, 2 places"),
        ("serve s --port 99999", "below 65,536"),
        ("get s x folder/x.safetensors", "there is no folder"),
        ("ls none", "no store at"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Store("s").put("x", {"x": np.ones(1)})
    assert __main__.main(words.split()) == 2
    assert text in capsys.readouterr().err
    assert os.listdir() == ["s"]


def test_an_interrupt_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    Store(tmp_path)
    monkeypatch.setattr(Store, "__init__", interrupted)
    for main in (__main__.main, checkpoint.main):
        assert main(["ls", str(tmp_path)]) == 130


def test_long_names_are_whole_without_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "-".join(map(str, range(40)))
    Store(tmp_path).put(name, {"x": np.ones(1)})
    assert __main__.main(["du", str(tmp_path)]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert "".join([row[1].strip() for row in rows]) == name + "all"


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
