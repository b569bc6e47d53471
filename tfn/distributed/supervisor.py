"""Supervision: a job of mpirun that is started again after a fault, on the hosts that are left.

    python -m tfn.distributed run --hosts host1:CPU*4,host2:CPU*4 --spares host3:CPU*4 train.py

All processes of a job start and end together.  After a fault (a process or a host has died, a
message has not arrived before its deadline) what is left is killed, and all start anew; the script
begins with loading its newest checkpoint that is whole.  An error of the script ends the job.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tfn import errors
from tfn.distributed import mpirun, report, security
from tfn.distributed.session import TEMPORARY_FAILURE
from tfn.distributed.specification import HostItem
from tfn.errors import ArgumentError, DistributedError, HostSpecificationError, WorkerLostError
from tfn.extend import frozen

POLL_S = 0.01
GRACE_S = 0.3
"""After the first report of a fault, the time for the others to tell theirs, before all are
killed."""
PROBE_S = 5.0
"""Seconds in which a host that is there runs `true`."""
LATE_S = 1.0
"""Seconds by which an answer may be later than those of enough hosts: a host that is gone does not
answer, and is not waited for."""
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
MARK = "TFN_JOB"
"""The variable of the environment by which processes of a job are found."""
EXPORTED = ("TFN_JOB_FOLDER", "TFN_JOB_DEADLINE", MARK, "TFN_DEVICES", "TFN_CLUSTER_TOKEN")
EXPORTED_TOO = ("TFN_CLUSTER_TOKEN_FILE", "TFN_CLUSTER_CIDR", "PYTHONPATH", "TFN_CACHE_DIR")


@frozen
class Plan:
    """The description of a job.

    Attributes:
        program: the arguments of Python: a script and its arguments.
        hosts: the hosts that take part; empty for processes of this machine.
        processes: their number, on this machine.
        devices: of each process; None for that of the environment.
        spares: hosts that take the places of those that are lost.
        elastic: the least and the largest number of hosts with which the job goes on, as many as
            answer, spares among them; None if it needs as many as at the beginning.
        restarts: how often it is started again, at most.
        deadline_s: seconds for which a process waits for a message of another one.
        launcher: a command that runs another one on a host; ssh if empty.
        network: the range of addresses to which MPI is bound.
    """

    program: tuple[str, ...]
    hosts: tuple[HostItem, ...] = ()
    processes: int = 1
    devices: int | None = None
    spares: tuple[HostItem, ...] = ()
    elastic: tuple[int, int] | None = None
    restarts: int = 3
    deadline_s: float = 300.0
    launcher: str = ""
    network: str = ""

    def check(self) -> None:
        """Refuse a plan that cannot be carried out.

        Raises:
            ArgumentError: for a number that is none of such things.
            HostSpecificationError: naming what does not fit.
        """
        for name, value, least in (
            ("processes", self.processes, 1),
            ("restarts", self.restarts, 0),
            ("deadline", self.deadline_s, 0.001),
        ):
            if not value >= least:
                raise ArgumentError(f"{name} is at least {least}", got=f"--{name} {value}")
        counts = {item.devices for item in (*self.hosts, *self.spares)}
        if len(counts) > 1:
            raise HostSpecificationError(
                "hosts of one job have the same number of devices",
                got=", ".join(map(str, (*self.hosts, *self.spares))),
                hint="give all hosts the number that the smallest has",
            )
        twice = {item.host for item in self.hosts} & {item.host for item in self.spares}
        if twice:
            raise HostSpecificationError(
                f"{min(twice)} takes part, and cannot be a spare too",
                got=", ".join(map(str, self.spares)),
            )
        if self.elastic is not None:
            least, most = self.elastic
            count = len(self.hosts) or self.processes
            if not 1 <= least <= count <= most:
                raise HostSpecificationError(
                    "the limits of an elastic job contain the number with which it begins",
                    got=f"elastic={least},{most}, {count} processes",
                )


class Attempt:
    """One run of a job: its processes, and what they report.

    Args:
        plan: the job.
        hosts: those of this run.
        processes: their number.
    """

    def __init__(self, plan: Plan, hosts: Sequence[HostItem], processes: int) -> None:
        self.plan, self.hosts = plan, tuple(hosts)
        self.mark, self.folder = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix="tfn-run-"))
        devices = hosts[0].devices if hosts else plan.devices
        variables = {
            report.FOLDER: str(self.folder),
            report.DEADLINE: str(plan.deadline_s),
            MARK: self.mark,
        }
        if devices is not None:
            variables["TFN_DEVICES"] = str(devices)
        environment = mpirun.environment(**variables)
        exported = [name for name in (*EXPORTED, *EXPORTED_TOO) if name in environment]
        words = mpirun.command(
            plan.program,
            processes,
            [item.host for item in hosts],
            plan.launcher,
            plan.network,
            exported if hosts else (),
            ("/bin/sh", "-c", report.WATCHED, "sh"),
        )
        self.job = subprocess.Popen(
            words, env=environment, start_new_session=True, preexec_fn=_end_with_parent
        )

    def ended(self) -> int | None:
        """The exit status, when all processes have ended or a fault was reported; None before."""
        status = self.job.poll()
        if status is not None:
            return status
        told, died = report.faults(self.folder), report.signals(self.folder)
        late = [s for step, _, s in report.steps(self.folder).values() if step != report.JOINED]
        if told or died:
            with suppress(subprocess.TimeoutExpired):
                return self.job.wait(GRACE_S)
            return TEMPORARY_FAILURE if all(fault.of_job for fault in told) else 1
        if late and min(late) > 2 * self.plan.deadline_s:
            return TEMPORARY_FAILURE
        return None

    def kill(self) -> None:
        """Kill all processes of this run on this machine; those of others follow mpirun."""
        while True:
            found = [pid for pid in marked(self.mark) if pid != os.getpid()]
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.job.wait(0.05)
            if not found:
                return

    def close(self) -> None:
        """Delete the reports."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _end_with_parent() -> None:
    """Let mpirun, which ends its processes then, be ended with the supervisor, whatever kills that.

    Source: the Linux manual, prctl(2).
    """
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def _ended_by(*signals: signal.Signals) -> Iterator[Callable[[], None]]:
    """Let signals end the block as an interrupt does, so that no process is left.

    Yields:
        A function that raises again what a signal has raised: the interpreter drops exceptions of
        its hooks around a fork.
    """
    received: list[int] = []

    def check() -> None:
        if received:
            raise SystemExit(128 + received[0])

    def end(number: int, _: object) -> None:
        received.append(number)
        check()

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.signal(number, end) for number in signals}
    try:
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def processes_with(text: str, file: str = "environ") -> list[int]:
    """The processes of this machine, not ended, with a text in their environment (or `cmdline`)."""
    found = []
    # No pattern of two parts: glob looks at each such file, and raises if its process has ended.
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            if text.encode() in (path / file).read_bytes():
                found.append(int(path.name))
    return found


def marked(mark: str) -> list[int]:
    """The processes of a job on this machine that have not ended."""
    return processes_with(f"{MARK}={mark}")


def supervise(plan: Plan, say: Callable[[str], None] = print) -> int:
    """Run a job to its end, through faults.

    Args:
        plan: the job.
        say: takes lines on what happened.

    Returns:
        The exit status of the job.

    Raises:
        DistributedError: the fault after the last restart, or for which too few hosts are left.
    """
    plan.check()
    if len(plan.hosts) > 1:
        security.check_variables()
    if plan.hosts:
        _all_there(plan)
    with _ended_by(signal.SIGTERM, signal.SIGHUP) as check:
        return _supervise(plan, say, check)


def _all_there(plan: Plan) -> None:
    names = [item.host for item in plan.hosts]
    there = reachable(names, plan.launcher or "ssh")
    missing = [name for name in names if name not in there]
    if missing:
        raise HostSpecificationError(
            f"no command can be run on {missing[0]}",
            got=f"hosts {', '.join(names)}; no answer from {', '.join(missing)}",
            hint=f"'{plan.launcher or 'ssh'} {missing[0]} true' has to end well within "
            f"{PROBE_S:.0f} s, without a password",
        )


def _supervise(plan: Plan, say: Callable[[str], None], check: Callable[[], None]) -> int:
    hosts, spares, processes = list(plan.hosts), list(plan.spares), plan.processes
    for number in range(plan.restarts + 1):
        attempt = Attempt(plan, hosts, len(hosts) or processes)
        try:
            while (status := attempt.ended()) is None:
                check()
                time.sleep(POLL_S)
            check()
            begin_s = time.monotonic()
            fault = _fault(attempt, status) or _gone(plan, hosts, status)
        finally:
            attempt.kill()
            attempt.close()
        if fault is None:
            return status
        if number == plan.restarts:
            raise fault
        if hosts:
            hosts, spares = _left(plan, hosts, spares, fault)
        say(
            f"{type(fault).__name__}: {str(fault).splitlines()[0]}; restart {number + 1} of "
            f"{plan.restarts} on {', '.join([i.host for i in hosts]) or 'this machine'}, "
            f"{time.monotonic() - begin_s:.2f} s after the fault was known"
        )
    raise AssertionError("the last attempt has returned or raised")


def _fault(attempt: Attempt, status: int) -> DistributedError | None:
    """The fault that has ended a run; None if it has ended by itself, or by the user's error."""
    told = report.faults(attempt.folder)
    died = report.signals(attempt.folder)
    if (status == 0 and not died) or any(not fault.of_job for fault in told):
        return None
    if not told and not died and 0 < status < 128 and status != TEMPORARY_FAILURE:
        return None
    reached = report.steps(attempt.folder)
    if told:
        first = min(told, key=lambda fault: fault.kind != WorkerLostError.__name__)
        known = {key: value for key, value in first.facts.items() if value is not None}
        text = first.text.splitlines()[0]
        if known.get("rank") in died:
            text += f": {died[known['rank']]}"
        kind = getattr(errors, first.kind)
        assert issubclass(kind, DistributedError), "the fault is one of the job"
        return kind(text, **known)  # type: ignore[no-any-return]
    step, committed, _ = min(reached.values(), default=(None, None, None))
    known = {} if step in (None, report.JOINED) else {"step": step}
    if committed is not None and committed >= 0:
        known["committed"] = committed
    what = f"a process of the job was killed, or does not go on (status {status})"
    for rank, name in list(died.items())[:1]:
        what, known["rank"] = f"rank {rank} has died: {name}", rank
    return WorkerLostError(what, hint="its own lines above may say why", **known)


def _gone(plan: Plan, hosts: Sequence[HostItem], status: int) -> WorkerLostError | None:
    """The fault of a run that has failed without a word, if a host of it does not answer now."""
    if status == 0 or not hosts:
        return None
    there = reachable([item.host for item in hosts], plan.launcher or "ssh")
    gone = [item.host for item in hosts if item.host not in there]
    return WorkerLostError(f"{gone[0]} does not answer any more", host=gone[0]) if gone else None


def _left(
    plan: Plan, hosts: Sequence[HostItem], spares: Sequence[HostItem], fault: DistributedError
) -> tuple[list[HostItem], list[HostItem]]:
    """The hosts of the next run, and the spares that are left after it."""
    least, most = plan.elastic or (len(plan.hosts), len(plan.hosts))
    names = [item.host for item in (*hosts, *spares)]
    there = reachable(names, plan.launcher or "ssh", most)
    left = [item for item in hosts if item.host in there]
    fresh = [item for item in spares if item.host in there]
    taken = fresh[: most - len(left)]
    chosen = [*left, *taken]
    if len(chosen) < least:
        raise DistributedError(
            f"{len(chosen)} hosts are left, and the job needs {least}",
            got=f"lost: {', '.join([item.host for item in hosts if item.host not in there])}",
            hint="--spares host:CPU*4 names others; --elastic MIN,MAX goes on with fewer",
            host=fault.host,
            rank=fault.rank,
            step=fault.step,
            committed=fault.committed,
        ) from fault
    return chosen, fresh[len(taken) :]


def reachable(hosts: Sequence[str], launcher: str, enough: int | None = None) -> set[str]:
    """The hosts on which a command can be run.

    Args:
        hosts: their names.
        launcher: the command that runs another one on a host.
        enough: after so many answers the others have little time left; None for all.
    """
    asked: dict[str, Any] = {
        host: subprocess.Popen(
            [*launcher.split(), host, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for host in hosts
    }
    until, there = time.monotonic() + PROBE_S, set()
    while asked and time.monotonic() < until:
        ended = [host for host, process in asked.items() if process.poll() is not None]
        there |= {host for host in ended if asked.pop(host).returncode == 0}
        if enough is not None and len(there) >= enough:
            until, enough = min(until, time.monotonic() + LATE_S), None
        time.sleep(POLL_S)
    for process in asked.values():
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return there
