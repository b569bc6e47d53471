"""Weights of networks: arrays, blocks that stay quantized in memory, and adapted ones.

A weight is an Array, `Blocks` or `Adapted`; `product` multiplies by any of them.  Blocks are turned
into numbers within the program that reads them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn import nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.llm.blocks import BY_NAME, dequantized


@nn.module
class Blocks:
    """A quantized weight, as it is in a file.

    Attributes:
        raw: uint8 (..., rows, blocks, bytes of a block).
        format: a name of `blocks.BY_NAME`.
    """

    raw: Array
    format: str = nn.static()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the weight that this stands for."""
        *outer, blocks, _ = self.raw.shape
        return (*outer, blocks * BY_NAME[self.format].elements)

    def dense(self) -> Array:
        """The weights as float32."""
        return dequantized(self.raw, BY_NAME[self.format])

    def __getitem__(self, index: Any) -> Blocks:
        """Some rows, or some of several matrices."""
        return Blocks(self.raw[index], self.format)


@nn.module
class Adapted:
    """A weight and a product of low rank, which alone is trained (LoRA).

    Attributes:
        base: the weight of the file.
        down: (rank, columns).
        up: (rows, rank).
        scale: factor of the product.

    Source: Hu et al. 2021, arXiv:2106.09685.
    """

    base: Any
    down: Array
    up: Array
    scale: float = nn.static()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the weight."""
        return tuple(self.base.shape)

    def dense(self) -> Array:
        """The weights as float32, the product added."""
        return dense(self.base) + self.scale * (self.up @ self.down)


Weight = Array | Blocks | Adapted


def dense(weight: Weight) -> Array:
    """A weight as numbers that can be computed with."""
    if isinstance(weight, (Blocks, Adapted)):
        return weight.dense()
    return weight if weight.dtype == "float32" else weight.astype("float32")


def product(x: Array, weight: Weight) -> Array:
    """Products (..., rows) of inputs (..., columns) with the rows of a weight (rows, columns)."""
    if isinstance(weight, Adapted):
        return product(x, weight.base) + weight.scale * (x @ weight.down.T) @ weight.up.T
    return x @ dense(weight).T


def rows(weight: Weight, index: Array) -> Array:
    """Some rows as float32: of a table of embeddings, those of tokens."""
    if isinstance(weight, Adapted):
        return rows(weight.base, index) + weight.scale * weight.up[index] @ weight.down
    return dense(weight[index])


def held(data: np.ndarray[Any, Any]) -> Array:
    """An array in the memory of the file, which is read when it is needed; a copy if it must be."""
    try:
        return jnp.asarray(data, copy=False)
    except ArgumentError:  # it begins between the places that devices read from
        return jnp.asarray(data)
