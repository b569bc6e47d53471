"""Recurrent layers: RNN, GRU and LSTM, as scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.errors import NotAvailableError
from tfn.onnx.ops.elementwise import Elu, HardSigmoid, LeakyRelu, ThresholdedRelu
from tfn.onnx.ops.known import Value, like

# fmt: off
ACTIVATIONS: dict[str, Callable[..., Value]] = {
    "relu": nn.relu, "tanh": jnp.tanh, "sigmoid": nn.sigmoid, "softsign": nn.soft_sign,
    "softplus": nn.softplus, "elu": Elu, "hardsigmoid": HardSigmoid, "leakyrelu": LeakyRelu,
    "thresholdedrelu": ThresholdedRelu,
    "affine": lambda x, a=1.0, b=0.0: like(x, a) * x + like(x, b),
    "scaledtanh": lambda x, a=1.0, b=1.0: like(x, a) * jnp.tanh(like(x, b) * x),
}
# fmt: on
PARAMETERS = {
    "elu": 1,
    "hardsigmoid": 2,
    "leakyrelu": 1,
    "thresholdedrelu": 1,
    "affine": 2,
    "scaledtanh": 2,
}

Cell = Callable[[Value, Value, tuple[Value, ...]], tuple[Value, ...]]
"""A step of a layer: features times weights, weights of the state, state -> state."""


def _activations(
    names: Sequence[str], alpha: Sequence[float], beta: Sequence[float]
) -> list[Callable[[Value], Value]]:
    """Functions by their names, each with the numbers that it takes of both lists."""
    alphas, betas = list(alpha), list(beta)
    made: list[Callable[[Value], Value]] = []
    for name in names:
        row = name.lower()
        if row not in ACTIVATIONS:
            raise NotAvailableError(
                f"a recurrent layer has the activation {name!r}",
                got=name,
                hint=f"there are {', '.join(ACTIVATIONS)}",
            )
        takes = PARAMETERS.get(row, 0)
        given = [values.pop(0) for values in (alphas, betas)[:takes] if values]
        made.append(partial(_applied, ACTIVATIONS[row], tuple(given)))
    return made


def _applied(function: Callable[..., Value], given: tuple[float, ...], x: Value) -> Value:
    return function(x, *given)


def _run(
    x: Value, lengths: Value, state: tuple[Value, ...], step: Callable[..., Any], reverse: bool
) -> tuple[Value, tuple[Value, ...]]:
    """The states of all times, and the last ones; a row stays as it is after its own end."""
    times = x.shape[0]
    ends = None if lengths is None else jnp.asarray(lengths).astype("int32")

    def body(state: Any, row: Any) -> Any:
        time, features = row
        new = step(features, state)
        if ends is None:
            return new, new[0]
        on = (time < ends)[:, None]
        new = tuple(jnp.where(on, a, b) for a, b in zip(new, state))
        return new, jnp.where(on, new[0], like(new[0], 0))

    last, states = lax.scan(body, state, (jnp.arange(times), x), reverse=reverse)
    return states, last


def _layer(
    gates: int, default: Sequence[str], states: int, cell: Callable[..., Cell]
) -> Callable[..., Value]:
    def op(
        x: Value,
        w: Value,
        r: Value,
        b: Value = None,
        lengths: Value = None,
        h: Value = None,
        c: Value = None,
        p: Value = None,
        activations: Sequence[str] | None = None,
        activation_alpha: Sequence[float] = (),
        activation_beta: Sequence[float] = (),
        clip: float | None = None,
        direction: str = "forward",
        hidden_size: int | None = None,
        layout: int = 0,
        linear_before_reset: int = 0,
        input_forget: int = 0,
        output_sequence: int = 0,
        outputs: int = 1,
    ) -> Value:
        x, w, r = map(jnp.asarray, (x, w, r))
        x = x.swapaxes(0, 1) if layout else x
        ways = w.shape[0]
        hidden = r.shape[-1]
        batch = x.shape[1]
        names = activations or tuple(default) * ways
        functions = _activations(names, activation_alpha, activation_beta)
        begin = [
            jnp.zeros((ways, batch, hidden), x.dtype) if s is None else jnp.asarray(s)
            for s in (h, c)[:states]
        ]
        if layout:
            begin = [s if given is None else s.swapaxes(0, 1) for s, given in zip(begin, (h, c))]
        bias = jnp.zeros((ways, 2 * gates * hidden), x.dtype) if b is None else jnp.asarray(b)
        rows, ends = [], []
        for way in range(ways):
            own = functions[way * len(default) : (way + 1) * len(default)]
            limit = (lambda v: v) if clip is None else (lambda v: jnp.clip(v, -clip, clip))
            make = cell(
                own,
                limit,
                r[way],
                bias[way],
                None if p is None else jnp.asarray(p)[way],
                linear_before_reset,
                input_forget,
            )
            projected = x @ w[way].T + bias[way, : gates * hidden]
            reverse = direction == "reverse" or way == 1
            if reverse and lengths is not None:
                projected = _turned(projected, lengths)
            every, last = _run(
                projected, lengths, tuple(s[way] for s in begin), make, reverse and lengths is None
            )
            if reverse and lengths is not None:
                every = _turned(every, lengths)
            rows.append(every)
            ends.append(last)
        y = jnp.stack(rows, 1)
        final = [jnp.stack([e[i] for e in ends]) for i in range(states)]
        if layout:
            y, final = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in final]
        return (y, *final)[: max(outputs, 1)] if outputs > 1 else y

    return op


def _turned(x: Value, lengths: Value) -> Value:
    """Each row of a batch (axis 1) from its own end to its beginning."""
    times = jnp.arange(x.shape[0])[:, None]
    ends = jnp.asarray(lengths).astype("int32")[None]
    order = jnp.where(times < ends, ends - 1 - times, times)
    return x[order, jnp.arange(x.shape[1])[None]]


def _rnn(own: Any, limit: Any, r: Value, b: Value, p: Value, before: int, coupled: int) -> Any:
    (f,) = own
    inner = b[r.shape[-1] :]
    return lambda x, state: (f(limit(x + state[0] @ r.T + inner)),)


def _gru(own: Any, limit: Any, r: Value, b: Value, p: Value, before: int, coupled: int) -> Any:
    f, g = own
    n = r.shape[-1]
    inner = b[3 * n :]

    def step(x: Value, state: Any) -> Any:
        (h,) = state
        gates = limit(x[..., : 2 * n] + h @ r[: 2 * n].T + inner[: 2 * n])
        update, reset = f(gates[..., :n]), f(gates[..., n:])
        if before:
            new = x[..., 2 * n :] + reset * (h @ r[2 * n :].T + inner[2 * n :])
        else:
            new = x[..., 2 * n :] + (reset * h) @ r[2 * n :].T + inner[2 * n :]
        return ((1 - update) * g(limit(new)) + update * h,)

    return step


def _lstm(own: Any, limit: Any, r: Value, b: Value, p: Value, before: int, coupled: int) -> Any:
    f, g, out = own
    n = r.shape[-1]
    inner = b[4 * n :]
    peep = [0, 0, 0] if p is None else [p[:n], p[n : 2 * n], p[2 * n :]]

    def step(x: Value, state: Any) -> Any:
        h, c = state
        sums = x + h @ r.T + inner
        i, o, keep, new = (sums[..., j * n : (j + 1) * n] for j in range(4))
        entry = f(limit(i + peep[0] * c))
        kept = 1 - entry if coupled else f(limit(keep + peep[2] * c))
        c = kept * c + entry * g(limit(new))
        return f(limit(o + peep[1] * c)) * out(c), c

    return step


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "RNN": _layer(1, ("Tanh",), 1, _rnn),
    "GRU": _layer(3, ("Sigmoid", "Tanh"), 1, _gru),
    "LSTM": _layer(4, ("Sigmoid", "Tanh", "Tanh"), 2, _lstm),
}
# fmt: on
