"""Jobs of many processes on this machine, started by mpirun, with a limit on their time.

A job is a script of this folder.  Tests of jobs are skipped, with the reason, where mpi4py or
mpirun is not installed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 120
"""A job takes a few seconds, most of them to import and to compile; more if the machine is busy."""
AS_ROOT = {
    f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")
}
_SCRIPTS = sysconfig.get_path("scripts")
MPIRUN = shutil.which("mpirun", path=f"{_SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}")

needs_mpi = pytest.mark.skipif(
    not (MPIRUN and find_spec("mpi4py")),
    reason="jobs of many processes need mpi4py and mpirun: pip install 'tfn[mpi]'",
)


def command(processes: int, script: str, *args: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that starts a job."""
    assert MPIRUN
    begin = [MPIRUN, "-n", str(processes), "--oversubscribe", "--bind-to", "none"]
    path = str(ROOT / "tests" / "distributed" / script)
    return [*begin, "--mca", "mpi_yield_when_idle", "1", *options, sys.executable, path, *args]


def environment(devices: int, folder: Path, **variables: str) -> dict[str, str]:
    """The environment of a job: so many devices in each process, one thread."""
    return {
        **os.environ,
        **AS_ROOT,
        "PYTHONPATH": str(ROOT),
        "TFN_DEVICES": str(devices),
        "TFN_THREADS": "1",
        "TMPDIR": str(folder),
        **variables,
    }


def run(
    processes: int,
    script: str,
    *args: str,
    devices: int = 2,
    folder: Path,
    options: tuple[str, ...] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, or kill all of it at the limit of time."""
    started = subprocess.Popen(
        command(processes, script, *args, options=options),
        env=environment(devices, folder, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = started.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        out, err = started.communicate()
        raise AssertionError(f"{script} did not end in {LIMIT_S} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(started.args, started.returncode, out, err)
