"""Agents: one process on each host, which starts the worker there and speaks with it.

    controller  --Ray-->  agent of host i  --Unix socket-->  worker, rank i  <--MPI-->  workers

The first agent runs mpirun, which starts all workers.  What is sent by the socket are bytes in
frames of `multiprocessing.connection`; nothing is pickled.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from tfn.distributed import mpirun, relay, wire
from tfn.errors import DistributedError, WorkerLostError

TAIL_BYTES = 2000
"""The part of the output of mpirun that an error tells."""
STOP_S = 2.0
"""Seconds in which mpirun ends after its workers were killed; it takes 0.02 s."""


class Agent:
    """The agent of a host.

    Args:
        rank: the number of the host, and of its worker.
        folder: the folder of sockets of the job, the same on all hosts.
    """

    def __init__(self, rank: int, folder: str) -> None:
        self.rank, self.folder, self.host = rank, folder, socket.gethostname()
        self.pid = 0
        self.job: subprocess.Popen[bytes] | None = None
        self.worker: Connection | None = None
        self.listener: Listener | None = None
        self.relay: Listener | None = None
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.ending = threading.Lock()

    def listen(self, rank: int) -> str:
        """Open the socket of the worker to come, of this rank now; the name of this host."""
        self.rank = rank
        Path(self.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = os.path.join(self.folder, f"{self.rank}.sock")
        with suppress(FileNotFoundError):
            os.unlink(path)
        self.listener = Listener(path, "AF_UNIX", backlog=1)
        return self.host

    def start(
        self,
        processes: int,
        variables: dict[str, str],
        hosts: Sequence[str] = (),
        network: str = "",
        run_on: Callable[[str, str], int] | None = None,
    ) -> None:
        """Run mpirun, which starts a worker on each host.

        Args:
            processes: the number of workers.
            variables: for their environment.
            hosts: the host of each; none for workers of this machine.
            network: the range of addresses to which MPI is bound.
            run_on: runs a command of the shell on another host.
        """
        launcher = ""
        if run_on is not None:
            path = os.path.join(self.folder, "relay.sock")
            with suppress(FileNotFoundError):
                os.unlink(path)
            self.relay = relay.serve(path, run_on)
            launcher = f"{sys.executable} -m tfn.distributed.relay {path}"
        program = ["-m", "tfn.distributed.worker", self.folder]
        exported = list(variables) if hosts else []
        words = mpirun.command(program, processes, hosts, launcher, network, exported)
        with self._log("w") as log:
            self.job = subprocess.Popen(
                words,
                env=mpirun.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _log(self, mode: str) -> Any:
        return open(os.path.join(self.folder, f"job-{self.rank}.log"), mode)

    def command(self, text: str) -> int:
        """Run a command of the shell on this host: the daemon of mpirun; its status."""
        with self._log("a") as log:
            started = subprocess.Popen(
                ["/bin/sh", "-c", text],
                env=mpirun.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.daemons.append(started)
        return started.wait()

    def process(self) -> int:
        """The process of the agent itself."""
        return os.getpid()

    def worker_pid(self) -> int:
        """The process of the worker."""
        return self.pid

    def printed(self) -> str:
        """The end of what mpirun and the workers have printed."""
        with suppress(OSError), self._log("r") as file:
            return str(file.read()[-TAIL_BYTES:]).strip()
        return ""

    def join(self, devices: int, deadline_ms: int, timeout_s: float) -> bytes:
        """Wait for the worker, and give it its options; what it says of itself.

        Raises:
            DistributedError: if it does not come, or cannot join the others.
        """
        assert self.listener is not None
        inner: Any = self.listener
        inner._listener._socket.settimeout(timeout_s)
        try:
            self.worker = self.listener.accept()
            self.worker.send_bytes(wire.pack((devices, deadline_ms)))
            if not self.worker.poll(timeout_s):
                raise TimeoutError
            hello = self.worker.recv_bytes()
        except (OSError, EOFError):
            raise DistributedError(
                f"the worker of {self.host} has not joined within {timeout_s:.0f} s",
                got=self.printed() or "it has printed nothing",
                host=self.host,
                rank=self.rank,
            ) from None
        record = wire.unpack(hello)
        if record[0] == "error":
            raise wire.error_of(record)
        self.pid = record[2]
        return hello

    def exchange(self, message: bytes) -> bytes:
        """The answer of the worker to a message; the record of an error if it is gone."""
        worker = self.worker
        try:
            if worker is None:
                raise EOFError  # it was stopped, and messages were on their way
            worker.send_bytes(message)
            return worker.recv_bytes()
        except (OSError, EOFError):
            return self._died()

    def _died(self) -> bytes:
        error = WorkerLostError(
            f"the worker of {self.host}, rank {self.rank} (pid {self.pid}), has died",
            hint="the cluster can be started again: see cluster.run",
            host=self.host,
            rank=self.rank,
        )
        return wire.pack(wire.error_record(error))

    def lost(self) -> bytes:
        """The record of an error if the worker is gone."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return self._died()
        return wire.pack(("done", ()))

    def stop(self) -> None:
        """Kill the worker, wherever it is, and mpirun; nothing of the job is left on this host."""
        with self.ending:
            if self.pid:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self.pid = 0
            for end in (self.listener, self.relay):
                if end is not None:
                    end.close()
            # A thread may be reading from the worker: it sees the end, and closes the socket.
            self.worker = self.listener = self.relay = None
            for daemon in self.daemons:
                with suppress(ProcessLookupError):
                    os.killpg(daemon.pid, signal.SIGKILL)
            self.daemons.clear()
            if self.job is not None:
                try:
                    self.job.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    with suppress(ProcessLookupError):
                        os.killpg(self.job.pid, signal.SIGKILL)
                    self.job.wait()
            self.job = None


def make_folder() -> str:
    """A folder for the sockets of a job; only this user can open it."""
    return tempfile.mkdtemp(prefix="tfn-job-")


def remove_folder(folder: str) -> None:
    """Delete the folder of a job that has ended."""
    shutil.rmtree(folder, ignore_errors=True)
