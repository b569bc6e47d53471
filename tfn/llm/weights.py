"""Weights of networks: arrays, blocks that stay quantized in memory, and adapted ones.

A weight is an Array, `Blocks` or `Adapted`; `product` multiplies by any of them.  Blocks are turned
into numbers within the program that reads them.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.array import Array
from tfn.custom_derivatives import custom_jvp
from tfn.errors import ArgumentError
from tfn.llm.blocks import BY_NAME, Format, dequantized


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


FEW_ROWS = 8
"""Inputs up to which each is multiplied by integers; more take weights from panels of floats."""

SEVERAL_ROWS = 4
"""Inputs from which on the code of zero is taken from sums of codes, and not from each code."""

STEP = 1 / 127
"""The step of inputs of 8 bits, as a part of the largest one of a block."""

PANEL, LARGE, MOST_ROWS_OF_PANELS = 128, 1 << 22, 16
"""Rows of a panel, the numbers of a weight that has some, and the most inputs that read it so."""


def product(x: Array, weight: Weight) -> Array:
    """Products (..., rows) of inputs (..., columns) with the rows of a weight (rows, columns).

    Inputs of blocks of integers are rounded to 8 bits, with a scale for as many as are in a block.
    """
    if isinstance(weight, Adapted):
        return product(x, weight.base) + weight.scale * (x @ weight.down.T) @ weight.up.T
    if isinstance(weight, Blocks) and BY_NAME[weight.format].codes is not None:
        return _coded_product(x, weight.raw, weight.format)
    if isinstance(weight, Blocks):
        return _by_panels(x, weight.raw, BY_NAME[weight.format])
    return x @ dense(weight).T


def _by_panels(x: Array, raw: Array, form: Format) -> Array:
    """Products with a weight, of which a panel at a time becomes numbers if it is large.

    All of it as float32 would be written to memory and read again, which takes longer than the
    products of a few inputs.
    """
    few = 1 < math.prod(x.shape[:-1]) <= MOST_ROWS_OF_PANELS
    if not few or len(raw) * x.shape[-1] < LARGE or len(raw) % PANEL:
        return x @ dequantized(raw, form).T
    panels = raw.reshape(-1, PANEL, *raw.shape[1:])
    out = lax.map(lambda panel: x @ dequantized(panel, form).T, panels)
    return jnp.moveaxis(out, 0, -2).reshape(*x.shape[:-1], -1)


@partial(custom_jvp, nondiff_argnums=(2,))
def _coded_product(x: Array, raw: Array, name: str) -> Array:
    """Products of rounded inputs with blocks of integers; their slopes are those of the weights."""
    form = BY_NAME[name]
    assert form.codes is not None
    held = form.codes(raw)
    blocks = x.reshape(-1, *held.codes.shape[1:])
    largest = jnp.abs(blocks).max(-1, keepdims=True)
    rounded = jnp.round(blocks * jnp.where(largest == 0, 0, 127 / largest)).astype("int8")
    rounded = lax.optimization_barrier(rounded)  # once, and not for each row of the weight
    if len(blocks) > FEW_ROWS:
        numbers = (rounded.astype("float32") * (largest * STEP)).reshape(x.shape)
        return _by_panels(numbers, raw, form)
    wide, apart = rounded.astype("int32"), len(blocks) >= SEVERAL_ROWS
    codes = held.codes if apart else held.signed
    sums = (codes.astype("int32") * wide[:, None]).sum(-1).astype("float32")
    if apart and held.zero:
        sums = sums - lax.optimization_barrier(wide.sum(-1).astype("float32") * held.zero)[:, None]
    products = sums * (held.scale * STEP)[..., 0]
    if held.least is not None:
        least = lax.optimization_barrier(wide.sum(-1).astype("float32") * STEP)
        products = products - held.least[..., 0] * least[:, None]
    return (products * largest[..., 0][:, None]).sum(-1).reshape(*x.shape[:-1], -1)


@_coded_product.defjvp
def _coded_product_jvp(name: str, primals: Any, tangents: Any) -> tuple[Array, Array]:
    x, raw = primals
    slope = tangents[0] @ dequantized(raw, BY_NAME[name]).T
    return _coded_product(x, raw, name), slope


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
