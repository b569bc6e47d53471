"""The steps of `make gpu`: what each needs is looked for, and what cannot run says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hw.cuda import __main__ as every

NAMES = {"gpu", "ptxas", "sanitizer", "opencl"}


def test_steps_cover_values_sanitizers_and_times() -> None:
    assert {"values", "suite", "mnist", "gpt", "times", "dispatch"} <= set(every.STEPS)
    tools = {"memcheck", "racecheck", "initcheck", "synccheck"}
    assert all(tool in every.STEPS[tool].command for tool in tools)
    assert all(set(step.needs) <= NAMES for step in every.STEPS.values())
    paths = [w for s in every.STEPS.values() for w in s.command if "/" in w]
    assert paths and all(Path(every.ROOT, path).exists() for path in paths)


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = dict.fromkeys((*NAMES, "cusolver", "nccl"), "") | {"gpu": "no driver"}
    ran: list[every.Step] = []
    monkeypatch.setattr(every, "missing", lambda: why)
    monkeypatch.setattr(every, "run", lambda step: (not ran.append(step), 1.0))
    assert every.main([]) == 0
    said = capsys.readouterr().out
    assert ran == [every.STEPS[n] for n in ("assembled", "simulated", "dispatch", "opencl")]
    assert "no gpu: no driver" in said and "NO GPU: nothing above has run on one" in said
    assert "times      never ran: no gpu" in said and "memcheck   never ran: no gpu" in said


def test_a_step_that_fails_fails_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every, "missing", lambda: dict.fromkeys((*NAMES, "cusolver", "nccl"), ""))
    monkeypatch.setattr(every, "run", lambda step: (False, 2.0))
    assert every.main(["--only", "times,mem"]) == 1
    said = capsys.readouterr().out
    assert "times      FAILED in 2 s" in said and "No step has passed on the GPU" in said


def test_the_list_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every, "run", lambda step: pytest.fail("it ran"))
    assert every.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in every.STEPS)
