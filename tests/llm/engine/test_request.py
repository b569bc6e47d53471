"""Requests: what is left of them, and events that nobody wants."""

from __future__ import annotations

from typing import Any

from tfn.llm.engine.request import Failed, Progress, Request, Ticket


def request(deliver: Any, length: int = 0) -> Request:
    return Request([1, 2, 3, 4], 3, deliver, Ticket(lambda: None), length=length)


def test_an_answer_is_ready_when_all_but_its_last_token_are_computed() -> None:
    ready = {length: request(print, length).is_ready for length in range(5)}
    assert ready == {0: False, 1: False, 2: False, 3: True, 4: False}
    assert request(print, 1).rest == 3


def test_nothing_is_told_after_a_cancellation() -> None:
    events: list[Any] = []
    one = request(events.append)
    one.tell(Progress(1, 3))
    one.ticket.cancel()
    one.tell(Failed(ValueError()))
    assert events == [Progress(1, 3)]


def test_cancelling_wakes_the_engine() -> None:
    calls: list[int] = []
    ticket = Ticket(lambda: calls.append(1))
    ticket.cancel()
    ticket.cancel()
    assert ticket.is_cancelled and calls


def test_who_raises_is_not_told_more() -> None:
    def deaf(event: object) -> None:
        raise OSError("gone")

    one = request(deaf)
    one.tell(Progress(1, 3))
    assert one.ticket.is_cancelled
