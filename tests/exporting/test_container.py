"""Container format: altered, truncated and foreign bytes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.errors import ArgumentError, ExportError
from tfn.exporting.serialize import deserialize, serialize

X = np.ones((4, 3), np.float32)
DATA = serialize(lambda x, w: tnp.tanh(x @ w), X, X.T)


def test_every_flipped_bit_is_refused() -> None:
    for bit in range(8 * len(DATA)):
        wrong = bytearray(DATA)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ExportError):
            deserialize(bytes(wrong))


def test_what_is_cut_short_is_refused() -> None:
    for length in range(len(DATA)):
        with pytest.raises(ExportError, match="cut short" if length else "not a function"):
            deserialize(DATA[:length])


@pytest.mark.parametrize("data", [None, 5, "text", [1], 1.5, np.zeros(3, np.uint8)], ids=repr)
def test_objects_that_are_not_bytes(data: Any) -> None:
    with pytest.raises(ArgumentError, match="needs bytes"):
        deserialize(data)


def test_bytes_of_all_kinds() -> None:
    for data in (bytearray(DATA), memoryview(DATA)):
        assert deserialize(data).serialize() == DATA  # type: ignore[arg-type]


def test_other_versions_and_other_files() -> None:
    with pytest.raises(ExportError, match="the format has version 9"):
        deserialize(DATA[:8] + b"\x09" + DATA[9:])
    with pytest.raises(ExportError, match="operations has version 7"):
        deserialize(DATA[:10] + b"\x07" + DATA[11:])
    with pytest.raises(ExportError, match="followed by something else"):
        deserialize(DATA + b"!")
    with pytest.raises(ExportError, match="not a function that tfn"):
        deserialize(b"\x7fELF" + bytes(100))
