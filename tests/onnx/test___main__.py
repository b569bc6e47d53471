"""The command for ONNX files: what it prints, writes and refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.onnx.building import graph, model, node, value
from tfn.onnx import __main__ as command

ROWS = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
TYPES = [value("x", np.float32, ["batch", 4])], [value("y", np.float32, ["batch", 3])]
NETWORK = model(graph(ROWS, *TYPES, {"w": np.ones((4, 3), np.float32)}))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(NETWORK)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert command.main(list(map(str, arguments))) == command.OK
    return capsys.readouterr().out.splitlines()


def test_a_file_is_shown_in_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, file) == [
        "input: x float32 (batch, 4)",
        "output: y float32 (batch, 3)",
        "operation: MatMul 1",
        "operation: Relu 1",
        "weights: 12 numbers 1 arrays 48 bytes",
    ]


def test_a_file_is_run_timed_and_exported(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TIMED_SECONDS", 0.0)
    lines = run(capsys, file, "--run", "--time", "--export", "c", "--size", "batch=2")[5:]
    assert lines[0].startswith("result: y float32 (2, 3) ") and " to " in lines[0]
    assert [line.split()[1] for line in lines[1:4]] == ["first,", "fastest", "temporary"]
    assert lines[4].startswith(f"file: {file.with_suffix('.c')}")
    assert file.with_suffix(".h").exists()


def test_missing_operations_are_listed_and_cannot_be_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(model(graph([node("Frobnicate", "x", "y")], ["x"], ["y"])))
    assert "missing: Frobnicate 1" in run(capsys, tmp_path / "net.onnx")
    assert command.main([str(tmp_path / "net.onnx"), "--run"]) == command.WRONG
    assert "lacks" in capsys.readouterr().err


def test_damaged_files_and_odd_sizes_have_a_status(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(file), "--size", "batch"]) == command.WRONG
    assert command.main([str(file.with_name("none.onnx"))]) == command.WRONG
    file.write_bytes(NETWORK[:20])
    assert command.main([str(file)]) == command.DAMAGED
    assert capsys.readouterr().err
