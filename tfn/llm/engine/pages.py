"""Pages: keys and values of many texts in blocks of one memory, and the step that all texts share.

A text has a table of blocks, wherever these are, so a block may belong to several texts with the
same beginning, and memory has no gaps.  Block 0 belongs to none: what fills up a shape is written
there::

    table of a text   [7, 2, 9, 0, 0]         position 70 of blocks of 32:
    blocks            0 . 2 . . . . 7 . 9     row 6 of block 9

Attention goes over a text in parts of a fixed size, up to the longest text of the step, with the
largest product, the sum and the average so far.  So one program serves all lengths, and a result
does not depend on the lengths of the other texts.

Source: Kwon et al. 2023, arXiv:2309.06180 (pages); Milakov and Gimelshein 2018, arXiv:1805.02867
(softmax in parts).
"""

# ruff: noqa: F722  (annotations hold shapes)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfn import call, dtypes, lax, nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.extend import concrete, device
from tfn.llm import network
from tfn.llm.config import Config
from tfn.llm.network import capped, visible

if TYPE_CHECKING:
    from jaxtyping import Float, Int

BLOCK, PART = 32, 128
"""Tokens of a block, and those that attention reads at a time: whole blocks."""

MARGIN = 256
"""The most tokens by which a filled-up shape may reach past the context."""

LOWEST = -1e30
"""Less than any product, and finite, so that a part without visible tokens gives no NaN."""


@nn.module
class Pages:
    """Keys and values of many texts.

    The layers of a block are beside each other, so the memory of blocks that were never used is not
    touched, and the system does not give it.  So are the tokens of a head, which attention reads.

    Attributes:
        keys: float16 (blocks * layers, kv_heads, BLOCK, size).
        values: float16 (blocks * layers, kv_heads, BLOCK, value_size).
    """

    keys: Array
    values: Array

    @staticmethod
    def init(config: Config, blocks: int) -> Pages:
        """Room for so many blocks, with any numbers in them."""
        shape = (blocks * config.layers, config.kv_heads, BLOCK)
        return Pages(_untouched((*shape, config.size)), _untouched((*shape, config.value_size)))


@nn.module
class Texts:
    """Pages and the tables of the texts of a step: a `network.Store`.

    Attributes:
        pages: of all texts.
        tables: int32 (texts, blocks), the blocks of each text in order; then zeros.
    """

    pages: Pages
    tables: Array

    def attend(
        self,
        layer: int,
        query: Array,
        keys: Array,
        values: Array,
        positions: Array,
        config: Config,
    ) -> tuple[Array, Texts]:
        """Values averaged over all tokens up to new ones, and the texts that have the new ones."""
        blocks = jnp.take_along_axis(self.tables, positions // BLOCK, -1)
        place = (blocks * config.layers + layer, slice(None), positions % BLOCK)
        pages = Pages(
            self.pages.keys.at[place].set(keys.astype("float16")),
            self.pages.values.at[place].set(values.astype("float16")),
        )
        window, number = config.window_of(layer), jnp.asarray(layer, dtype="int32")
        mixed = _attended(config, window, query, pages, self.tables, positions, number)
        return mixed, Texts(pages, self.tables)


@call(name="attention", static_argnums=(0, 1))
def _attended(
    config: Config,
    window: int,
    query: Array,
    pages: Pages,
    tables: Array,
    positions: Array,
    layer: Array,
) -> Array:
    """Values (texts, time, heads, value_size), averaged in parts along the texts."""
    texts, time = positions.shape
    heads, group = config.kv_heads, config.heads // config.kv_heads
    query = query.reshape(texts, time, heads, group, config.size) * config.query_scale

    def part_of(held: Array, number: Array) -> Array:
        """Rows (texts, heads, PART, size) of each text."""
        place = (0, number * (PART // BLOCK))
        blocks = lax.dynamic_slice(tables, place, (texts, PART // BLOCK))
        rows = jnp.moveaxis(held[blocks * config.layers + layer], 1, 2)
        return rows.reshape(texts, heads, PART, held.shape[-1]).astype("float32")

    def step(number: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        highest, total, mixed = state
        scores = jnp.einsum("ntkgs,nkrs->nkgtr", query, part_of(pages.keys, number))
        places = number * PART + jnp.arange(PART)
        seen = visible(places, positions, window)
        scores = jnp.where(seen[:, None, None], capped(scores, config.attention_cap), LOWEST)
        higher = jnp.maximum(highest, scores.max(-1))
        shares, kept = jnp.exp(scores - higher[..., None]), jnp.exp(highest - higher)
        values = jnp.where((places <= longest)[:, None, :, None], part_of(pages.values, number), 0)
        added = jnp.einsum("nkgtr,nkrv->nkgtv", shares, values)
        return higher, total * kept + shares.sum(-1), mixed * kept[..., None] + added

    longest, first = positions.max(-1, keepdims=True), jnp.asarray(0, dtype="int32")
    if window:
        first = jnp.maximum(positions.min() - window + 1, 0) // PART
    zeros = jnp.zeros((texts, heads, group, time))
    begin = (zeros + LOWEST, zeros, jnp.zeros((*zeros.shape, config.value_size)))
    _, total, mixed = lax.fori_loop(first, longest.max() // PART + 1, step, begin)
    out = mixed / total[..., None]
    return jnp.moveaxis(out, 3, 1).reshape(texts, time, config.heads, config.value_size)


def table_width(context: int) -> int:
    """Columns of a table for texts of so many tokens, filled-up shapes included."""
    return -(-(context + MARGIN) // PART) * (PART // BLOCK)


def step(
    model: Any,
    tokens: Int[Array, "texts time"],
    positions: Int[Array, "texts time"],
    tables: Int[Array, "texts blocks"],
    last: Int[Array, " texts"],
    pages: Pages,
) -> tuple[Float[Array, "texts vocabulary"], Float[Array, "texts time width"], Pages]:
    """Logits of what follows one token of each text, the numbers of all, and pages that have them.

    One text may be there several times, with tokens at different positions: all are written before
    any is read.

    Args:
        model: weights and network.
        tokens: some of each text, one after the other.
        positions: theirs.
        tables: blocks of each text, `table_width` columns.
        last: number of the token whose logits are wanted.
        pages: with all earlier tokens of the texts.
    """
    x, texts = network.hidden(model.weights, model.config, tokens, positions, Texts(pages, tables))
    wanted = jnp.take_along_axis(x, last[:, None, None], 1)[:, 0]
    return network.logits(model.weights, model.config, wanted), x, texts.pages


def _untouched(shape: tuple[int, ...]) -> Array:
    """An array in float16 with any numbers: those of new memory are not read, nor written."""
    kind = dtypes.FLOAT16
    return concrete(device().memory.allocate(math.prod(shape) * kind.itemsize), shape, kind)
