"""The command for language models: what it prints and refuses."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tests.llm import building
from tfn.llm import __main__ as command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(building.tiny())
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    assert command.main(list(map(str, arguments))) == command.OK
    return capsys.readouterr().out.splitlines()


def test_a_file_is_shown_in_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "show", file)
    assert lines[0] == "name: llama" and lines[2].startswith(
        "quantization: F32, 32.0 bits a weight"
    )
    assert "blk.0.attn_q.weight: F32 32x32 4.1 kB" in run(capsys, "show", file, "--tensors")


def test_damaged_and_missing_files_are_told_apart(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(file.read_bytes()[:100])
    assert command.main(["show", str(file)]) == command.DAMAGED
    assert command.main(["show", str(tmp_path / "none.gguf")]) == command.WRONG
    assert "none.gguf" in capsys.readouterr().err


def test_a_chat_answers_lines_and_remembers(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2", reason="pip install 'tfn[llm]' to test templates of chats")
    pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")
    monkeypatch.setattr("sys.stdin", io.StringIO("h\nhe\n\nunread\n"))
    lines = run(capsys, "chat", file, "--max-tokens", 2, "--temperature", 0)
    assert len("".join(lines)) <= 8


def test_perplexity_and_speed_are_told(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")
    text = tmp_path / "text.txt"
    text.write_text("he said a word " * 6)
    (line,) = run(capsys, "perplexity", file, text, "--window", 16)
    assert re.fullmatch(r"perplexity: [\d.]+ \+- [\d.]+, \d+ tokens", line)
    lines = run(capsys, "bench", file, "--prompt", 16, "--answer", 2)
    assert [line.partition(":")[0] for line in lines] == [
        "load", "first step", "prompt of 16", "answer of 2", "weights read"]  # fmt: skip
    assert command.main(["bench", str(file), "--prompt", "64"]) == command.WRONG
    assert "no room" in capsys.readouterr().err


def test_an_interrupt_has_its_status(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "load", interrupted)
    assert command.main(["bench", str(file)]) == command.INTERRUPTED
