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


def asked(template: str, path: list[str], limit: int = 100) -> dict[str, Any]:
    question = json.dumps({"template": template, "names": {"a": 1}, "path": path})
    command = [sys.executable, "-I", "-S", str(FILE), str(limit)]
    ran = subprocess.run(command, input=question.encode(), capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_a_question_has_an_answer() -> None:
    assert asked("{{ a }}", sys.path) == {"kind": "text", "text": "1"}
    assert asked("{{ 'x' * 101 }}", sys.path)["kind"] == "hostile"
    assert asked("{{ a }}", []) == {"kind": "missing", "text": ""}


def test_the_process_loads_nothing_of_tfn() -> None:
    source = FILE.read_text()
    assert "import tfn" not in source and "from tfn" not in source
