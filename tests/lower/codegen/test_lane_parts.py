"""Vectors of several short blocks: parts are loaded as they lie, and scales once for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.lower.loops.test_reduction_lanes import close, draw_bytes, nibbles_of, text_of


def records(raw: Any, x: Any) -> Any:
    """Products of records: a float16, and nibbles."""
    scale = raw[..., :2].view("float16")[..., 0].astype("float32")
    q = nibbles_of(raw[..., 2:]).astype("int8") - 8
    sums = (q.astype("int32") * x.astype("int32")).sum(-1)
    return (sums.astype("float32") * scale).sum(-1)


def drawn(rows: int, blocks: int, half: int) -> tuple[np.ndarray, np.ndarray]:
    raw = draw_bytes("uint8", rows, blocks, 2 + half)
    raw[..., 1] &= 63  # small and positive
    return raw, draw_bytes("int8", blocks, 2 * half)


@pytest.mark.parametrize(("blocks", "half"), [(2, 16), (16, 16), (6, 16), (8, 8), (4, 32), (3, 16)])
def test_records_that_lie_apart_are_multiplied_together(blocks: int, half: int) -> None:
    raw, x = drawn(64, blocks, half)
    q = np.concatenate([raw[..., 2:] & 15, raw[..., 2:] >> 4], -1).astype("f8") - 8
    scale = raw[..., :2].copy().view("f2").astype("f8")
    close(tfn.jit(records)(raw, x), (q * scale * x).sum((1, 2)))


def test_a_scale_is_loaded_as_a_word_for_its_lanes() -> None:
    text = text_of(records, *drawn(64, 16, 16))
    assert "load <16 x i8>" in text and "lshr <8 x i16>" not in text and "<8 x half>" in text
