"""Recurrent layers: RNN, GRU and LSTM, as scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import lax, nn, random
from tfn import numpy as jnp
from tfn.torch.ops.known import Value, cast

State = tuple[Value, ...]
Cell = Callable[[Value, State, "Weights"], State]
"""A step: features of one time with their weights and bias, state, weights -> state."""


class Weights:
    """The weights of one layer in one direction."""

    def __init__(self, given: Sequence[Value], has_biases: bool, projected: bool) -> None:
        self.inputs, self.state = given[:2]
        none: Sequence[Value] = (None, None)
        self.bias, self.state_bias = given[2:4] if has_biases else none
        self.projection = given[-1] if projected else None

    def of_state(self, h: Value) -> Value:
        """The state times its weights."""
        y = h @ self.state.T
        return y if self.state_bias is None else y + self.state_bias


def _lstm(x: Value, state: State, weights: Weights) -> State:
    h, c = state
    entry, keep, new, out = jnp.split(x + weights.of_state(h), 4, -1)
    c = nn.sigmoid(keep) * c + nn.sigmoid(entry) * jnp.tanh(new)
    h = nn.sigmoid(out) * jnp.tanh(c)
    return (h if weights.projection is None else h @ weights.projection.T), c


def _gru(x: Value, state: State, weights: Weights) -> State:
    (h,) = state
    own, other = jnp.split(x, 3, -1), jnp.split(weights.of_state(h), 3, -1)
    reset, update = (nn.sigmoid(a + b) for a, b in zip(own[:2], other[:2]))
    new = jnp.tanh(own[2] + reset * other[2])
    return ((1 - update) * new + update * h,)


def _rnn(function: Callable[..., Value]) -> Cell:
    return lambda x, state, weights: (function(x + weights.of_state(state[0])),)


def _one(x: Value, begin: State, weights: Weights, cell: Cell, reverse: bool) -> Any:
    """The states of all times of one layer in one direction, and the last ones."""
    rows = x @ weights.inputs.T  # of all times at once
    rows = rows if weights.bias is None else rows + weights.bias

    def step(state: State, row: Value) -> tuple[State, Value]:
        state = cell(row, state, weights)
        return state, state[0]

    return lax.scan(step, begin, rows, reverse=reverse)


def _layers(cell: Cell, states: int) -> Callable[..., Value]:
    def op(
        x: Value,
        hx: Any,
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        random_key: Any = None,
    ) -> Value:
        begin = tuple(hx) if states > 1 else (hx,)
        single = x.ndim == 2
        if single:
            x, begin = x[:, None], tuple(h[:, None] for h in begin)
        elif batch_first:
            x = x.swapaxes(0, 1)
        ways = 1 + bidirectional
        each = len(params) // (num_layers * ways)
        projected = each in (3, 5)
        ends: list[State] = []
        for layer in range(num_layers):
            rows = []
            for way in range(ways):
                place = layer * ways + way
                own = Weights(params[place * each : (place + 1) * each], has_biases, projected)
                start = tuple(h[place] for h in begin)
                last, row = _one(x, start, own, cell, way == 1)
                ends.append(last)
                rows.append(row)
            x = rows[0] if ways == 1 else jnp.concatenate(rows, -1)
            if dropout and train and layer < num_layers - 1:
                kept = random.bernoulli(random.fold_in(random_key(), layer), 1 - dropout, x.shape)
                x = jnp.where(kept, x / cast(1 - dropout, x.dtype), cast(0, x.dtype))
        last = tuple(jnp.stack(h) for h in zip(*ends))
        if single:
            x, last = x[:, 0], tuple(h[:, 0] for h in last)
        elif batch_first:
            x = x.swapaxes(0, 1)
        return (x, *last)

    return op


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "lstm.input": _layers(_lstm, 2), "gru.input": _layers(_gru, 1),
    "rnn_tanh.input": _layers(_rnn(jnp.tanh), 1), "rnn_relu.input": _layers(_rnn(nn.relu), 1),
}
# fmt: on
