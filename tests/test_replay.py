"""Replay of kernels against a record: equal ones, changed ones, and the words for it."""

from __future__ import annotations

import copy
import gzip
import json
import re
from pathlib import Path

import pytest

from tests import replay
from tfn.lower import pipeline
from tfn.lower.loops import heuristics


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kernels.json.gz"
    monkeypatch.setattr(replay, "RECORD", path)
    assert replay.main(["--update", "--only", "matmul"]) == 0
    return path


def test_the_same_compiler_makes_the_same_kernels(
    record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline.forget()
    assert replay.main(["--strict", "--only", "matmul"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "12 of 12 programs have the kernels of the record"
    )


def test_a_change_of_the_heuristics_is_shown(
    record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heuristics, "MIN_PARALLEL_TILES", 200)
    pipeline.forget()
    assert replay.main(["--only", "matmul 7x513"]) == 0
    assert replay.main(["--strict", "--only", "matmul 512"]) == 1
    pipeline.forget()
    text = capsys.readouterr().out
    assert "matmul 512x512x512, x86-64-v3:" in text and "opt-ops " in text and " -> " in text
    assert re.search(r"^  \+ +parallel", text, re.MULTILINE)


def test_differences_are_told_in_words(record: Path) -> None:
    before = json.loads(gzip.decompress(record.read_bytes()))
    after = copy.deepcopy(before)
    name = "matmul 1x1024x1024, x86-64-v3"
    changed = after[name]
    changed["arena_bytes"] += 64
    changed["kernels"]["new"] = next(iter(changed["kernels"].values()))
    del after["matmul bf16, x86-64-v4"]
    lines = replay.difference(before, after)
    assert "matmul bf16, x86-64-v4: gone" in lines
    assert f"{name}:" in lines and "  kernel new is new" in lines
    assert any(line.startswith("  bytes of the arena ") for line in lines)
    assert replay.difference(before, before) == []


def test_the_record_is_of_all_programs() -> None:
    record = json.loads(gzip.decompress(replay.RECORD.read_bytes()))
    names = {name for name, _, _ in replay.programs()}
    assert set(record) == {f"{name}, {target}" for name in names for target in replay.TARGETS}
