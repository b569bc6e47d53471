"""Faults: jobs in which something dies; each has to go on to the same bits, and leave no process.

    python benchmarks/faults.py --times 20                    every kind
    python benchmarks/faults.py --only killed,link --times 3
    python benchmarks/faults.py --only raylet --times 5 --ledger faults.json      and again: a sum

killed   kill -9 of a process            stopped   SIGSTOP of a process
between  kill -9 of the first process when all parts are written, and the manifest is not
full     no room on the disk             link      the link of a host goes down; no process dies
agent    kill -9 of an agent of Ray      worker    kill -9 of a worker of Ray
halted   SIGSTOP of a worker of Ray       raylet    kill -9 of the raylet of a host, in namespaces

A row: how many jobs have ended with the typed error, gone on to the bits of a job without a fault,
and left no process; the median of the seconds from the fault to the first new step.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import namespaces
import numpy as np

import tfn
from tfn.distributed.supervisor import processes_with
from tfn.errors import DistributedError
from tfn.sharding import NamedSharding
from tfn.sharding import PartitionSpec as P

ROOT = Path(__file__).parents[1]
JOB = ROOT / "tests" / "distributed" / "job_steps.py"
LIMIT_S = 90
STEPS, AT = 12, 7
DEADLINE_S = 2.0
TOKEN = "00112233445566778899aabbccddeeff"  # of a job of this machine alone


class Outcome(NamedTuple):
    """One job.

    Attributes:
        typed: whether its error was the one expected.
        equal: whether it has reached the bits of a job without a fault.
        left: the number of processes that were left.
        seconds: from the fault to the first new step.
    """

    typed: bool
    equal: bool
    left: int
    seconds: float


EXPECTED = {
    "killed": "WorkerLostError",
    "stopped": "CollectiveTimeoutError",
    "between": "WorkerLostError",
    "full": "No space left on device",
    "link": "CollectiveTimeoutError|WorkerLostError",
    "agent": "WorkerLostError",
    "worker": "WorkerLostError",
    "halted": "CollectiveTimeoutError",
    "raylet": "WorkerLostError",
}
"""What the output of a job says of each kind of fault."""


def environment(folder: Path) -> dict[str, str]:
    """The environment of a job."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TFN_THREADS": "1",
        "TFN_CACHE_DIR": str(folder / "cache"),
        "TFN_CLUSTER_TOKEN": TOKEN,
        "TFN_CLUSTER_CIDR": namespaces.NETWORK,
        "TMPDIR": str(folder),
    }


def left_after(folder: Path) -> int:
    """The number of processes that are left a second after a job has ended."""
    for _ in range(20):
        if not processes_with(str(folder)):
            return 0
        time.sleep(0.05)
    return len(processes_with(str(folder)))


def supervised(folder: Path, job: Path, launcher: str) -> subprocess.CompletedProcess[str]:
    """Run a job under its supervisor: on this machine, or on namespaces with a spare."""
    words = [sys.executable, "-m", "tfn.distributed", "run", "--deadline", str(DEADLINE_S)]
    if launcher:
        words += ["--hosts", "host1:CPU*2,host2:CPU*2", "--spares", "host3:CPU*2"]
        words += ["--launcher", launcher]
    else:
        words += ["-n", "2", "--devices", "2"]
    words += [str(JOB), str(job), str(STEPS), str(AT)]
    if launcher:
        words = namespaces.on("host1", launcher, words)
    started = subprocess.Popen(
        words,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = started.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        for pid in processes_with(str(folder)):
            os.kill(pid, signal.SIGKILL)
        out, _ = started.communicate()
        out += "\nOVER THE LIMIT"
    return subprocess.CompletedProcess(words, started.returncode, out)


def result_of(text: str) -> str:
    """The bits that a job has reached."""
    found = re.search(r"result ([0-9a-f]+)", text)
    return found.group(1) if found else ""


def of_job(kind: str, folder: Path, want: str, launcher: str) -> Outcome:
    """A job under its supervisor, with one fault."""
    job = folder / "job"
    shutil.rmtree(job, ignore_errors=True)
    (job / "saved").mkdir(parents=True)
    if kind == "full":
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(job / "saved")], check=True
        )
    (job / "how").write_text(kind)
    try:
        done = supervised(folder, job, launcher)
        text, left = done.stdout, left_after(folder)
        if kind == "full":  # the same command, when there is room again
            (job / "saved" / "filler").unlink()
            text += supervised(folder, job, launcher).stdout
            left += left_after(folder)
    finally:
        if kind == "full":
            subprocess.run(["umount", str(job / "saved")], check=True)
        if launcher:
            namespaces.up("host2")
    again = re.search(r"stepping again after ([0-9.]+)", text)
    typed = re.search(EXPECTED[kind], text) is not None and "OVER THE LIMIT" not in text
    outcome = Outcome(typed, result_of(text) == want, left, float(again[1]) if again else np.nan)
    if not (typed and outcome.equal and not left):
        print(text, file=sys.stderr)
    return outcome


def of_controller(kind: str, times: int, folder: Path) -> list[Outcome]:
    """Faults of a cluster on Ray: one script, whose workers are started again each time."""
    outcomes = []
    x0 = np.linspace(0, 1, 64, dtype="float32")
    with tfn.distributed.connect(
        "ray",
        hosts="a:CPU*2,b:CPU*2",
        deadline_s=DEADLINE_S,
        variables={"TFN_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder)},
    ) as cluster:
        gang: Any = cluster.controller.gang  # type: ignore[union-attr]
        mesh = tfn.make_mesh((4,), ("d",))
        step: Any = tfn.jit(lambda x: tfn.numpy.sin(x) + 0.01 * x.sum())
        hit: list[float] = []
        saved: list[Any] = [0, x0]

        def train(fault: bool) -> Any:
            done, now = saved
            x = tfn.device_put(now, NamedSharding(mesh, P("d")))
            while done < STEPS:
                x = step(x)
                done += 1
                if done % 5 == 0:
                    saved[:] = done, np.asarray(x)
                if hit and len(hit) == 1:
                    x.block_until_ready()
                    np.asarray(x)
                    hit.append(time.time())
                if done == AT and fault and not hit:
                    np.asarray(x)
                    ask = gang.agents[1].process if kind == "agent" else gang.agents[1].worker_pid
                    call = ask.options(concurrency_group="control").remote()
                    pid = gang.ray.get(call)
                    hit.append(time.time())
                    os.kill(pid, signal.SIGSTOP if kind == "halted" else signal.SIGKILL)
            return np.asarray(x)

        want = train(False)
        for _ in range(times):
            hit.clear()
            saved[:] = 0, x0
            raised = ""
            try:
                train(True)
            except DistributedError as error:
                raised = type(error).__name__
                del hit[1:]
                cluster.restart()
            got = train(True)
            seconds = hit[1] - hit[0] if len(hit) > 1 else np.nan
            outcomes.append(
                Outcome(raised == EXPECTED[kind], bool((got == want).all()), 0, seconds)
            )
    left = [pid for pid in processes_with(str(folder)) if pid != os.getpid()]
    if left:
        time.sleep(1)
        left = [pid for pid in processes_with(str(folder)) if pid != os.getpid()]
        outcomes[-1] = outcomes[-1]._replace(left=len(left))
    return outcomes


def node(number: int, launcher: str, folder: Path) -> subprocess.Popen[bytes]:
    """Ray on a host."""
    ray = shutil.which("ray", path=os.path.dirname(sys.executable))
    assert ray is not None, "pip install 'tfn[ray]'"
    words = [ray, "start", f"--node-ip-address=10.77.0.{number}", "--num-cpus=2", "--block"]
    head = ["--head", "--port=6379", "--include-dashboard=false"]
    words += head if number == 1 else ["--address=10.77.0.1:6379"]
    with open(folder / f"node-{number}.log", "a") as log:
        return subprocess.Popen(
            namespaces.on(f"host{number}", launcher, words),
            env=ray_environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def ray_environment(folder: Path) -> dict[str, str]:
    """The environment of nodes that notice within seconds that another one is gone."""
    checks = {"period_ms": "500", "timeout_ms": "1000", "failure_threshold": "2"}
    return {
        **environment(folder),
        **{f"RAY_health_check_{name}": text for name, text in checks.items()},
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": 2 * TOKEN,
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def of_nodes(times: int, folder: Path) -> list[Outcome]:
    """Faults of nodes of Ray: after each the node is started again."""
    job = str(ROOT / "tests" / "distributed" / "job_nodes.py")
    outcomes = []
    with namespaces.hosts(3) as launcher:

        def run(kill: str) -> str:
            words = [sys.executable, job, str(folder / "cache"), "ray://10.77.0.1:6379", kill]
            done = subprocess.run(
                namespaces.on("host1", launcher, words),
                env=ray_environment(folder),
                capture_output=True,
                text=True,
                timeout=2 * LIMIT_S,
            )
            return done.stdout + done.stderr

        try:
            for number in (1, 2, 3):
                node(number, launcher, folder)
                time.sleep(5)
            text = run("0")
            want = result_of(text)
            if not want:
                raise SystemExit(f"a job without a fault has failed:\n{text}")
            for _ in range(times):
                text = run("1")
                again = re.search(r"stepping again after ([0-9.]+)", text)
                typed, equal = EXPECTED["raylet"] in text, result_of(text) == want
                seconds = float(again[1]) if again else np.nan
                workers = processes_with("tfn.distributed.worker", "cmdline")
                left = set(workers) & set(processes_with(str(folder)))
                outcomes.append(Outcome(typed, equal, len(left), seconds))
                if not (typed and equal and not left):
                    print(text, left, file=sys.stderr)
                node(2, launcher, folder)
                time.sleep(8)  # the old one is known to be dead, and the new one is there
        finally:
            for pid in processes_with(str(folder)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it has ended with another one
                    continue
    return outcomes


def measure(kind: str, times: int, folder: Path) -> list[Outcome]:
    """The outcomes of several faults of a kind."""
    if kind in ("agent", "worker", "halted"):
        return of_controller(kind, times, folder)
    if kind == "raylet":
        return of_nodes(times, folder)
    if kind == "link":
        with namespaces.hosts(3) as launcher:
            return _jobs(kind, times, folder, launcher)
    return _jobs(kind, times, folder, "")


def _jobs(kind: str, times: int, folder: Path, launcher: str) -> list[Outcome]:
    job = folder / "whole"
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir()
    whole = supervised(folder, job, launcher)
    want = result_of(whole.stdout)
    if not want:
        raise SystemExit(f"a job without a fault has failed:\n{whole.stdout}")
    return [of_job(kind, folder, want, launcher) for _ in range(times)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; 1 if a job did not do what it has to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(EXPECTED), help="kinds of faults")
    parser.add_argument("--times", type=int, default=20, help="jobs of each kind")
    parser.add_argument("--ledger", type=Path, help="a file in which the jobs of runs add up")
    options = parser.parse_args(arguments)
    refused = namespaces.allowed()
    bad, ledger = 0, {}
    if options.ledger and options.ledger.exists():
        ledger = json.loads(options.ledger.read_text())
    print("fault      jobs  typed error  same bits  processes left  seconds to step: median  worst")
    for kind in options.only.split(","):
        if refused and kind in ("link", "full", "raylet"):
            print(f"{kind:<9}  LEFT OUT: {refused}")
            continue
        with tempfile.TemporaryDirectory(prefix="tfn-faults-") as folder:
            outcomes = measure(kind, options.times, Path(folder))
        outcomes = [Outcome(*row) for row in ledger.get(kind, [])] + outcomes
        if options.ledger:
            ledger[kind] = outcomes
            options.ledger.write_text(json.dumps(ledger))
        typed, equal = sum(o.typed for o in outcomes), sum(o.equal for o in outcomes)
        left, seconds = sum(o.left for o in outcomes), [o.seconds for o in outcomes]
        bad += typed < len(outcomes) or equal < len(outcomes) or left > 0
        print(
            f"{kind:<9}  {len(outcomes):4}  {typed:11}  {equal:9}  {left:14}  "
            f"{np.nanmedian(seconds):23.2f}  {np.nanmax(seconds):5.2f}",
            flush=True,
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
