"""Transports: what carries bytes between processes; and waiting for them, with a deadline.

Messages within a process are none: its devices share memory, and their exchanges are compiled.
Between processes there are four kinds.  Three move bytes; the fourth combines large values, with
arithmetic that is compiled too, see `reduction`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tfn.distributed.reduction import Reduction
from tfn.errors import CollectiveTimeoutError

SPIN_NS = 200_000
"""For so long a wait asks again and again: messages of 64 KiB on one machine arrive in 20 us, and
a thread that sleeps wakes up 50 us late."""
YIELD_NS = 20_000_000
"""For so long it lets other threads run between two questions: a message of 64 MiB takes 20 to 100
ms, and goes on only while it is asked for."""
SLEEP_S = 0.0005
"""After that it sleeps so long between two questions: another process is late, by compiling or for
ever, and a waiting process leaves its core to others."""

Pairs = Sequence[tuple[int, int]]


class Pending(Protocol):
    """A message on its way."""

    def test(self) -> bool:
        """Whether it has arrived; may raise what went wrong with it."""
        ...


class Transport(Protocol):
    """A carrier of messages between the processes of a job.

    A message is prepared once for the memory that it goes from and to; the function that is
    returned starts it, any number of times.  Ranks are those of the job, in the order of the axis.
    """

    rank: int
    size: int

    def all_gather(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """The bytes of each, one after another, for all."""
        ...

    def all_to_all(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """The i-th of equal parts of the bytes of each goes to the i-th."""
        ...

    def all_reduce(
        self, ranks: Sequence[int], reduction: Reduction, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """The values of all combined, for all: elements as many as there are ranks, at least."""
        ...

    def permute(
        self, ranks: Sequence[int], pairs: Pairs, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """The bytes from source to destination of each pair; zeros where none arrive."""
        ...

    def close(self, status: int) -> None:
        """Leave the job; with a status other than 0, end it, without waiting for others."""
        ...


class Arrived:
    """A message that needs not go anywhere."""

    def test(self) -> bool:
        """True."""
        return True


class Alone:
    """The transport of a process without others."""

    rank, size = 0, 1

    def all_gather(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """A copy."""
        return lambda: _copied(sent, got)

    def all_to_all(self, ranks: Sequence[int], sent: Any, got: Any) -> Callable[[], Pending]:
        """A copy."""
        return lambda: _copied(sent, got)

    def all_reduce(
        self, ranks: Sequence[int], reduction: Reduction, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """A copy."""
        return lambda: _copied(sent, got)

    def permute(
        self, ranks: Sequence[int], pairs: Pairs, sent: Any, got: Any
    ) -> Callable[[], Pending]:
        """A copy, or zeros."""
        return lambda: _copied(sent if pairs else np.zeros_like(got), got)

    def close(self, status: int) -> None:
        """Nothing."""


def _copied(sent: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> Pending:
    got[...] = sent.reshape(got.shape)
    return Arrived()


def wait(pending: Sequence[Pending], deadline_s: float, late: Callable[[float], Exception]) -> None:
    """Return when all messages have arrived.

    Args:
        deadline_s: seconds from now.
        late: the error for a message that has not arrived after so many seconds.

    Raises:
        CollectiveTimeoutError: what `late` gives, after the deadline.
    """
    left = [message for message in pending if not message.test()]
    if not left:
        return
    begin_ns = time.perf_counter_ns()
    while True:
        left = [message for message in left if not message.test()]
        if not left:
            return
        waited_ns = time.perf_counter_ns() - begin_ns
        if waited_ns > SPIN_NS:
            if waited_ns > deadline_s * 1e9:
                raise late(waited_ns / 1e9)
            time.sleep(0 if waited_ns < YIELD_NS else SLEEP_S)


def timeout(what: str, **facts: Any) -> CollectiveTimeoutError:
    """The error for a message that does not arrive."""
    return CollectiveTimeoutError(
        f"{what} has not ended in {facts.pop('waited_s'):.1f} s",
        hint="a process or a link is gone, or one process runs another program; "
        "initialize(deadline_s=...) allows for slower ones",
        **facts,
    )
