"""Pairs: products of neighbours of computed bytes, by one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.lower.quantised import close, draw_bytes, text_of


def nibbles(p: Any, x: Any, d: Any) -> Any:
    low, high = ((q.astype("int8") - 8).astype("int32") for q in (p & 15, p >> 4))
    a, b = (x.reshape(x.shape[0], 2, -1)[:, i].astype("int32") for i in range(2))
    return ((low * a + high * b).sum(-1).astype("float32") * d).sum(-1)


@pytest.mark.parametrize("half", [16, 5])
def test_products_of_nibbles_have_the_values_of_numpy(half: int) -> None:
    p, v = draw_bytes("uint8", 64, 8, half), draw_bytes("int8", 8, 2 * half)
    d = np.random.default_rng(1).uniform(0.1, 1, (64, 8)).astype("f4")
    q = np.concatenate([p & 15, p >> 4], -1).astype("i4") - 8
    close(tfn.jit(nibbles)(p, v, d), ((q * v).sum(-1) * d.astype("f8")).sum(-1))


def test_nibbles_are_taken_of_vectors_as_they_lie() -> None:
    arrays = draw_bytes("uint8", 64, 16, 16), draw_bytes("int8", 16, 32), np.ones((64, 16), "f4")
    text = text_of(nibbles, *arrays)
    assert "pmadd.ub.sw" in text and "and <32 x i8>" in text and "load <32 x i8>" in text
