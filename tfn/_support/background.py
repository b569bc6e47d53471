"""A call on a thread of its own, which starts at the end of the process, too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """A function that runs beside its caller.

    Executors of `concurrent.futures` take no work once the main thread has ended, while a thread
    that writes the last checkpoint still runs.  From Python 3.12 no thread can be started then: the
    caller runs the function.

    Args:
        work: the function.

    Example:
        >>> Background(lambda: 6 * 7).result()
        42
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        try:
            self._thread.start()
        except RuntimeError:
            self._run()

    def _run(self) -> None:
        try:
            self._found.append(self._work())
        except BaseException as error:  # raised by `result`
            self._error = error

    def result(self) -> T:
        """Its result, when it has ended.

        Raises:
            BaseException: what the function raised.
        """
        if self._thread.ident is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]
