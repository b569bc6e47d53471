"""Low-rank adapters: a model is trained by small matrices beside its weights, which stay quantized.

The adapters alone are trained, as a tree of their own: `grad` of a function of them, any optimizer
of `nn.optim`, and `nn.state.save` apply to it.

Source: Hu et al. 2021, arXiv:2106.09685.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tfn import nn, random
from tfn import numpy as jnp
from tfn.array import Array
from tfn.errors import ArgumentError
from tfn.llm.model import Model
from tfn.llm.weights import Adapted, Weight


@nn.module
class Adapter:
    """The two matrices whose product is added to a weight.

    Attributes:
        down: (rank, columns).
        up: (rows, rank); zero before training.
    """

    down: Array
    up: Array


def adapters(
    model: Model, key: random.Key, rank: int = 8, names: Sequence[str] = ("attn_q", "attn_v")
) -> dict[str, Adapter]:
    """Adapters that change nothing yet, by the names of their weights.

    Args:
        model: to adapt.
        key: for the first values.
        rank: of each product.
        names: of weights of layers, such as "attn_q", "attn_output", "ffn_up".

    Raises:
        ArgumentError: if a name is none of the model's matrices.
    """
    found: dict[str, Adapter] = {}
    for name, weight in model.weights.items():
        if name.startswith("blk.") and name.split(".")[2] in names and name.endswith(".weight"):
            if len(weight.shape) != 2:
                raise ArgumentError("an adapted weight is a matrix", got=f"{name} {weight.shape}")
            many, columns = weight.shape
            key, own = random.split(key)
            down = random.normal(own, (rank, columns)) / math.sqrt(columns)
            found[name] = Adapter(down, jnp.zeros((many, rank)))
    absent = set(names) - {name.split(".")[2] for name in found}
    if absent:
        raise ArgumentError(
            "the layers of this model have no such weight",
            got=min(absent),
            hint="python -m tfn.llm show FILE --tensors lists them",
        )
    return found


def adapt(model: Model, adapters: Mapping[str, Adapter], scale: float = 2.0) -> Model:
    """The model with adapters beside its weights.

    Args:
        model: as it was loaded.
        adapters: by the names of weights.
        scale: factor of their products.
    """
    new: dict[str, Weight] = {
        name: Adapted(model.weights[name], one.down, one.up, scale)
        for name, one in adapters.items()
    }
    return Model(model.weights | new, model.config, model.tokenizer)
