"""`tfn.view`: pages of functions, measured ones, and two compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfn
from tests.inspect.viewer.programs import floats, layer, rnn
from tfn.config import config
from tfn.errors import ArgumentError
from tfn.inspect.viewer.view import Page, view


def test_a_page_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    made = view(tfn.jit(layer), floats(8, 16), floats(16, 32), path=path)
    assert made.path == path and made.html == path.read_text("utf-8")
    assert str(made) == str(path) and repr(made) == f"<page {path}>"
    assert made.versions[0].data["title"] == "layer"
    assert len(made.versions[0].data["lines"]) == 3


def test_a_function_that_was_called_before_has_its_lines(tmp_path: Path) -> None:
    jitted = tfn.jit(layer)
    jitted(tfn.numpy.ones((8, 16)), tfn.numpy.ones((16, 32)))
    made = view(jitted, floats(8, 16), floats(16, 32), path=tmp_path / "page.html")
    assert len(made.versions[0].data["lines"]) == 3
    assert jitted.cache_info().misses == 1


def test_kernels_are_measured_after_each_decision(tmp_path: Path) -> None:
    made = view(layer, floats(8, 16), floats(16, 32), measure=True, path=tmp_path / "page.html")
    for body in made.versions[0].data["bodies"]:
        assert body["measured_ns"] > 0
    assert made.versions[0].data["roofline"].startswith("<svg")
    for body in made.versions[0].data["bodies"]:
        changes = [row for row in body["decisions"] if row["opts"]]
        assert changes and all(row["measured_ns"] > 0 for row in changes)


def test_pages_and_lowered_functions_are_compared(tmp_path: Path) -> None:
    args = floats(8, 16), floats(16, 32)
    first = view(layer, *args, path=tmp_path / "first.html")
    lowered = tfn.jit(rnn).lower(floats(4, 8), floats(8, 8), floats(3, 4, 8))
    both = view(first, lowered, path=tmp_path / "both.html")
    assert [one.data["title"] for one in both.versions] == ["layer", "rnn"]
    assert both.versions[1].data["files"] == []  # it was traced before anybody asked for lines
    again = view(lowered.compile(), path=tmp_path / "again.html")
    assert [one.data["title"] for one in again.versions] == ["rnn"]


def test_two_targets_are_compared(tmp_path: Path) -> None:
    args = floats(64, 128), floats(128, 256)
    pages = [
        view(layer, *args, path=tmp_path / f"{i}.html", target=target)
        for i, target in enumerate(
            (
                tfn.Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16),
                tfn.Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32),
            )
        )
    ]
    both = view(*pages, path=tmp_path / "both.html")
    assert "ymm" in both.versions[0].texts[0]["assembly"]
    assert "ymm" not in both.versions[1].texts[0]["assembly"]


def test_a_page_is_compared_with_a_page(tmp_path: Path) -> None:
    made = view(layer, floats(8, 16), floats(16, 32), path=tmp_path / "page.html")
    with pytest.raises(ArgumentError, match="compares pages"):
        view(made, 3, path=tmp_path / "other.html")
    for other in (layer, tfn.jit(layer), made):
        with pytest.raises(ArgumentError, match="compares pages"):
            view(layer, other)


def test_only_the_machine_itself_is_measured(tmp_path: Path) -> None:
    target = tfn.Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32)
    with pytest.raises(ArgumentError, match="for the machine itself"):
        view(layer, floats(8, 16), floats(16, 32), target=target, measure=True)


def test_a_browser_is_opened_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    view(tfn.numpy.sin, floats(3), path=tmp_path / "sin.html")
    assert opened == []
    made: Page = view(tfn.numpy.sin, floats(3), path=tmp_path / "sin.html", show=True)
    assert opened == [made.path.as_uri()]


def test_pages_without_a_path_go_to_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = [view(lambda x: x + 1, floats(3), show=False).path for _ in range(2)]
    assert made[0] != made[1] and all(path.name == "lambda.html" for path in made)


def test_devices_without_a_compiler_show_what_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Any) -> Any:
        return x * 2 + 1

    monkeypatch.setattr(config, "device", "python")
    made = view(f, floats(3), path=tmp_path / "page.html")
    assert made.versions[0].data["totals"]["kernels"] == 1
    with pytest.raises(ArgumentError, match="the device python"):
        view(f, floats(3), measure=True)
