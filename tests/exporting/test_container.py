"""Heads: bytes that are altered, cut short, or of another version are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn.numpy as tnp
from tfn.errors import ExportError
from tfn.exporting.serialize import deserialize, serialize

X = np.ones((4, 3), np.float32)
DATA = serialize(lambda x, w: tnp.tanh(x @ w), X, X.T)


@given(st.integers(0, 8 * len(DATA) - 1))
def test_a_flipped_bit_is_refused(bit: int) -> None:
    wrong = bytearray(DATA)
    wrong[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ExportError):
        deserialize(bytes(wrong))


@given(st.integers(0, len(DATA) - 1))
def test_what_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ExportError, match="cut short" if length else "not a function"):
        deserialize(DATA[:length])


def test_other_versions_and_other_files() -> None:
    with pytest.raises(ExportError, match="the format has version 9"):
        deserialize(DATA[:8] + b"\x09" + DATA[9:])
    with pytest.raises(ExportError, match="operations has version 7"):
        deserialize(DATA[:10] + b"\x07" + DATA[11:])
    with pytest.raises(ExportError, match="followed by something else"):
        deserialize(DATA + b"!")
    with pytest.raises(ExportError, match="not a function that tfn"):
        deserialize(b"\x7fELF" + bytes(100))
