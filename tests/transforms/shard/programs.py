"""Random programs of 5 to 30 operations on arrays whose sizes a mesh divides in many ways."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.sharding import AbstractMesh, NamedSharding, P

SHAPES = ((8, 8), (8, 4), (4, 8), (16,), (8,), (2, 8, 4), (4, 4, 4), (1, 8), (3, 8), ())
"""Sizes that 2, 4 and 8 divide, beside some that they do not."""
Values = list[Any]


def _pick(random: Random, values: Values, least: int = 0, most: int = 4) -> Any:
    fit = [x for x in values if least <= x.ndim <= most and x.size <= 4096]
    return random.choice(fit) if fit else tnp.ones((8,) * max(least, 1))


def _unary(r: Random, v: Values) -> Any:
    return r.choice([tnp.tanh, tnp.abs, lambda x: x * x - 1, tnp.cos])(_pick(r, v))


def _binary(r: Random, v: Values) -> Any:
    x = _pick(r, v)
    others = [y for y in v if _broadcasts(x.shape, y.shape)]
    return r.choice([tnp.add, tnp.multiply, tnp.maximum])(x, r.choice(others or [x]))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def _matmul(r: Random, v: Values) -> Any:
    x = _pick(r, v, 2, 2)
    fit = [y for y in v if y.ndim == 2 and y.shape[0] == x.shape[1]] or [x.T]
    return x @ r.choice(fit) / 4


def _batched(r: Random, v: Values) -> Any:
    x = _pick(r, v, 3, 3) if any(y.ndim == 3 for y in v) else tnp.ones((2, 8, 4))
    return tnp.einsum("bij,bkj->bik", x, x) / 4


def _transpose(r: Random, v: Values) -> Any:
    x = _pick(r, v, 2)
    return x.transpose(tuple(r.sample(range(x.ndim), x.ndim)))


def _reshape(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    ways = [(-1,), (2, -1), (-1, 2), (2, 2, -1), (4, -1), (1, -1)]
    fit = [w for w in ways if x.size and x.size % abs(int(np.prod(w))) == 0]
    return x.reshape(r.choice(fit))


def _reduce(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    axis = r.randrange(x.ndim)
    reduce = r.choice([tnp.sum, tnp.max, tnp.mean, tnp.std])
    return reduce(x, axis=axis, keepdims=r.random() < 0.5)


def _along(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    axis = r.randrange(x.ndim)
    ways: list[Callable[..., Any]] = [
        tnp.sort,
        tnp.flip,
        lambda x, axis: tnp.cumsum(x, axis) / 4,
        lambda x, axis: tnp.roll(x, 3, axis),
        lambda x, axis: tnp.take_along_axis(x, tnp.argsort(x, axis), axis),
        lambda x, axis: tfn.nn.softmax(x, axis),
        lambda x, axis: tnp.concatenate([x, x], axis),
        lambda x, axis: tnp.argmax(x, axis) + tnp.zeros(x.shape[:axis] + x.shape[axis + 1 :]),
        lambda x, axis: lax.cummax(x, axis, reverse=True),
        lambda x, axis: tnp.diff(x, axis=axis, prepend=0.0),
    ]
    return r.choice(ways)(x, axis=axis)


def _index(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    n = x.shape[0]
    if r.random() < 0.5:
        return x[:: r.choice([1, 2])][: max(n // 2, 1)]
    rows = tnp.asarray(np.array([r.randrange(n) for _ in range(8)], "int32"))
    return x[rows]


def _scatter(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    rows = tnp.asarray(np.array([r.randrange(x.shape[0]) for _ in range(8)], "int32"))
    return r.choice([x.at[rows].add(0.5), x.at[rows].set(0.25), x.at[rows].max(0.1)])


def _pad(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    return tnp.pad(x, [(0, r.choice([0, 1, 2])) for _ in x.shape])


def _where(r: Random, v: Values) -> Any:
    x = _pick(r, v)
    return tnp.where(x > 0, x, 0.1 * x)


def _scan(r: Random, v: Values) -> Any:
    x, xs = _pick(r, v), _pick(r, v, 1)
    carry, ys = lax.scan(lambda c, y: (tnp.tanh(c + y.sum()), y * 2 + c.mean()), x, xs)
    return r.choice([carry, ys])


def _while(r: Random, v: Values) -> Any:
    x = _pick(r, v)
    return lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5 + s[1].mean()), (0, x), max_steps=4
    )[1]


def _cond(r: Random, v: Values) -> Any:
    x = _pick(r, v)
    # The absolute sum is seldom near 1, where a sum cut in parts could choose the other branch.
    return lax.cond(tnp.abs(x).sum() > 1, lambda x: x * 2, lambda x: x - x.mean(), x)


def _random(r: Random, v: Values) -> Any:
    x = _pick(r, v)
    return x + tfn.random.uniform(tfn.random.PRNGKey(r.randrange(9)), x.shape)


def _counted(r: Random, v: Values) -> Any:
    x = _pick(r, v, 1)
    return x * tnp.arange(x.shape[-1])


def _conv(r: Random, v: Values) -> Any:
    x = tnp.resize(_pick(r, v, 1), (2, 4, 8))
    w = tnp.resize(_pick(r, v, 1), (4, 4, 3))
    return lax.conv_general_dilated(x, w, (1,), "SAME") / 8


def _call(r: Random, v: Values) -> Any:
    return tfn.call(lambda x: tnp.tanh(x) * x.sum())(_pick(r, v))


STEPS = (
    (_unary, 3), (_binary, 5), (_matmul, 4), (_batched, 1), (_transpose, 2), (_reshape, 3),
    (_reduce, 3), (_along, 4), (_index, 2), (_scatter, 1), (_pad, 1), (_where, 1), (_scan, 2),
    (_while, 1), (_cond, 1), (_random, 1), (_counted, 1), (_conv, 1), (_call, 1),
)  # fmt: skip
"""Steps, and how often each is drawn."""


CONSTRAINED = 0.15
"""The share of values that are divided in some way, also where sizes do not divide."""


def _constrained(r: Random, x: Any, mesh: AbstractMesh) -> Any:
    names = list(mesh.axis_names)[: x.ndim]
    spec = [*names, *[None] * (x.ndim - len(names))]
    return lax.with_sharding_constraint(x, NamedSharding(mesh, P(*r.sample(spec, x.ndim))))


def program(seed: int, mesh: AbstractMesh) -> tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]:
    """A function of arrays, and arguments for it."""
    random = Random(seed)
    shapes = [random.choice(SHAPES) for _ in range(random.randint(2, 4))]
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    length, choices = random.randint(5, 30), random.random()

    def run(*values: Any) -> Any:
        r, made = Random(choices), list(values)
        for _ in range(length):
            step = r.choices([s for s, _ in STEPS], [n for _, n in STEPS])[0]
            x = step(r, made)
            made.append(_constrained(r, x, mesh) if r.random() < CONSTRAINED else x)
        return made[-3:]

    return run, args
