"""The thread that writes checkpoints while the run goes on: one save at a time.

A save that is asked for while another is written waits for it, so that no more than the arrays of
one checkpoint are held.  An error is raised where the run next asks; one that no call asks for
is printed at the end of the process, which waits for the thread.
"""

from __future__ import annotations

import atexit
import sys
import threading
import traceback
from collections.abc import Callable

_UNRAISED: dict[threading.Thread, BaseException] = {}
"""Errors that no call has raised, by the thread that they ended."""


class Writer:
    """Runs jobs one after the other, on a thread.

    Example:
        >>> writer, done = Writer(), []
        >>> writer.start(lambda: done.append(1))
        >>> writer.wait()
        >>> done
        [1]
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Waits until the job that was started last has ended.

        Raises:
            Exception: the one that ended it, once.
        """
        thread = self._thread
        if thread is None:
            return
        thread.join()  # an interrupt leaves it running, and may be followed by another wait
        self._thread = None
        if thread in _UNRAISED:
            raise _UNRAISED.pop(thread)

    def start(self, job: Callable[[], None]) -> None:
        """Runs a job when those before it have ended; their error is raised instead."""
        self.wait()

        def run() -> None:
            try:
                job()
            except BaseException as error:  # raised by `wait`
                _UNRAISED[threading.current_thread()] = error

        # No daemon: at the end of the process Python waits for it, so that nothing is lost.
        thread = threading.Thread(target=run, name="checkpoint", daemon=False)
        try:
            thread.start()
        except RuntimeError:  # from Python 3.12 none can be started when the main thread has ended
            job()
        else:
            self._thread = thread


@atexit.register
def _report() -> None:
    """Print the errors that no call has raised."""
    for error in _UNRAISED.values():
        print("a checkpoint was not written:", file=sys.stderr)
        traceback.print_exception(error)
