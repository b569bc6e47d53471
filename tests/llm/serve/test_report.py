"""The console of the server: lines, bars and silence."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tfn.llm.engine import Progress
from tfn.llm.serve import report
from tfn.llm.serve.report import Report


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    shown = Report(Console(file=text))
    now = iter([0.0, 1.0, 2.5, 2.6])
    monkeypatch.setattr("tfn.llm.serve.report.time.monotonic", lambda: next(now))
    with shown.live():
        for done in (0, 512, 1024, 2048):
            shown.event(1, Progress(done, 2048))
        shown.event(2, Progress(5, report.LONG_PROMPT - 1))
    said = [line[9:] for line in text.getvalue().splitlines()]
    assert said == [f"prompt 1: {done} of 2,048" for done in ("0", "1,024", "2,048")]
    assert not shown.said


def test_bars_on_a_terminal_go_with_their_request() -> None:
    text = io.StringIO()
    shown = Report(Console(file=text, force_terminal=True, width=80))
    with shown.live():
        assert shown.bars is not None
        shown.event(1, Progress(512, 2048))
        shown.event(2, Progress(512, 2048))
        assert [task.description for task in shown.bars.tasks] == ["prompt 1", "prompt 2"]
        shown.ended(1)
        shown.event(2, Progress(2048, 2048))
        assert not shown.bars.tasks and not shown.shown
    assert "prompt 2" in text.getvalue() and shown.bars is None


def test_a_quiet_server_tells_errors_alone() -> None:
    text = io.StringIO()
    shown = Report(Console(file=text), quiet=True)
    with shown.live():
        shown.line("loading")
        shown.fact("model", "m")
        shown.step("compiling", 1, 2)
        assert not text.getvalue()
        try:
            raise ZeroDivisionError("by [b]nothing[/b]")
        except ZeroDivisionError as error:
            shown.failed(error)
    assert "ZeroDivisionError: by [b]nothing[/b]" in text.getvalue()
    assert "test_report.py" in text.getvalue()
