"""Protocol Buffers: values come back, and damaged bytes are one kind of error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.building import encoded, graph, model, node
from tfn.errors import StateError
from tfn.onnx import load
from tfn.onnx.schema import SCHEMAS
from tfn.onnx.wire import DEPTH_LIMIT, MERGED_BYTES, Field, _encoded, parse, written

ROW = {"R": {1: Field("n", "int"), 2: Field("xs", "int", True), 3: Field("d", "double", True)}}


def parsed(data: bytes, schemas: Any = ROW) -> Any:
    return parse(memoryview(data), next(iter(schemas)), schemas)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 2**31, 2**63 - 1, -1, -(2**63)])
def test_integers_of_64_bits_come_back(n: int) -> None:
    assert parsed(b"\x08" + _encoded(n))["n"] == n


def test_repeated_numbers_are_packed_or_apart() -> None:
    packed = _encoded(300) + _encoded(-2)
    assert parsed(b"\x10\x01\x12" + _encoded(len(packed)) + packed)["xs"] == [1, 300, -2]
    assert parsed(b"\x12\x03\x00\x01\x7f")["xs"] == [0, 1, 127]
    doubles = np.array([1.5, -2.0]).tobytes()
    assert parsed(b"\x1a\x10" + doubles)["d"] == [1.5, -2.0]


def test_the_last_of_a_single_field_counts_and_unknown_ones_are_passed_over() -> None:
    assert parsed(b"\x08\x01\x08\x02\x4d\x00\x00\x00\x00")["n"] == 2


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",  # a key without a value
        b"\x08" + b"\xff" * 11,  # a number that does not end
        b"\x12\x7fab",  # longer than the message
        b"\x0b\x00",  # a way of writing that there is not
        b"\x1a\x03abc",  # doubles of three bytes
        b"\x0d\x00\x00\x00\x00",  # an integer written as a float
    ],
)
def test_damaged_fields_are_errors(data: bytes) -> None:
    with pytest.raises(StateError, match="no ONNX model"):
        parsed(data)


def test_messages_nest_to_a_limit() -> None:
    data = b""
    for _ in range(DEPTH_LIMIT + 2):
        data = b"\x0a" + _encoded(len(data)) + data
    with pytest.raises(StateError, match="no ONNX model"):
        parse(memoryview(data), "R", {"R": {1: Field("r", "R")}})


def test_a_text_that_is_none_is_an_error() -> None:
    with pytest.raises(StateError, match="no ONNX model"):
        parse(memoryview(b"\x0a\x01\xff"), "Entry", SCHEMAS)


def test_cut_and_flipped_files_load_or_are_errors_of_tfn() -> None:
    """Nothing else: no IndexError, no MemoryError, no endless loop."""
    weights = {"w": np.ones((3, 2), np.float32), "n": np.array([-1, 2], np.int64)}
    rows = [node("MatMul", "x w", "h"), node("Reshape", "h n", "y")]
    data = model(graph(rows, ["x"], ["y"], weights))
    rng = np.random.default_rng(0)
    damaged = [data[: rng.integers(len(data))] for _ in range(60)]
    for _ in range(240):
        copy = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            copy[rng.integers(len(copy))] ^= 1 << rng.integers(8)
        damaged.append(bytes(copy))
    refused = 0
    for each in damaged:
        try:
            load(each)
        except StateError:
            refused += 1
    assert refused > 100
    assert load(data).params["w"].shape == (3, 2)


def test_what_is_encoded_is_what_is_read() -> None:
    message = {"name": "n", "f": 1.5, "ints": [1, -2], "type": 7}
    read = parse(memoryview(encoded("Attribute", message)), "Attribute", SCHEMAS)
    assert {k: read[k] for k in message} == message


def test_written_messages_are_read_again() -> None:
    row = {"n": -5, "xs": [1, 300, -2], "d": [1.5, -2.0]}
    assert parsed(b"".join(written("R", row, ROW))) == row


def test_large_bytes_are_written_as_they_lie() -> None:
    schemas = {"R": {1: Field("data", "bytes"), 2: Field("n", "int")}}
    data = memoryview(bytes(MERGED_BYTES))
    parts = written("R", {"data": data, "n": 3}, schemas)
    assert [len(p) for p in parts] == [4, MERGED_BYTES, 2] and parts[1] is data
    assert parsed(b"".join(parts), schemas) == {"data": data, "n": 3}
