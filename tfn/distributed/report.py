"""Reports of processes to their supervisor: files of a folder that the supervisor names.

    step-RANK     two integers, overwritten in each step: the step, and the last committed one
    fault-RANK    the facts of the error that has ended the process, as JSON

The supervisor names the folder in the environment; without one nothing is written.
"""

from __future__ import annotations

import json
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tfn import config
from tfn._support.files import replacing
from tfn.errors import DistributedError

FOLDER, DEADLINE = "TFN_JOB_FOLDER", "TFN_JOB_DEADLINE"
"""Variables of the environment by which a supervisor speaks to the processes of its job."""
_STEP = struct.Struct("<qq")
FACTS = ("host", "rank", "step", "collective", "committed")


class Fault(NamedTuple):
    """The error that has ended a process.

    Attributes:
        kind: the name of the class of the error.
        text: the error, as it is printed.
        of_job: whether it is a fault of the job, and not of the user's program.
        facts: host, rank, step, collective and last committed step, as far as they are known.
    """

    kind: str
    text: str
    of_job: bool
    facts: dict[str, Any]


class Reporter:
    """Writes the reports of one process.

    Args:
        rank: its number.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.folder = config.launcher_variables([FOLDER]).get(FOLDER)
        self._file: int | None = None

    def step(self, step: int, committed: int | None) -> None:
        """Report the step that begins: 2 us."""
        if self.folder is None:
            return
        if self._file is None:
            path = os.path.join(self.folder, f"step-{self.rank}")
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._file, _STEP.pack(step, -1 if committed is None else committed), 0)

    def fault(self, error: BaseException) -> None:
        """Report the error that ends the process."""
        if self.folder is None:
            return
        row = {
            "kind": type(error).__name__,
            "text": str(error),
            "of_job": isinstance(error, DistributedError),
            "facts": {name: getattr(error, name, None) for name in FACTS},
        }
        with suppress(OSError), replacing(Path(self.folder) / f"fault-{self.rank}") as file:
            file.write(json.dumps(row).encode())


def deadline_s(default: float) -> float:
    """The deadline that the supervisor sets for messages between processes."""
    text = config.launcher_variables([DEADLINE]).get(DEADLINE)
    return float(text) if text else default


def faults(folder: Path) -> list[Fault]:
    """The faults that were reported, in the order in which they were."""
    paths = sorted(folder.glob("fault-*"), key=lambda path: path.stat().st_mtime_ns)
    return [Fault(**json.loads(path.read_bytes())) for path in paths]


def steps(folder: Path) -> dict[int, tuple[int, int, float]]:
    """For each process that has told one: its step, the last committed one, seconds since then."""
    now, found = time.time(), {}
    for path in folder.glob("step-*"):
        data = path.read_bytes()
        if len(data) == _STEP.size:
            step, committed = _STEP.unpack(data)
            rank = int(path.name.removeprefix("step-"))
            found[rank] = step, committed, now - path.stat().st_mtime
    return found
