"""Profiles for pprof: the message `Profile` of its protocol buffer, compressed.

A stack is the events around an event on its track: annotation, program, kernel.  Each has the time
that it spent itself, and the number of its calls.

    go tool pprof -http=: step.pb.gz

Source: github.com/google/pprof, proto/profile.proto; protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence

from tfn.extend import events
from tfn.profiler.export import tracks

_VARINT, _BYTES = 0, 2
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_DURATION, _PERIOD_TYPE, _PERIOD, _DEFAULT = 10, 11, 12, 14
"""Numbers of the fields of Profile."""


def pprof(listed: Iterable[events.Event], begin_ns: int, end_ns: int) -> bytes:
    """A file for pprof.

    Args:
        listed: the events.
        begin_ns, end_ns: of the time of the profile.
    """
    strings: dict[str, int] = {"": 0}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    functions: dict[tuple[str, str], int] = {}
    samples: dict[tuple[int, ...], tuple[int, int]] = {}
    for inside in tracks(listed).values():
        for stack, own_ns in _stacks(inside):
            names = [(event.kind, _name(event)) for event in reversed(stack)]
            key = tuple(functions.setdefault(name, len(functions) + 1) for name in names)
            calls, spent_ns = samples.get(key, (0, 0))
            # Threads may log calls in another order than they counted them in.
            times = max(0, stack[-1].calls)
            samples[key] = calls + times, spent_ns + max(0, own_ns) * times
    body = b""
    for what, unit in (("calls", "count"), ("time", "nanoseconds")):
        value_type = _number(1, string(what)) + _number(2, string(unit))
        body += _bytes(_SAMPLE_TYPE, value_type)
    for key, values in samples.items():
        places, figures = (b"".join(map(_varint, row)) for row in (key, values))
        body += _bytes(_SAMPLE, _bytes(1, places) + _bytes(2, figures))
    for (kind, name), number in functions.items():
        line = _bytes(4, _number(1, number))
        body += _bytes(_LOCATION, _number(1, number) + line)
        named = _number(2, string(name)) + _number(3, string(name)) + _number(4, string(kind))
        body += _bytes(_FUNCTION, _number(1, number) + named)
    period = _bytes(_PERIOD_TYPE, _number(1, string("time")) + _number(2, string("nanoseconds")))
    default = _number(_DEFAULT, string("time"))
    body += b"".join(_bytes(_STRINGS, text.encode()) for text in strings)
    body += _number(_DURATION, max(0, end_ns - begin_ns)) + period + _number(_PERIOD, 1) + default
    return gzip.compress(body, mtime=0)


def _name(event: events.Event) -> str:
    """The name of a function: pprof shows no kinds."""
    named = event.kind in ("program", "kernel", "annotation")
    return event.name if named else f"{event.kind} {event.name}".rstrip()


def _stacks(inside: Sequence[events.Event]) -> Iterator[tuple[list[events.Event], int]]:
    """Each event with those around it, outermost first, and the time that none within it has."""
    stack: list[events.Event] = []
    own_ns: list[int] = []
    for event in inside:
        while stack and stack[-1].end_ns <= event.begin_ns:
            yield stack[:], own_ns.pop()
            stack.pop()
        if own_ns:
            own_ns[-1] -= (min(event.end_ns, stack[-1].end_ns) - event.begin_ns) * event.calls
        stack.append(event)
        own_ns.append(event.duration_ns)
    while stack:
        yield stack[:], own_ns.pop()
        stack.pop()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value
