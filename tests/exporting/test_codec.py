"""Plain values as bytes: there and back, and bytes that are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.dtypes import BOOL, FLOAT32
from tfn.errors import ExportError
from tfn.exporting.codec import decode, encode
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
    with pytest.raises(ExportError, match="without end"):
        decode(b"(\x01" * 1000)
