"""The command `serve`: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.llm import building
from tests.llm.serve.running import tiny_model
from tfn.llm import __main__ as main
from tfn.llm.serve import command

pytest.importorskip("starlette", reason="pip install 'tfn[serve]' to test the server")
pytest.importorskip("uvicorn", reason="pip install 'tfn[serve]' to test the server")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(building.tiny())
    return path


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", ""])
def test_other_machines_need_a_token(
    host: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(command.TOKEN_VARIABLE, raising=False)
    assert main.main(["serve", str(file), "--host", host]) == main.WRONG
    assert "must have a token" in capsys.readouterr().err


def test_an_address_that_is_taken_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with command.bound("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main.main(["serve", str(file), "--port", str(port)]) == main.WRONG
    assert f"127.0.0.1, port {port}: Address already in use" in capsys.readouterr().err


def test_addresses_of_this_machine_alone() -> None:
    assert all(map(command.is_local, ("127.0.0.1", "127.8.0.1", "::1", "localhost")))
    with command.bound("::1", 0) as listener:
        assert command.address_of(listener).startswith("http://[::1]:")


def test_formats_are_counted() -> None:
    assert command.formats(tiny_model()) == {"F32": (21, 35232)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_streams_and_the_server(number: int, file: Path) -> None:
    arguments = [sys.executable, "-m", "tfn.llm", "serve", str(file), "--port", "0"]
    environment = {**os.environ, "TFN_DEVICE": "python", command.TOKEN_VARIABLE: "abc"}
    server = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert server.stdout is not None and server.stderr is not None
        lines = [*iter_until(server.stdout, "address:")]
        assert "quantization: F32, 32.0 bits a weight: 21 tensors F32\n" in lines
        assert any("64 tokens, all that the file has" in line for line in lines)
        url = lines[-1].split()[1]
        wanted = {"prompt": "he a", "max_tokens": 60, "temperature": 2, "stream": True, "n": 100}
        headers = {"Authorization": "Bearer abc"}
        request = urllib.request.Request(
            url + "/v1/completions", json.dumps(wanted).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.readline().startswith(b"data: ")
            server.send_signal(number)
            rest = answer.read()
        assert rest.endswith(b"data: [DONE]\n\n") and b"shutting_down" in rest
        assert server.wait(30) == 0
        assert server.stderr.read() == "" and "ended" in server.stdout.read()
    finally:
        server.kill()
        server.communicate()


def iter_until(lines: Iterable[str], beginning: str) -> Iterator[str]:
    """Lines up to the first that begins so."""
    for line in lines:
        yield line
        if line.startswith(beginning):
            return
