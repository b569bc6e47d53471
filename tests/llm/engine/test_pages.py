"""Pages: steps of many texts, wherever their blocks are, against whole texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn import llm
from tfn import numpy as jnp
from tfn.llm.engine import pages
from tfn.llm.engine.pages import BLOCK, Pages

TOKENS = np.random.default_rng(0).integers(0, 256, (2, 60)).astype(np.int32)
BLOCKS = np.array([[5, 2], [1, 4]])


def stepped(model: llm.Model, held: Pages, tokens: Any, first: int) -> tuple[Any, Any, Pages]:
    """A step of two texts from a position on."""
    texts, time = tokens.shape
    tables = np.zeros((texts, pages.table_width(64)), np.int32)
    tables[:, :2] = BLOCKS
    positions = np.broadcast_to(first + np.arange(time, dtype=np.int32), tokens.shape)
    last = np.full(texts, time - 1, np.int32)
    return pages.step(model, *map(jnp.asarray, (tokens, positions, tables, last)), held)


@pytest.mark.parametrize("name", building.NETWORKS)
def test_steps_of_two_texts_say_what_whole_texts_say(name: str, uncompiled: None) -> None:
    model = llm.load(building.network(name))
    whole = np.asarray(model(TOKENS[:, :34]))
    held, at = Pages.init(model.config, 6), 0
    for count in (33, 1):
        logits, _, held = stepped(model, held, TOKENS[:, at : at + count], at)
        at += count
        assert np.abs(logits - whole[:, at - 1]).max() < 0.02 * np.abs(whole).max()


def test_tokens_of_one_text_may_be_rows_of_a_step(uncompiled: None) -> None:
    model = llm.load(building.network("llama"))
    whole = np.asarray(model(TOKENS[0, :43]))
    _, _, held = stepped(model, Pages.init(model.config, 6), TOKENS[:, :40], 0)
    tables = np.zeros((3, pages.table_width(64)), np.int32)
    tables[:, :2] = BLOCKS[0]
    given = TOKENS[0, 40:43, None], np.array([[40], [41], [42]]), tables, np.zeros(3, np.int32)
    logits, x, _ = pages.step(model, *map(jnp.asarray, given), held)
    assert np.abs(logits - whole[40:]).max() < 0.02 * np.abs(whole).max()
    assert x.shape == (3, 1, 32)


def test_memory_that_was_never_written_may_hold_anything(uncompiled: None) -> None:
    model = llm.load(building.network("gemma3"))
    wrong = Pages.init(model.config, 6)
    wrong = Pages(jnp.full_like(wrong.keys, jnp.nan), jnp.full_like(wrong.values, jnp.inf))
    logits, _, wrong = stepped(model, wrong, TOKENS[:, :40], 0)
    assert np.isfinite(logits).all()
    untouched = np.asarray(wrong.keys).reshape(6, model.config.layers, 2, BLOCK, 8)[3]
    assert np.isnan(untouched).all()


def test_tables_have_room_for_shapes_that_are_filled_up() -> None:
    for context in (1, 255, 256, 257, 8192):
        assert pages.table_width(context) * BLOCK >= context + pages.MARGIN
        assert pages.table_width(context) * BLOCK % pages.PART == 0
