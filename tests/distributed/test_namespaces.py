"""Namespaces of the network as hosts: messages cross their links, and a link can go down.

It needs root; elsewhere it is skipped, with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.jobs import LIMIT_S, ROOT, environment, needs_mpi, run
from tests.distributed.test_session import WAYS, none_left

_SPEC = importlib.util.spec_from_file_location("namespaces", ROOT / "benchmarks" / "namespaces.py")
assert _SPEC and _SPEC.loader
namespaces: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(namespaces)

pytestmark = needs_mpi
TOKEN = {"TFN_CLUSTER_TOKEN": "0011223344556677", "TFN_CLUSTER_CIDR": namespaces.NETWORK}


@pytest.fixture(scope="module")
def launcher() -> Iterator[str]:
    refused = namespaces.allowed()
    if refused:
        pytest.skip(f"NOT TESTED, jobs over several hosts: {refused}")
    if " " in sys.prefix:
        pytest.skip("Open MPI starts nothing on other hosts from an environment with a space in it")
    with namespaces.hosts(3) as found:
        yield found


def supervised(
    launcher: str, folder: Path, *words: str, spares: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script on host1 and host2."""
    begin = [sys.executable, "-m", "tfn.distributed", "run", "--hosts", "host1:CPU*2,host2:CPU*2"]
    begin += ["--launcher", launcher, "--deadline", "20" if not spares else "2"]
    begin += ["--spares", spares] if spares else []
    return subprocess.run(
        namespaces.on("host1", launcher, [*begin, *words]),
        env=environment(2, folder, **variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def script(name: str) -> str:
    return str(ROOT / "tests" / "distributed" / name)


def test_training_on_two_hosts_is_that_of_one_process(launcher: str, tmp_path: Path) -> None:
    before = [namespaces.received_bytes(host) for host in ("host1", "host2")]
    words = script("job_training.py"), str(tmp_path / "two"), *WAYS[:1]
    many = supervised(launcher, tmp_path, *words, **TOKEN)
    assert many.returncode == 0, many.stderr
    after = [namespaces.received_bytes(host) for host in ("host1", "host2")]
    assert all(new - old > 100_000 for old, new in zip(before, after, strict=True))
    one = run(1, "job_training.py", str(tmp_path / "one"), *WAYS[:1], folder=tmp_path, devices=4)
    got, want = (json.loads(done.stdout.splitlines()[-1]) for done in (many, one))
    for name, losses in want.items():
        np.testing.assert_allclose(got[name], losses, rtol=1e-5, err_msg=name)
    assert got["bits"] == want["bits"]


def test_without_a_token_no_job_starts(launcher: str, tmp_path: Path) -> None:
    variables = {**TOKEN, "TFN_CLUSTER_TOKEN": ""}
    done = supervised(launcher, tmp_path, script("job_training.py"), "data=4", **variables)
    assert done.returncode != 0 and "a job over several hosts needs a token" in done.stderr
    assert none_left(tmp_path)


def test_a_link_that_goes_down_is_an_error_and_a_spare_goes_on(
    launcher: str, tmp_path: Path
) -> None:
    results = []
    for how in ("", "link"):
        job = tmp_path / (how or "whole")
        job.mkdir()
        if how:
            (job / "how").write_text(how)
        words = (script("job_steps.py"), str(job), "12", "7")
        done = supervised(launcher, tmp_path, *words, spares="host3:CPU*2", **TOKEN)
        assert done.returncode == 0, done.stderr
        results.append(done.stdout[done.stdout.index("result") :].split()[1])
    assert results[0] == results[1]
    assert "restart 1 of 3 on host1, host3" in done.stderr
    assert none_left(tmp_path)
    namespaces.up("host2")
