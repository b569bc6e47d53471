"""Programs that the tests of the viewer look at, and their data."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import tfn
from tfn import nn
from tfn import numpy as jnp
from tfn.inspect.show import View
from tfn.inspect.viewer.collect import Collected, collect
from tfn.nn import optim
from tfn.trace import source_lines

TARGET = tfn.Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def floats(*shape: int) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, "float32")


def layer(x: Any, w: Any) -> Any:
    """Three lines with work of their own, in two kernels or more."""
    y = x @ w
    z = jnp.tanh(y)
    return z / z.sum(axis=1, keepdims=True)


def rnn(h: Any, w: Any, xs: Any) -> Any:
    """A loop whose body has kernels."""

    def cell(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, h

    return tfn.lax.scan(cell, h, xs)


def seen(function: Callable[..., Any], *args: Any) -> Collected:
    """The data of a function."""
    with source_lines.tracking():
        jaxpr = tfn.jit(function).trace(*args).jaxpr
        return collect(function.__name__, View(jaxpr, TARGET), None)


@cache
def layer_data() -> Collected:
    return seen(layer, floats(64, 128), floats(128, 256))


@cache
def rnn_data() -> Collected:
    return seen(rnn, floats(64, 128), floats(128, 128), floats(10, 64, 128))


def gpt_step(layers: int, width: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step of a small GPT, and types of its arguments."""
    keys = tfn.random.split(tfn.random.key(0), 4)

    def block(key: Any) -> Any:
        return nn.TransformerBlock.init(key, width, 4, rotary_base=10000.0)

    network = {
        "characters": nn.Embedding.init(keys[0], 80, width),
        "blocks": nn.Stack.init(block, keys[1], layers),
        "norm": nn.LayerNorm.init(width),
        "out": nn.Linear.init(keys[2], width, 80, use_bias=False),
    }
    optimizer = optim.adamw(3e-3)

    def loss_of(network: Any, texts: Any) -> Any:
        x = network["blocks"](network["characters"](texts[:, :-1]), is_causal=True)
        logits = network["out"](network["norm"](x))
        return nn.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    def step(network: Any, state: Any, texts: Any) -> Any:
        loss, slopes = tfn.value_and_grad(loss_of)(network, texts)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, loss

    texts = tfn.ShapeDtypeStruct((4, 65), "int32")
    return step, (network, optimizer.init(network), texts)
