"""Command ring: commands of the DSP as frozen records, their words, the layout of memory.

    byte 0        head and tail of the ring, in words; the last signal; a call of the host
    byte 256      the `sync` words of the program that runs
    byte 4096     the ring: records of words
    byte 2 MiB    the stack
    byte 16 MiB   code of programs
    byte 256 MiB  buffers

A record is a code, its length in words, then its fields; it never wraps around the end of the ring.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tfn.errors import DeviceError
from tfn.extend import frozen

BASE = 0x4000_0000
"""The address of shared memory under the emulator; another transport may map it elsewhere."""
TOTAL_BYTES = 0x8000_0000
"""The size of shared memory: half of what 32 bits can address."""
CODE_AT = STACK_END = 16 << 20
BUFFERS_AT = 256 << 20
TAIL_AT, HEAD_AT, SIGNAL_AT, HOST_NUMBER_AT, HOST_OPERANDS_AT = range(0, 20, 4)
SYNC_AT = 256
HOST_ENTRY_AT = SYNC_AT + 8
FAILURE_AT = SYNC_AT + 16
PROGRESS_AT = SYNC_AT + 24
"""The number of the launch that runs; it and the two before it are places in `sync` that
`lower.codegen.render.driver` says."""
RING_AT = 4096
RING_WORDS = 1 << 18

SKIP, LAUNCH, COPY, SIGNAL, WAIT = range(5)
"""Codes of records; the first is what is left before the end of the ring."""
HOST_CALLED, READY = 0, 0xFFFF_FFFF
"""Words that the DSP rings with: a call of the host, the end of its start.  Others are signals."""
LAST_SIGNAL = 0x7FFF_FFFF
COMMANDED, ANSWERED = 1, 2
"""Words that the host rings with: new commands, or a memory word that is waited for; the end of a
call of the host."""


@frozen
class Launch:
    """A program that is run.

    Attributes:
        entry: the address of its function.
        arena: the address of its arena.
        buffers: addresses of its inputs, then of its outputs.
    """

    entry: int
    arena: int
    buffers: tuple[int, ...]


@frozen
class Copy:
    """Bytes that are copied; the ranges do not overlap."""

    to: int
    source: int
    size_bytes: int


@frozen
class Signal:
    """The host is told that all commands before this one have finished.

    Attributes:
        value: from 1 to `LAST_SIGNAL`.
    """

    value: int


@frozen
class Wait:
    """Commands after this one wait until a word of memory has a value; the host rings then."""

    address: int
    value: int


Command = Launch | Copy | Signal | Wait


def words(command: Command) -> list[int]:
    """A command as a record.

    Example:
        >>> words(Signal(7))
        [3, 4, 7, 0]
    """
    if isinstance(command, Launch):
        fields = [command.entry, command.arena, *command.buffers]
        code = LAUNCH
    elif isinstance(command, Copy):
        fields, code = [command.to, command.source, command.size_bytes], COPY
    elif isinstance(command, Signal):
        fields, code = [command.value], SIGNAL
    else:
        fields, code = [command.address, command.value], WAIT
    # An even length: what is left before the end of the ring has room for a code and a length.
    padding = [0] * (len(fields) % 2)
    return [code, 2 + len(fields) + len(padding), *fields, *padding]


def records(commands: Sequence[Command], head: int) -> list[tuple[int, list[int]]]:
    """Places in the ring, in words, and the records that are written there, in order.

    Args:
        commands: all of them finish before the ring is written again.
        head: the number of words that were written so far.

    Raises:
        DeviceError: if they do not fit into the ring.

    Example:
        >>> records([Signal(1)], RING_WORDS - 2)
        [(262142, [0, 2]), (0, [3, 4, 1, 0])]
    """
    out: list[tuple[int, list[int]]] = []
    total = 0
    for command in commands:
        record = words(command)
        at = (head + total) % RING_WORDS
        if at + len(record) > RING_WORDS:
            rest = RING_WORDS - at
            out.append((at, [SKIP, rest]))
            total, at = total + rest, 0
        out.append((at, record))
        total += len(record)
    if total > RING_WORDS:
        raise DeviceError(
            "a program has more buffers than a launch of the DSP can name",
            got=f"{total:,} words of commands, and {RING_WORDS:,} in the ring",
            hint="pass fewer arrays: stack those of equal shapes",
        )
    return out


HOLES: dict[str, object] = {
    "TAIL": TAIL_AT,
    "HEAD": HEAD_AT,
    "SIGNALLED": SIGNAL_AT,
    "HOST_NUMBER": HOST_NUMBER_AT,
    "HOST_OPERANDS": HOST_OPERANDS_AT,
    "HOST_ENTRY": HOST_ENTRY_AT,
    "FAILURE": FAILURE_AT,
    "SYNC": SYNC_AT,
    "STACK": STACK_END,
    "RING": RING_AT,
    "RING_MASK": RING_WORDS - 1,
    "HOST_CALLED": HOST_CALLED,
    "READY": READY - 2**32,
    "ANSWERED": ANSWERED,
    "SKIP": SKIP,
    "LAUNCH": LAUNCH,
    "COPY": COPY,
    "SIGNAL": SIGNAL,
    "WAIT": WAIT,
}
"""Places in shared memory and codes, as `monitor.ll` reads them."""

FOLDER = os.path.dirname(__file__)
