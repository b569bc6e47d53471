"""Canonical encoding: round trips, and malformed bytes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.dtypes import BOOL, FLOAT32
from tfn.errors import ExportError
from tfn.exporting.codec import MAX_DEPTH, MAX_INTEGER_BITS, decode, encode
from tfn.trace.argument import Dot, Scan, Scatter, Sort
from tfn.trace.op import Op

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.sampled_from([FLOAT32, BOOL, Op.ADD]),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
)


@given(PLAIN)
def test_plain_values_round_trip(value: Any) -> None:
    back = decode(encode(value))
    assert back == value and type(back) is type(value)


@given(st.binary(max_size=40))
def test_any_bytes_are_one_value_or_refused(data: bytes) -> None:
    try:
        value = decode(data)
    except ExportError:
        return
    assert encode(value) == data


def test_values_of_other_classes() -> None:
    with pytest.raises(ExportError, match="a set cannot"):
        encode({1})
    with pytest.raises(ExportError, match="half of a surrogate"):
        encode("\ud800")


DEEP: Any = ()
for _ in range(MAX_DEPTH - 1):
    DEEP = (DEEP,)


def test_encoded_values_can_be_decoded() -> None:
    """The limits of reading are those of writing."""
    most = 2 ** (MAX_INTEGER_BITS - 1) - 1
    for value in (most, -most, DEEP):
        assert decode(encode(value)) == value
    for value in (2**MAX_INTEGER_BITS, -(2**MAX_INTEGER_BITS)):
        with pytest.raises(ExportError, match="too large"):
            encode(value)
    with pytest.raises(ExportError, match="nested too deeply"):
        encode((DEEP,))


@pytest.mark.parametrize(
    "data",
    [
        b"(\x01" * 500_000,
        b"i" + b"\xff" * 300_000 + b"\x01",
        b"i" + b"\x80" * 300_000 + b"\x01",
        b"(" + b"\xff" * 9 + b"\x01",
        b"s" + b"\xff" * 9 + b"\x01",
        b"b" + b"\xff" * 300_000,
        b"(\xc0\x84\x3d" + b"0" * 10,
    ],
    ids=lambda data: repr(data[:5]),
)
def test_bytes_that_ask_for_too_much_are_refused_at_once(data: bytes) -> None:
    start = time.process_time()
    with pytest.raises(ExportError, match="damaged"):
        decode(data)
    assert time.process_time() - start < 0.5


def test_fields_that_records_have_got_since_are_left_out_where_they_are_unset() -> None:
    """So the bytes of older versions are read, and are those of the present one."""
    old, new = Scan(5, False, 1, 2), Scan(5, False, 0, 2, associative=True)
    assert encode(old) == b"r\x04Scan(\x04i\x0aFi\x02i\x04"
    assert decode(encode(old)) == old and decode(encode(new)) == new
    assert encode(new)[-1:] == b"T"
    for record in (Dot((1,), (0,), (), (), FLOAT32, tf32=True), Sort(1), Scatter(0, Op.ADD)):
        assert decode(encode(record)) == record
    with pytest.raises(ExportError, match="a Scan of 3 fields instead of 5"):
        decode(b"r\x04Scan(\x03i\x0aFi\x02")
