"""Waiting for messages with a deadline; the transport of a process alone."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tfn.distributed.transport import Alone, timeout, wait
from tfn.errors import CollectiveTimeoutError


class Late:
    """A message that arrives when it is asked for the n-th time."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def test(self) -> bool:
        self.left -= 1
        return self.left < 0


def never(waited_s: float) -> Exception:
    return timeout(
        "psum", waited_s=waited_s, host="a", rank=2, step=7, collective="psum", committed=5
    )


def test_messages_that_arrive() -> None:
    messages = [Late(0), Late(1), Late(500)]
    wait(messages, 20.0, never)
    assert [message.left for message in messages] == [-1, -1, -1]
    wait([], 0.0, never)


def test_a_message_that_does_not_arrive_is_an_error_after_the_deadline() -> None:
    begin = time.monotonic()
    with pytest.raises(CollectiveTimeoutError, match=r"psum has not ended in 0\.[01]") as caught:
        wait([Late(1 << 60)], 0.05, never)
    assert time.monotonic() - begin >= 0.05
    error = caught.value
    assert (error.host, error.rank, error.step, error.committed) == ("a", 2, 7, 5)
    assert "host a, rank 2, step 7, in psum, last committed step 5" in str(error)


def test_a_failed_message_is_an_error_at_once() -> None:
    class Failed:
        def test(self) -> bool:
            raise RuntimeError("the link is down")

    with pytest.raises(RuntimeError, match="the link is down"):
        wait([Failed()], 60.0, never)


def test_a_process_alone_copies() -> None:
    alone, x = Alone(), np.arange(6, dtype="uint8")
    for begin in (alone.all_gather, alone.all_to_all):
        out = np.zeros((1, 6), "uint8")
        assert begin([0], x, out)().test() and out.ravel().tolist() == x.tolist()
    out = np.ones(6, "uint8")
    assert alone.permute([0], [(0, 0)], x, out)().test() and out.tolist() == x.tolist()
    assert alone.permute([0], [], x, out)().test() and not out.any()
    alone.close(0)
