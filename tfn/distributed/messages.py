"""Messages of programs, prepared for the memory that they go from and to.

bind     the whole exchange: the call waits for it; small values share a message
begin    the start of an exchange, with which the communication thread goes on
end      the wait for it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tfn.distributed.courier import Courier, Deferred
from tfn.distributed.reduction import Reduction
from tfn.distributed.transport import Pending, Transport
from tfn.dtypes import SHORT
from tfn.extend import Exchange, Message, events
from tfn.trace.processes import Arrays

PACK_MAX_BYTES = 64 << 10
"""The largest value that is copied into one buffer with others: copying 64 KiB takes 5 us, and a
message of its own takes as long to start on a network."""


class Process(Protocol):
    """This process among others, as far as messages need it; see `session.Session`.

    Attributes:
        transport, deferring: the carriers of messages that end with their call, and of those that
            go on beside the program.
        courier: the thread that polls the latter.
        deadline_s: seconds for which a message is waited for.
        current: the exchange that runs, for errors.
    """

    transport: Transport
    deferring: Transport | None
    courier: Courier | None
    deadline_s: float
    current: str

    @property
    def rank(self) -> int:
        """The number of this process."""
        ...

    def wait(self, pending: Sequence[Pending], deadline_s: float) -> None:
        """Wait for messages, until the deadline."""
        ...


def bind(own: Process, message: Message, results: Arrays, operands: Arrays) -> Callable[[], None]:
    """A message prepared for its memory: small values go in one buffer."""
    ranks = message.hosts.line(message.axis, own.rank)
    _settle(own)
    packs = len(operands) > 1 and message.kind is not Exchange.REDUCE
    small = [x.nbytes <= PACK_MAX_BYTES and packs for x in operands]
    begins: list[Callable[[], Pending]] = []
    for x, out, packed in zip(operands, results, small, strict=True):
        if not packed:
            begins.append(_prepared(own.transport, message, ranks, x, out))
    shown = label(message, operands)
    if any(small):
        rows = len(ranks) if message.kind is Exchange.TRANSPOSE else 1
        packed_results = [_bytes(out) for out, s in zip(results, small, strict=True) if s]
        packed_operands = [_bytes(x) for x, s in zip(operands, small, strict=True) if s]
        widths = [x.nbytes // rows for x in packed_operands]
        ends = np.cumsum(widths).tolist()
        sent = np.empty((rows, ends[-1]), "uint8")
        came = 1 if message.kind is Exchange.PERMUTE else len(ranks)
        got = np.empty((came, ends[-1]), "uint8")
        begins.append(_prepared(own.transport, message, ranks, sent, got))
        spans = [slice(end - n, end) for n, end in zip(widths, ends, strict=True)]
        sources = [x.reshape(rows, -1) for x in packed_operands]
        targets = [out.reshape(came, -1) for out in packed_results]
        parts = list(zip(spans, sources, targets, strict=True))

    def call_one() -> None:
        own.current = shown
        pending = begins[0]()
        if not pending.test():
            own.wait([pending], own.deadline_s)

    def call() -> None:
        own.current = shown
        if any(small):
            for span, source, _ in parts:
                sent[:, span] = source
        own.wait([begin() for begin in begins], own.deadline_s)
        if any(small):
            for span, _, target in parts:
                target[...] = got[:, span]

    return call_one if len(operands) == 1 else call


def begin(own: Process, message: Message, results: Arrays, operands: Arrays) -> Callable[[], None]:
    """The start of a message that goes on beside the program, on a transport of its own."""
    deferring, courier = own.deferring, own.courier
    assert deferring is not None and courier is not None, "the process has joined others"
    ranks = message.hosts.line(message.axis, own.rank)
    _settle(own)
    begins = [
        _prepared(deferring, message, ranks, x, out)
        for x, out in zip(operands, results, strict=True)
    ]
    key, shown = _key(results), label(message, operands)
    moved_bytes = message.received_bytes(sum(out.nbytes for out in results))
    detail = f"{shown}: {moved_bytes:,} bytes received, beside the program"

    def tell(called_ns: int) -> None:
        events.add("collective", str(message), called_ns, detail, moved_bytes=moved_bytes)

    def call() -> None:
        courier.carry(key, Deferred(begins, tell))

    return call


def end(own: Process, message: Message, results: Arrays) -> Callable[[], None]:
    """The wait for a message that has begun."""
    key, courier = _key(results), own.courier
    assert courier is not None, "the process has joined others"

    def call() -> None:
        own.current = str(message)
        own.wait([courier.waiting(key)], own.deadline_s)

    return call


def _settle(own: Process) -> None:
    """Wait until no message is on its way: a communicator is made by a call that blocks."""
    if own.courier is not None and not own.courier.test():
        own.wait([own.courier], own.deadline_s)


def _key(results: Arrays) -> tuple[int, ...]:
    return tuple([out.__array_interface__["data"][0] for out in results])


def _bytes(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array, sharing its memory."""
    return x.reshape(-1).view("uint8")


def _prepared(
    transport: Transport, message: Message, ranks: Sequence[int], sent: Any, got: Any
) -> Callable[[], Pending]:
    kind, sent, got = sent.dtype, _bytes(sent), _bytes(got)
    if message.kind is Exchange.PERMUTE:
        return transport.permute(ranks, message.pairs, sent, got)
    if message.kind is Exchange.REDUCE:
        assert message.op is not None
        return transport.all_reduce(ranks, Reduction(message.op, kind), sent, got)
    return START[message.kind](transport, ranks, sent, got)


START: dict[Exchange, Callable[..., Callable[[], Pending]]] = {
    Exchange.GATHER: lambda transport, *rest: transport.all_gather(*rest),
    Exchange.TRANSPOSE: lambda transport, *rest: transport.all_to_all(*rest),
}
"""The operation of the transport for each kind of message, beside PERMUTE and REDUCE."""


def label(message: Message, operands: Arrays) -> str:
    """A message as errors name it: ``all_gather over data: f32[4,2], 2 more``."""
    first = operands[0]
    shown = f"{SHORT[first.dtype]}[{','.join(map(str, first.shape))}]"
    more = f", {len(operands) - 1} more" if len(operands) > 1 else ""
    return f"{message}: {shown}{more}"
