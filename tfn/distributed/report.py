"""Reports of processes to their supervisor: files of a folder that the supervisor names.

    step-RANK     two integers, overwritten in each step: the step, and the last committed one;
                  -1 for the step when the process has joined the others
    fault-RANK    the facts of the error that has ended the process, as JSON
    signal-RANK   128 and the number of the signal that has ended it, as text

The supervisor names the folder in the environment; without one nothing is written.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tfn import config
from tfn.errors import DistributedError, HostSpecificationError, ProgramMismatchError, SecurityError
from tfn.extend import replacing

FOLDER, DEADLINE = "TFN_JOB_FOLDER", "TFN_JOB_DEADLINE"
"""Variables of the environment by which a supervisor speaks to the processes of its job."""
_STEP = struct.Struct("<qq")
JOINED = -1
"""The step of a process that has joined the others, and has told none."""
WATCH_S = 0.1
"""Seconds between two looks for processes that have died: each takes 10 us."""
LASTING = (ProgramMismatchError, SecurityError, HostSpecificationError)
"""Errors that another start would meet again."""
FACTS = ("host", "rank", "step", "collective", "committed")


WATCHED = (
    '"$@"; s=$?; [ $s -lt 128 ] || [ ! -d "$TFN_JOB_FOLDER" ] || '
    'echo $s > "$TFN_JOB_FOLDER/signal-${OMPI_COMM_WORLD_RANK-$PMI_RANK}"; exit $s'
)
"""A script of the shell that runs a process.  With ``--with-ft ulfm`` mpirun of Open MPI 5.0.11
takes the end by a signal for success, and says nothing of one before MPI_Init; its status does."""


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
        folder = config.launcher_variables([FOLDER]).get(FOLDER)
        self.folder = folder if folder and os.path.isdir(folder) else None  # of another host
        self._file: int | None = None
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def watch(self, check: Callable[[], None]) -> None:
        """Tell the supervisor, whatever this process is doing, of another one that has died.

        Args:
            check: raises for one that has.
        """
        if self.folder is None:
            return
        self.step(JOINED, None)

        def run() -> None:
            while not self._closed.wait(WATCH_S):
                try:
                    check()
                except DistributedError as error:
                    self.fault(error)
                    return

        self._watcher = threading.Thread(target=run, name="watch", daemon=True)
        self._watcher.start()

    def close(self) -> None:
        """End the watch: the transport is about to be closed."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

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
            "of_job": isinstance(error, DistributedError) and not isinstance(error, LASTING),
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


def signals(folder: Path) -> dict[int, str]:
    """The names of the signals that have ended processes, by rank, in the order in which it was."""
    found = {}
    for path in sorted(folder.glob("signal-*"), key=lambda path: path.stat().st_mtime_ns):
        if text := path.read_text().strip():
            found[int(path.name.removeprefix("signal-"))] = signal.Signals(int(text) - 128).name
    return found


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
