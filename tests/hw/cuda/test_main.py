"""The steps of `make gpu`: what each needs is looked for, and what cannot run says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hw.cuda import __main__ as every

NAMES = {"gpu", "several", "ptxas", "sanitizer", "opencl"}


def test_steps_cover_values_sanitizers_and_times() -> None:
    assert {"values", "suite", "mnist", "gpt", "times", "dispatch"} <= set(every.STEPS)
    tools = {"memcheck", "racecheck", "initcheck", "synccheck"}
    assert all(tool in every.STEPS[tool].command for tool in tools)
    assert all(set(step.needs) <= NAMES for step in every.STEPS.values())
    words = [w for s in every.STEPS.values() for w in s.command]
    paths = [w for w in words if "/" in w and "{" not in w]
    assert paths and all(Path(every.ROOT, path).exists() for path in paths)


PRESENT = dict.fromkeys((*NAMES, "cusolver", "nccl"), "")
PASSED = every.Outcome("passed", "3 passed in 1.0s", 1.0)


def test_without_a_gpu_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    why, ran = PRESENT | {"gpu": "no driver", "several": "0 of them"}, list[str]()
    monkeypatch.setattr(every, "missing", lambda: (why, "none"))
    monkeypatch.setattr(every, "run", lambda name, *_: ran.append(name) or PASSED)
    assert every.main(["--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert ran == ["assembled", "simulated", "dispatch", "opencl"]
    assert "no gpu: no driver" in said and "NO GPU: nothing above has run on one" in said
    assert "times      never ran: no gpu" in said and "memcheck   never ran: no gpu" in said
    assert (
        "(3 passed in 1.0s)" in said and "nothing failed" in (tmp_path / "summary.txt").read_text()
    )


def test_a_step_that_fails_fails_all_and_stops_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcomes = {"times": every.Outcome("FAILED", "", 2.0), "memcheck": PASSED}

    def run(name: str, step: every.Step, folder: Path) -> every.Outcome:
        row = {"target": "<= 5 us", "met": False, "verdict": "NOT MET: 2.00 of the time"}
        rows = {"tiny": row, "sort": {"target": "ahead of best", "met": True, "verdict": "met"}}
        (folder / "times.json").write_text(json.dumps(rows))
        return outcomes[name]

    monkeypatch.setattr(every, "missing", lambda: (PRESENT, "an H100"))
    monkeypatch.setattr(every, "run", run)
    assert every.main(["--only", "times,mem", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "times      FAILED in 2 s" in said and "memcheck   passed in 1 s" in said
    assert "targets met: 1 of 2\n  tiny" in said and "NOT MET: 2.00 of the time" in said
    assert said.endswith("steps that passed on the GPU: 1 of 2; an H100\nFAILED: times\n")
    with pytest.raises(SystemExit):
        every.main(["--only", "magic"])


def test_a_step_is_logged_ended_in_time_and_summed_up(tmp_path: Path) -> None:
    def step(code: str, limit_s: int = 60) -> every.Step:
        return every.Step("", ("{python}", "-c", code), "cpu", limit_s=limit_s)

    good = every.run(
        "good", step("import os; print('=== 2 passed in 1s ==', os.getcwd())"), tmp_path
    )
    assert good.passed and good.said.startswith("2 passed in 1s")
    assert "2 passed" in (tmp_path / "good.log").read_text()
    bad = every.run("bad", step("print('met: 1 of 3'); raise SystemExit(4)"), tmp_path)
    assert (bad.word, bad.said) == ("FAILED", "met: 1 of 3")
    slow = every.run(
        "slow", step("import time; print('1 passed in 2s'); time.sleep(60)", 3), tmp_path
    )
    assert slow.word == "TIMED OUT" and slow.seconds < 30


def test_what_is_missing_has_its_reason() -> None:
    why, said = every.missing()
    assert {*why} == {*PRESENT}
    assert (said == "none") == bool(why["gpu"])
    if said != "none":
        assert "sm_" in said and "GiB" in said


def test_the_list_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(every, "run", lambda *_: pytest.fail("it ran"))
    assert every.main(["--list", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in every.STEPS)
