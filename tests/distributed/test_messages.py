"""Messages of programs: values that share a message, and their names in errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed.echo import Echo
from tfn.distributed import messages
from tfn.distributed.session import Session
from tfn.trace.processes import HostGrid, Message
from tfn.trace.sharding import Exchange


@pytest.fixture
def pair() -> Session:
    """A session with one other process, the same as this one."""
    return Session(Echo(), Echo(), ("a", "b"), 5.0, agreed=set())


@pytest.mark.parametrize("sizes", [(3,), (3, 1, 5), (40_000, 2), (2, 40_000, 3)])
def test_values_of_one_message_arrive_in_their_places(
    pair: Session, sizes: tuple[int, ...]
) -> None:
    hosts = HostGrid((2,), (0, 1))
    gather, exchange, move = (
        Message(kind, "d", 0, hosts, ((0, 1), (1, 0)))
        for kind in (Exchange.GATHER, Exchange.TRANSPOSE, Exchange.PERMUTE)
    )
    xs = [np.arange(n, dtype="int32") + n for n in sizes]
    outs = [np.zeros((2, n), "int32") for n in sizes]
    call = messages.bind(pair, gather, outs, xs)
    for _ in range(2):
        call()
    assert all((out == x).all() for x, out in zip(xs, outs, strict=True))
    rows = [np.stack([x, x + 1]) for x in xs]
    messages.bind(pair, exchange, outs, rows)()
    assert all((out == x + 1).all() for x, out in zip(xs, outs, strict=True))
    flat = [np.zeros_like(x) for x in xs]
    messages.bind(pair, move, flat, xs)()
    assert all((out == x).all() for x, out in zip(xs, flat, strict=True))


def test_the_name_of_a_message_in_errors(pair: Session) -> None:
    message = Message(Exchange.GATHER, "d", 0, HostGrid((2,), (0, 1)))
    xs = [np.zeros((2, 3), "float32"), np.zeros(1, "int8")]
    assert messages.label(message, xs) == "all_gather over d: f32[2,3], 1 more"
