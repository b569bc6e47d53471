"""Messages that go on while the program computes."""

from __future__ import annotations

import threading
import time

import pytest

from tfn.distributed.courier import Courier, Deferred
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


def begun(message: Message) -> tuple[Deferred, list[int]]:
    told: list[int] = []
    return Deferred([lambda: message], told.append), told


def carried(message: Message) -> tuple[Courier, list[int]]:
    courier, (deferred, told) = Courier(), begun(message)
    courier.carry(1, deferred)
    for _ in range(500):
        if deferred.ended:
            break
        time.sleep(0.01)
    return courier, told


def test_a_thread_asks_until_a_message_has_arrived() -> None:
    message = Message(5)
    courier, told = carried(message)
    assert message.left == -1 and message.threads == {"messages"} and len(told) == 1
    assert courier.waiting(1).test()
    assert message.left == -1  # it is not asked for again
    with pytest.raises(KeyError):
        courier.waiting(1)


def test_an_error_is_raised_where_the_message_is_waited_for() -> None:
    courier, told = carried(Message(2, fails=True))
    with pytest.raises(WorkerLostError, match="has died"):
        courier.waiting(1).test()
    assert not told


def test_who_waits_asks_too_and_messages_start_in_their_order() -> None:
    courier, started = Courier(), []
    with courier._polling:  # the thread cannot
        for key in range(3):

            def begin(key: int = key) -> Message:
                started.append(key)
                return Message(0)

            courier.carry(key, Deferred([begin], lambda called_ns: None))
        assert not courier.waiting(2).test() and not started
    while not (waiting := courier.waiting(2)).test():
        time.sleep(0.001)
    assert started == [0, 1, 2] and waiting
