"""The communication thread: it asks for messages on their way while the program computes.

A message moves on only while somebody asks for it.  The thread that has begun it goes on with the
program, without the interpreter's lock, and asks again when it needs the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfn._support import events
from tfn.distributed.transport import Pending

REST_S = 0.0001
"""The pause between two questions while a message waits for another process: a piece of 1 MiB
takes 500 us on a network, and a question some microseconds of a core."""


class Deferred:
    """Messages that have begun, of one call.

    Args:
        pending: the messages.
        tell: called when all have arrived, with the time of the beginning.
    """

    def __init__(self, pending: Sequence[Pending], tell: Callable[[int], None]) -> None:
        self._left, self._tell = list(pending), tell
        self._begin_ns = time.perf_counter_ns()
        self._error: BaseException | None = None

    def ask(self) -> bool:
        """Whether all have arrived; an error is kept for who waits."""
        try:
            left = self._left
            # A message that takes long goes on in steps, so that others can begin between them.
            self._left = [m for m in left if not getattr(m, "step", m.test)()]
        except BaseException as error:
            self._error, self._left = error, []
            return True
        if left and not self._left:
            self._tell(self._begin_ns)
        return not self._left

    def test(self) -> bool:
        """Whether all have arrived.

        Raises:
            BaseException: what went wrong with one.
        """
        done = self.ask()
        if self._error is not None:
            raise self._error
        return done


class Courier:
    """A thread that asks for messages, and the lock that whoever asks for one holds."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._carried: dict[Any, Deferred] = {}
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def carry(self, key: Any, message: Deferred) -> None:
        """Take messages that have begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="messages", daemon=True)
            self._thread.start()
        with self.lock:
            self._carried[key] = message
        self._some.set()

    def taken(self, key: Any) -> Deferred:
        """The messages of a key, for whom it is time to wait for them."""
        with self.lock:
            return self._carried.pop(key)

    def _run(self) -> None:
        while True:
            self._some.wait()
            with self.lock:
                left = [message for message in self._carried.values() if not message.ask()]
                if not left:
                    self._some.clear()
            time.sleep(REST_S)


def told(name: str, detail: str, moved_bytes: int) -> Callable[[int], None]:
    """The function that adds the event of a message that has arrived to the log."""

    def tell(begin_ns: int) -> None:
        events.add("collective", name, begin_ns, detail, moved_bytes=moved_bytes)

    return tell
