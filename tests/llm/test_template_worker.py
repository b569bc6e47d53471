"""The process that runs templates: its questions and answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfn.llm import template_worker

pytest.importorskip("jinja2", reason="pip install 'tfn[llm]' to test templates of chats")

FILE = Path(template_worker.__file__)


def asked(path: list[str], *templates: str) -> list[dict[str, Any]]:
    lines = [json.dumps(path), *(json.dumps({"template": t, "names": {"a": 1}}) for t in templates)]
    command = [sys.executable, "-I", "-S", str(FILE), "100"]
    given = "".join(line + "\n" for line in lines).encode()
    ran = subprocess.run(command, input=given, capture_output=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_questions_have_answers_of_their_own() -> None:
    one = {"kind": "text", "text": "1"}
    first, hostile, last = asked(sys.path, "{{ a }}", "{{ 'x' * 101 }}", "{{ a }}")
    assert first == last == one and hostile["kind"] == "hostile"
    assert asked([], "{{ a }}") == [{"kind": "missing", "text": ""}]


def test_the_process_loads_nothing_of_tfn() -> None:
    source = FILE.read_text()
    assert "import tfn" not in source and "from tfn" not in source
