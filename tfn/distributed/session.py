"""This process among the others: it joins them, and agrees with them on programs.

    initialize()     rank and size; devices of all processes; the transport
    agreement        before a program first runs, all processes compare its digest
    waiting          until the deadline; then it is an error with host, rank and step

After a fault of the job the memory of this process is whole, but messages are lost: it may save
what it has, and ends with status 75, at which a launcher or a scheduler starts the job again.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from types import TracebackType
from typing import Any

import numpy as np

from tfn.config import config
from tfn.distributed import messages, security
from tfn.distributed.courier import Courier
from tfn.distributed.launchers import launch
from tfn.distributed.mpi import MpiTransport
from tfn.distributed.report import Reporter
from tfn.distributed.report import deadline_s as deadline_of_job
from tfn.distributed.shared import SharedTransport
from tfn.distributed.transport import Alone, Pending, Transport, timeout, wait
from tfn.errors import DistributedError, ProgramMismatchError, WorkerLostError
from tfn.extend import mutable, processes
from tfn.trace.processes import Clock, HostGrid

DEADLINE_S = 300.0
"""Seconds for which a message is waited for: longer than compiling a large program takes, which
hosts do at different speeds."""
MIN_START_S = 20.0
"""Seconds that the start of MPI may take at least, whatever the deadline of messages: on a machine
with other work it took more than one."""
LEAVE_S = 10.0
"""Seconds for which a process that has ended waits for the others before it leaves."""
TEMPORARY_FAILURE = 75
"""The exit status after a fault: EX_TEMPFAIL of sysexits.h, at which a job is started again."""
NAME_BYTES = 96
CLOCK_ROUNDS = 16
"""Messages each way by which clocks are compared: the fastest counts, and most are."""


@mutable
class Session:
    """This process among the others.

    Attributes:
        transport: what carries messages of programs.
        control: what carries all others, so that a process which is elsewhere in the script is
            waited for, and its messages are not taken for those of a program.
        hosts: the name of the host of each process.
        deadline_s: seconds for which a message is waited for.
        step, committed: what `progress` has told.
        agreed: digests of programs that all processes have.
        current: the exchange that runs, for errors.
        failed: whether the job has had a fault.
        lost: whether the fault is a process that has died.
        hook: the function that printed uncaught errors before.
        reporter: tells a supervisor.
        job: a name that all processes of the job have, and no other.
        deferring: what carries messages that go on beside the program.
        courier: the thread that polls those; both are None in a process alone.
    """

    transport: Transport
    control: Transport
    hosts: tuple[str, ...]
    deadline_s: float
    step: int | None = None
    committed: int | None = None
    agreed: Any = None
    current: str = ""
    failed: bool = False
    lost: bool = False
    hook: Any = None
    reporter: Any = None
    job: str = ""
    deferring: Transport | None = None
    courier: Courier | None = None

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self.transport.rank

    def facts(self) -> dict[str, Any]:
        """The facts that errors tell of this process."""
        return {
            "host": self.hosts[self.rank],
            "rank": self.rank,
            "step": self.step,
            "collective": self.current,
            "committed": self.committed,
        }

    def wait(self, pending: Sequence[Pending], deadline_s: float) -> None:
        """Wait for messages.

        Raises:
            CollectiveTimeoutError: after the deadline.
            WorkerLostError: if another process has died.
        """
        what = self.current or "an exchange"
        try:
            wait(pending, deadline_s, lambda s: timeout(what, waited_s=s, **self.facts()))
        except DistributedError:
            self.failed = True
            raise

    def arrived(self, what: str, pending: Sequence[Pending]) -> None:
        """Wait for messages of another carrier, by the deadline of the job.

        Raises:
            CollectiveTimeoutError, WorkerLostError: as `wait`.
        """
        self.current = what
        self.wait(pending, self.deadline_s)
        self.current = ""

    def exchanged(self, own: bytes, ranks: Sequence[int], what: str) -> list[bytes]:
        """Some bytes of each process, of any length.

        Raises:
            CollectiveTimeoutError, WorkerLostError: as `wait`.
        """
        self.current = what
        sizes = np.zeros(len(ranks), "int64")
        self._gather(np.array([len(own)], "int64"), sizes, ranks)
        width = max(int(sizes.max()), 1)
        row, rows = np.zeros(width, "uint8"), np.zeros((len(ranks), width), "uint8")
        row[: len(own)] = np.frombuffer(own, "uint8")
        self._gather(row, rows, ranks)
        self.current = ""
        return [rows[i, :n].tobytes() for i, n in enumerate(sizes)]

    def _gather(self, sent: Any, got: Any, ranks: Sequence[int]) -> None:
        self.wait([self.control.all_gather(ranks, sent, got)()], self.deadline_s)

    def failure(self, error: Exception) -> DistributedError:
        """The error of a transport, as users see it."""
        self.failed = True
        facts, transport = self.facts(), self.control
        if isinstance(transport, MpiTransport) and transport.is_loss(error):
            return self._loss(transport.lost())
        return DistributedError(f"MPI failed: {error}", **facts)

    def _loss(self, ranks: Sequence[int]) -> WorkerLostError:
        """The error for processes that have died."""
        facts, self.failed, self.lost = self.facts(), True, True
        lost = [rank for rank in ranks if rank < len(self.hosts)]
        if lost:
            facts |= {"host": self.hosts[lost[0]], "rank": lost[0]}
        named = f"rank {lost[0]} on {self.hosts[lost[0]]}" if lost else "another process"
        return WorkerLostError(
            f"{named} has died, as rank {self.rank} on {self.hosts[self.rank]} found",
            hint="start the job again: it resumes from its last whole checkpoint",
            **facts,
        )

    def check(self) -> None:
        """Ask the transport for processes that have died: 5 us.

        Raises:
            WorkerLostError: naming one.
        """
        if isinstance(self.control, MpiTransport) and not self.failed:
            lost = self.control.lost()
            if lost:
                raise self._loss(lost)


_SESSION: list[Session] = []


def session() -> Session:
    """The session of this process.

    Raises:
        DistributedError: before `initialize`.
    """
    if not _SESSION:
        raise DistributedError(
            "this process has not joined any others", hint="call tfn.distributed.initialize()"
        )
    return _SESSION[0]


def is_initialized() -> bool:
    """Whether `initialize` has been called.

    Example:
        >>> is_initialized()
        False
    """
    return bool(_SESSION)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    deadline_s: float | None = None,
) -> None:
    """Join the other processes of the job that this one was started in.

    Call it once, before any array is made.  What has started the process says how many there are:
    ``mpirun -n 2 python train.py``, or ``srun --mpi=pmix``.  A process that was started alone stays
    alone, without any package, so that the same script runs everywhere.

    Args:
        coordinator_address: accepted as in JAX, and not needed: MPI finds the other processes.
        num_processes: the number of processes, checked against that of the launcher.
        process_id: the number of this one, checked too.
        deadline_s: seconds for which a message between processes is waited for, at most; what a
            supervisor says, or 300, if left out.

    Raises:
        DistributedError: if it was called before; if the launcher, MPI and the arguments disagree.
        MissingPackageError: if there are several processes, and mpi4py is not installed.
        SecurityError: on several hosts without a token and a range of addresses.

    Example:
        >>> initialize()
        >>> import tfn
        >>> tfn.process_index(), tfn.process_count()
        (0, 1)
        >>> shutdown()
    """
    if _SESSION:
        raise DistributedError(
            "initialize was called twice", hint="call it once, at the beginning of the script"
        )
    started = launch()
    rank, size = (started.rank, started.size) if started else (0, 1)
    for name, given, found in (
        ("num_processes", num_processes, size),
        ("process_id", process_id, rank),
    ):
        if given is not None and given != found:
            raise DistributedError(
                f"{name} is not what the launcher says",
                got=f"{name}={given}; {started.launcher if started else 'no launcher'}: {found}",
                hint=f"mpirun -n {num_processes or 2} python ... starts processes; leave both out",
            )
    if deadline_s is None:
        deadline_s = deadline_of_job(DEADLINE_S)
    if started is None or size == 1:
        _SESSION.append(
            Session(Alone(), Alone(), (socket.gethostname(),), deadline_s, agreed=set())
        )
        return
    _join(started.launcher, size, deadline_s)


def _join(launcher: str, size: int, deadline_s: float) -> None:
    # A process that died before has been waited for without end.
    with _alarm(max(deadline_s, MIN_START_S)):
        transport, control = MpiTransport(), MpiTransport(channel=1)
    host = socket.gethostname()
    if transport.size != size:
        raise DistributedError(
            f"MPI does not find the processes that {launcher} has started",
            got=f"MPI: {transport.size}, {launcher}: {size}",
            hint="srun --mpi=pmix starts them for MPI; the MPI of mpi4py and of mpirun are one",
        )
    own = Session(transport, control, (host,) * size, deadline_s, agreed=set())
    transport.failure = control.failure = own.failure
    everyone = range(size)
    record = {"host": host, "devices": config.devices, "nonce": secrets.token_hex(16)}
    rows = [
        json.loads(row)
        for row in own.exchanged(json.dumps(record).encode(), everyone, "the exchange of hosts")
    ]
    own.hosts = tuple([str(row["host"]) for row in rows])
    if len(set(own.hosts)) > 1:
        nonce = str(rows[0]["nonce"])
        try:
            member = security.membership(launcher, host, transport.rank)
            proof = member.proof(nonce, transport.rank)
        except DistributedError as error:
            own.exchanged(b"", everyone, "the exchange of proofs")
            raise error
        proofs = own.exchanged(proof.encode(), everyone, "the exchange of proofs")
        security.check_proofs(member, nonce, [p.decode() for p in proofs], list(own.hosts))
    own.transport = SharedTransport(transport, own.hosts, own.exchanged, transport.alive)
    below = MpiTransport(channel=2)
    below.failure = own.failure
    own.deferring = SharedTransport(below, own.hosts, own.exchanged, below.alive)
    processes.index = transport.rank
    processes.host_index = own.hosts[: transport.rank].count(host)
    processes.device_counts = tuple([int(row["devices"]) for row in rows])
    processes.bind, processes.agree = partial(messages.bind, own), _agree
    processes.begin, processes.end = partial(messages.begin, own), partial(messages.end, own)
    processes.exchanged, processes.wait = own.exchanged, own.arrived
    _SESSION.append(own)
    own.reporter, processes.check, own.courier = Reporter(own.rank), own.check, Courier()
    own.reporter.watch(own.check)
    own.job = hashlib.sha256(str(rows[0]["nonce"]).encode()).hexdigest()[:16]
    synchronize_clocks()
    own.hook, sys.excepthook = sys.excepthook, _uncaught
    atexit.register(_leave)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Let the system end this process if a call takes longer: MPI_Init may, and holds the GIL."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def progress(step: int, committed: int | None = None) -> None:
    """Tell the step that begins, for errors, and that of the last checkpoint that is whole.

    Example:
        >>> initialize()
        >>> progress(1467, committed=1400)
        >>> shutdown()
    """
    own = session()
    own.step = step
    if committed is not None:
        own.committed = committed
    if own.reporter is not None:
        own.reporter.step(step, own.committed)


def synchronize_clocks() -> int:
    """Compare the clocks of all processes, so that `tfn.profiler.merge` puts traces on one.

    All processes call it; `initialize` does.  Clocks of different hosts drift apart by some
    microseconds a second: compare them again before a trace that comes much later.

    Returns:
        The error in nanoseconds by which the difference to process 0 may be wrong.

    Example:
        >>> initialize()
        >>> synchronize_clocks()
        0
        >>> shutdown()
    """
    own, ranks = session(), range(len(session().hosts))
    if len(ranks) == 1:
        return 0
    own.current = "the comparison of clocks"
    sent, got = np.zeros(1, "int64"), np.zeros(len(ranks), "int64")
    latest = np.full(len(ranks), np.iinfo("int64").max)
    for _ in range(CLOCK_ROUNDS):
        sent[0] = time.perf_counter_ns()
        own._gather(sent, got, ranks)
        np.minimum(latest, time.perf_counter_ns() - got, out=latest)
    rows = np.zeros((len(ranks), len(ranks)), "int64")
    own._gather(latest, rows, ranks)
    own.current = ""
    # A message that was sent at t by another clock, and came at u by this one: the difference of
    # the clocks is u - t less the way, which is not negative; so each direction gives a bound.
    there, back = int(rows[own.rank, 0]), int(rows[0, own.rank])
    error_ns = max(0, there + back) // 2 if own.rank else 0
    ahead_ns = (there - back) // 2 if own.rank else 0
    processes.clock = Clock(own.job, ahead_ns, error_ns)
    return error_ns


def shutdown() -> None:
    """Leave the other processes, when all of them do; a second call does nothing."""
    if _SESSION:
        _leave()


# Agreement on programs.


def _agree(hosts: HostGrid, name: str, digest: str, messages: str) -> None:
    """Check that all processes of a mesh are about to run one program.

    Raises:
        ProgramMismatchError: naming two that are not.
    """
    own = session()
    key = hashlib.sha256(f"{hosts.ranks} {digest} {messages}".encode()).hexdigest()
    if key in own.agreed or prod(hosts.sizes) == 1:
        return
    text = json.dumps({"program": key, "name": name[:NAME_BYTES]}).encode()
    ranks = sorted(hosts.ranks)
    rows = [json.loads(row) for row in own.exchanged(text, ranks, f"the agreement on {name}")]
    for rank, row in zip(ranks, rows, strict=True):
        if row["program"] != rows[0]["program"]:
            pairs = [(ranks[0], rows[0]), (rank, row)]
            shown = [
                f"rank {r} on {own.hosts[r]}: {x['name'] or 'a program'} {x['program'][:12]}"
                for r, x in pairs
            ]
            raise ProgramMismatchError(
                "processes are about to run different programs",
                got="; ".join(shown),
                hint="all processes call the same functions in the same order, on arguments of the "
                "same shapes; nothing of it may depend on tfn.process_index()",
                host=own.hosts[rank],
                rank=rank,
                step=own.step,
                committed=own.committed,
            )
    own.agreed.add(key)


# The end.


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Print an uncaught error, and end the job: the others would wait for ever."""
    own = session()
    own.hook(kind, error, traceback)
    own.reporter.fault(error)
    sys.stdout.flush()
    sys.stderr.flush()
    if not issubclass(kind, KeyboardInterrupt) or own.failed:
        _end(own, TEMPORARY_FAILURE if isinstance(error, DistributedError) else 1)


def _end(own: Session, status: int) -> None:
    """End this process and, through the launcher, all others.

    If one has died, the others find it out as this one did: each ends itself.  Telling the launcher
    to end them, too, makes mpirun of Open MPI 5.0.11 wait for the dead one now and then.
    """
    if not own.lost:
        own.transport.close(status)
    os._exit(status)


def _leave() -> None:
    """Leave when all others do; end the job if they do not come."""
    if not _SESSION:
        return
    own = _SESSION[0]
    if own.transport.size > 1:
        if not own.failed:
            try:
                own.current = "the end of the job"
                sent, got = np.zeros(1, "uint8"), np.zeros(own.transport.size, "uint8")
                begin = own.control.all_gather(range(own.transport.size), sent, got)
                own.wait([begin()], LEAVE_S)
            except DistributedError as error:
                print(error, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        own.reporter.close()
        if own.failed:
            _end(own, TEMPORARY_FAILURE)
        sys.excepthook = own.hook
        atexit.unregister(_leave)
        own.transport.close(0)
    _SESSION.clear()
    processes.index, processes.host_index, processes.device_counts = 0, 0, None
    processes.bind = processes.agree = processes.clock = processes.check = None
    processes.begin = processes.end = processes.exchanged = processes.wait = None
