"""Checkpointing alternatives: peaks and times with and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tfn
from tests.inspect.viewer.programs import TARGET, floats, layer
from tfn import numpy as jnp
from tfn.inspect.viewer.alternatives import alternatives
from tfn.trace import source_lines


def rows(function: Callable[..., Any], *args: Any) -> dict[str, dict[str, Any]]:
    jitted = tfn.jit(function)
    with source_lines.tracking():
        found = alternatives(lambda: jitted.trace(*args).jaxpr, TARGET)
    assert jitted.cache_info().misses == 0  # what was traced for them is not kept
    return {row["strategy"]: row for row in found}


def recurrent(w: Any, x: Any) -> Any:
    def cell(h: Any, _: Any) -> Any:
        return jnp.tanh(jnp.tanh(h @ w) * jnp.exp(h)), None

    return tfn.lax.scan(cell, x, None, 20)[0].sum()


def test_the_body_of_a_loop_saves_memory_for_operations() -> None:
    found = rows(tfn.grad(recurrent), floats(64, 64), floats(64, 64))
    assert list(found) == ["as written", "each loop"]
    assert found["each loop"]["peak_bytes"] < found["as written"]["peak_bytes"]
    assert found["each loop"]["flops"] > found["as written"]["flops"]


def test_checkpoints_are_taken_away() -> None:
    def loss(w: Any, x: Any) -> Any:
        block = tfn.checkpoint(lambda x: jnp.tanh(jnp.tanh(x @ w) @ w))
        return block(block(x)).sum()

    found = rows(tfn.grad(loss), floats(32, 32), floats(64, 32))
    assert list(found) == ["as written", "nothing"]
    assert found["nothing"]["flops"] < found["as written"]["flops"]


def test_functions_without_loops_and_checkpoints_have_one_way() -> None:
    assert list(rows(layer, floats(8, 16), floats(16, 32))) == ["as written"]
