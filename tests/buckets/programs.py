"""Random programs over arrays of which one axis or two have sizes of their own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import tfn
from tfn import lax, nn
from tfn import numpy as jnp

Step = Callable[[random.Random, Any], Any]


def _axis(draw: random.Random, x: Any) -> int:
    return draw.randrange(x.ndim)


def _pieces(draw: random.Random, x: Any) -> Any:
    axis = _axis(draw, x)
    parts = [x, jnp.flip(x, axis), x]
    return jnp.concatenate(parts[: draw.randint(2, 3)], axis)


def _scan(draw: random.Random, x: Any) -> Any:
    reverse = draw.random() < 0.5
    last, ys = lax.scan(
        lambda c, row: (c * 0.5 + row, c - row), jnp.zeros(x.shape[1:]), x, reverse=reverse
    )
    return ys + last


def _branch(draw: random.Random, x: Any) -> Any:
    return lax.cond(x.reshape(-1)[0] > 0, lambda a: a - a.mean(), lambda a: a + a.max(), x)


def _loop(draw: random.Random, x: Any) -> Any:
    step = lambda c: (c[0] + 1, c[1] * 0.9 + c[1].mean())
    return lax.while_loop(lambda c: (c[0] < 3) & (jnp.abs(c[1]).max() < 9), step, (0, x))[1]


def _rows(draw: random.Random, x: Any) -> Any:
    index = jnp.arange(x.shape[0]) * draw.choice((1, 2, 3)) + draw.randrange(2)
    return x[index % x.shape[0]]


def _slope(draw: random.Random, x: Any) -> Any:
    f = draw.choice(
        (
            lambda a: (jnp.sin(a) ** 2).mean(),
            lambda a: nn.logsumexp(a),
            lambda a: (a @ a.T).sum() / a.shape[0] if a.ndim == 2 else (a * a).sum(),
            lambda a: jnp.cumsum(a, 0).max(),
            lambda a: jnp.sort(a, axis=0)[-1].sum(),
            lambda a: jnp.var(a),
        )
    )
    return tfn.grad(f)(x)


def _gram(draw: random.Random, x: Any) -> Any:
    y = x.reshape(x.shape[0], -1)
    return draw.choice((lambda: y @ y.T, lambda: y.T @ y, lambda: y @ (y.T @ y)))() / 8


def _noise(draw: random.Random, x: Any) -> Any:
    key = tfn.random.key(draw.randrange(9))
    kind = draw.choice((tfn.random.normal, tfn.random.uniform))
    return x + kind(key, x.shape)


def _shuffled(draw: random.Random, x: Any) -> Any:
    return tfn.random.permutation(tfn.random.key(draw.randrange(9)), x)


def _update(draw: random.Random, x: Any) -> Any:
    at = x.at[draw.choice((0, -1, slice(None, -1), slice(1, None), slice(None, None, 2)))]
    return draw.choice((at.set, at.add, at.max))(draw.choice((0.5, 2.0)))


def _scattered(draw: random.Random, x: Any) -> Any:
    index = (jnp.abs(x.reshape(x.shape[0], -1)[:, 0]) * 3).astype(int) % 4
    return x + jnp.zeros((4, *x.shape[1:])).at[index].add(x).sum(0)


def _strip(draw: random.Random, x: Any) -> Any:
    return lax.dynamic_slice_in_dim(x, draw.randrange(3), x.shape[0] - draw.randrange(2), 0)


def _room(draw: random.Random, x: Any) -> Any:
    room = jnp.zeros((x.shape[0] + 5, *x.shape[1:]))
    return lax.dynamic_update_slice_in_dim(room, x, draw.randrange(4), 0)


def _smoothed(draw: random.Random, x: Any) -> Any:
    images = x.reshape(1, x.shape[0], -1)
    window = jnp.ones((3, images.shape[-1], 2)) / 3
    out = lax.conv_general_dilated(
        images,
        window,
        (1,),
        draw.choice(("SAME", "VALID")),
        dimension_numbers=("NHC", "HIO", "NHC"),
    )
    return out[0]


STEPS: dict[str, Step] = {
    "sin": lambda draw, x: jnp.sin(x),
    "log": lambda draw, x: jnp.where(x > 0, jnp.log(jnp.abs(x) + 0.5), x),
    "divided": lambda draw, x: 1 / (x * x + 0.5),
    "sum": lambda draw, x: x + x.sum(_axis(draw, x), keepdims=True) / 8,
    "mean": lambda draw, x: x - x.mean(_axis(draw, x), keepdims=True),
    "norm": lambda draw, x: x / (jnp.sqrt((x * x).sum()) + 1),
    "std": lambda draw, x: x / (x.std(_axis(draw, x), keepdims=True) + 1),
    "prod": lambda draw, x: x + jnp.prod(jnp.tanh(x), _axis(draw, x), keepdims=True),
    "max": lambda draw, x: x - x.max(_axis(draw, x), keepdims=True),
    "min": lambda draw, x: x - x.min(),
    "argmax": lambda draw, x: x + x.argmax(_axis(draw, x), keepdims=True) / 8,
    "softmax": lambda draw, x: nn.softmax(x, axis=_axis(draw, x)),
    "sort": lambda draw, x: jnp.sort(x, axis=_axis(draw, x)),
    "argsort": lambda draw, x: x[jnp.argsort(x.reshape(x.shape[0], -1)[:, 0])],
    "median": lambda draw, x: x - jnp.median(x, axis=0),
    "cumsum": lambda draw, x: jnp.cumsum(x, _axis(draw, x)) / 4,
    "cummax": lambda draw, x: lax.cummax(x, _axis(draw, x), reverse=draw.random() < 0.5),
    "flip": lambda draw, x: jnp.flip(x, _axis(draw, x)),
    "roll": lambda draw, x: jnp.roll(x, draw.choice((1, -1)), _axis(draw, x)),
    "transpose": lambda draw, x: x.T,
    "flatten": lambda draw, x: x.reshape(-1),
    "flattened columns": lambda draw, x: x.T.reshape(-1),
    "outer": lambda draw, x: jnp.outer(x.reshape(-1), jnp.arange(3.0) - 1),
    "repeat": lambda draw, x: jnp.repeat(x, 2, axis=_axis(draw, x)),
    "tile": lambda draw, x: jnp.concatenate([x, x * 2], 0),
    "diff": lambda draw, x: jnp.diff(x, axis=_axis(draw, x)),
    "pad": lambda draw, x: jnp.pad(x, 1, mode=draw.choice(("constant", "edge"))),
    "halves": lambda draw, x: x[:: draw.choice((-1, 1))],
    "tail": lambda draw, x: x[draw.choice((1, 0)) :],
    "positions": lambda draw, x: x * jnp.linspace(0, 1, x.shape[0]).reshape(
        -1, *(1,) * (x.ndim - 1)
    ),
    "triangle": lambda draw, x: jnp.tril(x, -1) if x.ndim == 2 else x,
    "scan": _scan,
    "cond": _branch,
    "while": _loop,
    "rows": _rows,
    "grad": _slope,
    "gram": _gram,
    "noise": _noise,
    "shuffled": _shuffled,
    "update": _update,
    "scattered": _scattered,
    "dynamic slice": _strip,
    "dynamic update": _room,
    "convolution": _smoothed,
    "concatenate": _pieces,
    "vmap": lambda draw, x: tfn.vmap(lambda row: row - row.mean() + row.size)(x),
    "top": lambda draw, x: lax.top_k(x.reshape(x.shape[0], -1).T, 2)[0],
}  # fmt: skip
"""One step each, from an array to another one."""

MOST_ELEMENTS = 3000


def program(seed: int, length: int = 5) -> tuple[Callable[..., Any], list[str]]:
    """A function of an array [b, 3] and its steps by name; the same for the same seed."""
    draw = random.Random(seed)
    names = [draw.choice([*STEPS]) for _ in range(length)]
    seeds = [draw.randrange(1 << 30) for _ in names]

    def f(x: Any) -> Any:
        results = []
        for name, own in zip(names, seeds, strict=True):
            x = STEPS[name](random.Random(own), x)
            results.append(x)
        return results

    return f, names
