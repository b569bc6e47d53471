"""pprof: the message, decoded by a reader of its own."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

from tfn._support.events import Event
from tfn.profiler.pprof import pprof

LISTED = [
    Event("annotation", "step", 1000, 9000, thread=7),
    Event("program", "f", 2000, 5000),
    Event("kernel", "f 0 dot", 2500, 3500, launch=0),
    Event("kernel", "f 1 add", 3500, 3600, calls=10, launch=1),
    Event("program", "f", 6000, 7000),
    Event("wait", "f", 7000, 7500),
]


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def numbers(data: bytes) -> list[int]:
    """A packed list: each number is a field of its own to the reader."""
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            out.append(value)
            value = shift = 0
    return out


def decoded() -> tuple[list[str], dict[tuple[str, ...], list[int]], dict[int, Any]]:
    message = list(fields(gzip.decompress(pprof(LISTED, 0, 10_000))))
    strings = [text.decode() for number, text in message if number == 6]
    functions = {}
    for number, data in message:
        if number == 5:
            row = dict(fields(data))
            functions[row[1]] = strings[row[2]]
    samples = {}
    for number, data in message:
        if number == 2:
            row = dict(fields(data))
            samples[tuple(functions[i] for i in numbers(row[1]))] = numbers(row[2])
    return strings, samples, dict(message)


def test_stacks_have_their_own_time_and_calls() -> None:
    strings, samples, message = decoded()
    assert strings[0] == ""
    assert samples == {
        ("step",): [1, 8000 - 3000 - 1000 - 500],
        ("wait f", "step"): [1, 500],
        ("f", "step"): [2, (3000 - 1000 - 10 * 100) + 1000],
        ("f 0 dot", "f", "step"): [1, 1000],
        ("f 1 add", "f", "step"): [10, 1000],
    }
    assert message[10] == 10_000 and strings[message[14]] == "time"


def test_values_have_types_and_units() -> None:
    message = list(fields(gzip.decompress(pprof(LISTED, 0, 10_000))))
    strings = [text.decode() for number, text in message if number == 6]
    types = [dict(fields(data)) for number, data in message if number == 1]
    assert [(strings[t[1]], strings[t[2]]) for t in types] == [
        ("calls", "count"),
        ("time", "nanoseconds"),
    ]
    locations = [dict(fields(data)) for number, data in message if number == 4]
    assert [dict(fields(row[4]))[1] for row in locations] == [row[1] for row in locations]
