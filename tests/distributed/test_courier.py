"""Messages that go on while the program computes."""

from __future__ import annotations

import threading
import time

import pytest

from tfn.distributed.courier import Courier, Deferred, told
from tfn.errors import WorkerLostError


class Message:
    """One that arrives when it is asked for the n-th time, or fails."""

    def __init__(self, asked: int, fails: bool = False) -> None:
        self.left, self.fails = asked, fails
        self.threads: set[str] = set()

    def test(self) -> bool:
        self.threads.add(threading.current_thread().name)
        self.left -= 1
        if self.fails and self.left < 0:
            raise WorkerLostError("a process has died")
        return self.left < 0


def carried(message: Message) -> tuple[Courier, Deferred]:
    courier, seen = Courier(), threading.Event()
    courier.carry(1, Deferred([message], lambda begin_ns: seen.set()))
    for _ in range(500):
        if message.left < 0:
            break
        time.sleep(0.01)
    return courier, courier.taken(1)


def test_a_thread_asks_until_a_message_has_arrived() -> None:
    message = Message(5)
    _, deferred = carried(message)
    assert message.left == -1 and message.threads == {"messages"}
    assert deferred.test()
    assert message.left == -1  # it is not asked for again


def test_an_error_is_raised_where_the_message_is_waited_for() -> None:
    _, deferred = carried(Message(2, fails=True))
    for _ in range(2):
        with pytest.raises(WorkerLostError, match="has died"):
            deferred.test()


def test_who_waits_asks_itself() -> None:
    message = Message(1)
    deferred = Deferred([message], told("all_reduce over d", "", 4))
    assert not deferred.test() and deferred.test()
