"""The command line of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tfn.distributed import __main__ as module
from tfn.errors import WorkerLostError


def test_options_become_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    monkeypatch.setattr(module, "supervise", lambda plan, say: plans.append(plan) or 0)
    words = "run --hosts a:CPU*2,b:CPU*2 --spares c:CPU*2 --elastic 1,2 --deadline 5 t.py --x 3"
    assert module.main(words.split()) == 0
    (plan,) = plans
    assert plan.program == ("t.py", "--x", "3") and len(plan.hosts) == 2
    assert plan.elastic == (1, 2) and plan.deadline_s == 5 and plan.spares[0].host == "c"


@pytest.mark.parametrize(
    "words", ["run --hosts a:GPU*2 t.py", "run --elastic 2 t.py", "run -n 2 --elastic 3,4 t.py"]
)
def test_what_is_refused_starts_nothing(words: str, capsys: Any) -> None:
    assert module.main(words.split()) == 2
    assert "got:" in capsys.readouterr().err


def test_the_last_fault_is_status_75(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def supervise(plan: Any, say: Any) -> int:
        raise WorkerLostError("gone", host="b", rank=1)

    monkeypatch.setattr(module, "supervise", supervise)
    assert module.main(["run", "t.py"]) == 75
    assert "WorkerLostError: gone" in capsys.readouterr().err
