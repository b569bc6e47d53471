"""Gangs on Ray: a whole script in a process of its own, through the death of an agent."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.distributed.jobs import LIMIT_S, ROOT, needs_mpi
from tests.distributed.test_session import none_left
from tfn.distributed import gang
from tfn.errors import MissingPackageError

needs_ray = pytest.mark.skipif(
    not find_spec("ray"), reason="a cluster of agents needs Ray: pip install 'tfn[ray]'"
)


@needs_mpi
@needs_ray
def test_a_script_goes_on_after_an_agent_was_killed(tmp_path: Path) -> None:
    script = str(ROOT / "tests" / "distributed" / "job_ray.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFN_DEVICE": "cpu", "TFN_JOB": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    x = list(range(8))
    for _ in range(4):
        x = [float(v + sum(x)) for v in x]
    assert done.returncode == 0, done.stderr
    assert f"result {x} 1" in done.stdout
    assert none_left(tmp_path)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match="pip install"):
        gang._ray(local=False)
