"""Training on two hosts beside one process with as many devices: losses, seconds, bytes.

    python benchmarks/two_hosts.py                hosts are network namespaces: needs root
    python benchmarks/two_hosts.py data=4         the GPT divided in one way

MNIST, an MLP and a GPT train in each way; seconds are those of compiling and training.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import namespaces
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
JOB = str(ROOT / "tests" / "distributed" / "job_training.py")
HOSTS = ("host1", "host2")
Found = tuple[dict[str, list[float]], dict[str, float]]


def run(command: Sequence[str], devices: int, folder: str) -> Found:
    """The losses and the seconds of a job, by the name of a training."""
    as_root = {
        f"{name}_ALLOW_RUN_AS_ROOT{end}": "1"
        for name in ("OMPI", "PRTE")
        for end in ("", "_CONFIRM")
    }
    variables = {
        "PYTHONPATH": str(ROOT),
        "TFN_DEVICES": str(devices),
        "TFN_THREADS": "1",
        "TFN_CACHE_DIR": folder,
        "TFN_CLUSTER_TOKEN": "0011223344556677",
        "TFN_CLUSTER_CIDR": namespaces.NETWORK,
    }
    done = subprocess.run(
        command, env={**os.environ, **as_root, **variables}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    *_, seconds, losses = done.stdout.splitlines()
    return json.loads(losses), json.loads(seconds)


def main() -> int:
    """Measure, and print a table; the exit status."""
    refused = namespaces.allowed()
    if refused:
        print(refused, file=sys.stderr)
        return 1
    ways = ["mlp", "cnn", *(sys.argv[1:] or ["data=4", "fsdp=4", "model=4"])]
    with tempfile.TemporaryDirectory() as folder, namespaces.hosts(2) as launcher:
        words = [sys.executable, "-m", "tfn.distributed", "run", "--hosts"]
        words += ["host1:CPU*2,host2:CPU*2", "--launcher", launcher, "--deadline", "60"]
        words += [JOB, f"{folder}/two", *ways]
        before = [namespaces.received_bytes(host) for host in HOSTS]
        many, many_s = run(namespaces.on("host1", launcher, words), 2, f"{folder}/cache")
        after = [namespaces.received_bytes(host) for host in HOSTS]
        one, one_s = run([sys.executable, JOB, f"{folder}/one", *ways], 4, f"{folder}/cache")
    table = Table(title="two hosts of 2 devices beside one process of 4", title_justify="left")
    for name in ("", "two hosts, s", "one process, s", "greatest difference of losses"):
        table.add_column(name, justify="right" if name else "left")
    for name, losses in one.items():
        pairs = zip(many[name], losses, strict=True)
        worst = max(abs(a - b) / max(abs(b), 1e-9) for a, b in pairs)
        table.add_row(name, f"{many_s[name]:.2f}", f"{one_s[name]:.2f}", f"{worst:.1e}")
    console = Console(highlight=False)
    console.print(table)
    for host, old, new in zip(HOSTS, before, after, strict=True):
        console.print(f"{host} received {new - old:,} bytes by its link")
    return 0


if __name__ == "__main__":
    sys.exit(main())
