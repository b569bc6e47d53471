"""Progress of a training loop: bars on terminals, nothing elsewhere, numbers always."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tfn import numpy as jnp
from tfn.errors import MissingPackageError
from tfn.nn import progress
from tfn.nn.progress import Training


def run(terminal: bool, quiet: bool = False, **options: Any) -> tuple[str, Training]:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    with Training(10, "images", quiet=quiet, console=console, **options) as training:
        for n in range(training.done, 10):
            training.step(4, loss=jnp.array(1.0) / (n + 1), accuracy=n / 10)
            if n == 4:
                training.note("half [bold] of it: 50%")
    return out.getvalue(), training


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REDRAW_INTERVAL_SECONDS", 0.0)
    text, _ = run(terminal=True)
    assert "10/10" in text
    assert re.search(r"loss 0\.1000  accuracy 0\.9000  [\d,]+ images/s", text)
    assert "half [bold] of it: 50%" in text


def test_others_get_notes_only() -> None:
    text, training = run(terminal=False)
    assert text == "half [bold] of it: 50%\n"
    assert training.history()["accuracy"][-1] == (10, 0.9)


def test_quiet_writes_nothing() -> None:
    for terminal in (True, False):
        text, training = run(terminal, quiet=True)
        assert text == ""
        assert len(training.history()["loss"]) == 10


def test_a_run_that_is_continued() -> None:
    text, training = run(terminal=False, first=7)
    assert training.history()["accuracy"] == [(8, 0.7), (9, 0.8), (10, 0.9)]
    assert "half" not in text
    assert training.summary().startswith("10 steps, loss 0.1000, accuracy 0.9000, compiled in ")
    over = run(terminal=False, first=10)[1]
    assert over.summary() == "10 steps"
    assert run(terminal=False, first=9)[1].summary().endswith(" s")


def test_counts_of_steps_and_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def clock() -> float:
        return now

    monkeypatch.setattr(time, "perf_counter", clock)
    training = Training(5, "tokens", quiet=True)
    with training:
        for n in range(5):
            now += 3.0 if n == 0 else 0.5  # the first is compiled
            training.step(10, loss=n)
            if n == 2:
                now += 100.0  # an evaluation
                training.note("")
    assert (training.first_seconds, training.seconds, training.speed) == (3.0, 2.0, 20.0)
    assert training.summary() == (
        "5 steps, loss 4.0000, compiled in 3.00 s, 500.00 ms a step, 20 tokens/s"
    )


class Lazy:
    """A number that notes who looks at it."""

    def __init__(self) -> None:
        self.looked = 0

    def __float__(self) -> float:
        self.looked += 1
        return 2.0


def test_numbers_are_looked_at_late() -> None:
    numbers = [Lazy() for _ in range(3)]
    with Training(3, quiet=True) as training:
        for number in numbers:
            training.step(1, loss=number)
    assert [number.looked for number in numbers] == [1, 0, 0]
    assert training.history()["loss"] == [(1, 2.0), (2, 2.0), (3, 2.0)]


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="an extra")
    for n, history in enumerate(
        [
            {},
            {"loss": []},
            {"loss": [(1, 3.0)]},
            {"loss": [(n, 1 / (n + 1)) for n in range(500)], "accuracy": [(0, 0.1), (499, 0.9)]},
        ]
    ):
        path = tmp_path / f"{n}.png"
        progress.plot(path, history, title="learning", log=n == 3)
        assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'tfn\[plot\]'"):
        progress.plot(tmp_path / "x.png", {})
    assert not list(tmp_path.iterdir())
