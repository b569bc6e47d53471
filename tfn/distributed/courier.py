"""The communication thread: it polls messages on their way while the program computes.

A message moves on only while a thread polls it.  The program's thread computes meanwhile, without
the interpreter's lock, and polls too when it needs the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfn.distributed.transport import Pending

REST_S = 0.0001
"""The pause between two polls while a message waits for another process: a piece of 1 MiB takes
500 us on a network, and a poll some microseconds of a core."""


class Deferred:
    """The messages of one call.

    Args:
        begins: the functions that start them.
        tell: called when all have arrived, with the time of the call.

    Attributes:
        ended: whether all have arrived, or one has failed.
    """

    def __init__(
        self, begins: Sequence[Callable[[], Pending]], tell: Callable[[int], None]
    ) -> None:
        self._begins, self._tell = begins, tell
        self._left: list[Pending] | None = None
        self._called_ns = time.perf_counter_ns()
        self._error: Exception | None = None
        self.ended = False

    def poll(self) -> None:
        """Start the messages at the first time, and let them move on; an error is kept."""
        if self.ended:
            return
        try:
            if self._left is None:
                self._left = [begin() for begin in self._begins]
            self._left = [message for message in self._left if not message.test()]
            if not self._left:
                self._tell(self._called_ns)
                self.ended = True
        except Exception as error:  # raised by `check`; an interrupt ends the program at once
            self._error, self.ended = error, True

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error


class Courier:
    """Messages that are on their way, and the thread that polls them.

    All are started in the order in which they were given, whichever thread does it.
    """

    def __init__(self) -> None:
        self._carried: dict[Any, Deferred] = {}
        self._polling = threading.Lock()
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def carry(self, key: Any, message: Deferred) -> None:
        """Take messages, under a name until they have been waited for."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="messages", daemon=True)
            self._thread.start()
        self._carried[key] = message
        self._some.set()

    def test(self) -> bool:
        """Whether none is on its way."""
        return not self.poll()

    def waiting(self, key: Any) -> Waiting:
        """The messages of a name, as one to be waited for."""
        return Waiting(self, key, self._carried[key])

    def poll(self) -> bool:
        """Poll all messages, unless another thread does; whether some are on their way."""
        if not self._polling.acquire(blocking=False):
            return True
        try:
            messages = [*self._carried.values()]
            for message in messages:
                message.poll()
            return not all(message.ended for message in messages)
        finally:
            self._polling.release()

    def drop(self, key: Any) -> None:
        """Forget messages that have ended."""
        del self._carried[key]

    def _run(self) -> None:
        while True:
            self._some.wait()
            self._some.clear()
            while self.poll():
                time.sleep(REST_S)


class Waiting:
    """Messages on their way, as a message to be waited for."""

    def __init__(self, courier: Courier, key: Any, message: Deferred) -> None:
        self._courier, self._key, self._message = courier, key, message

    def test(self) -> bool:
        """Whether all have arrived.

        Raises:
            DistributedError: what went wrong with one.
        """
        if not self._message.ended:
            self._courier.poll()
        if self._message.ended:
            self._courier.drop(self._key)
            self._message.check()
        return self._message.ended
