"""Updates of arrays in loops and branches: in place, with the values of the oracle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import covering
from tests.lower.check_passes import SMALL
from tests.lower.graphs import assert_close, assert_matches_oracle, inputs, run_oracle
from tests.lower.thread_team import all_shared, run_on_threads
from tfn import lax
from tfn.config import config
from tfn.lower.pipeline import lower
from tfn.lower.program import kernel_times_ns

cond = lax.cond


def put(a: Any, t: Any) -> Any:
    return a.at[t].set(0.5)


def same(a: Any) -> Any:
    return a


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "two updates": lambda t, a: put(put(a, t), t + 1),
    "elements that are exchanged": lambda t, a: a.at[t].set(a[t + 1]).at[t + 1].set(a[t]),
    "an element at a fixed place": lambda t, a: a.at[t].set(a[3]),
    "an element that is exchanged with a fixed one": lambda t, a: a.at[t].set(a[3]).at[3].set(a[t]),
    "an update of an updated element": lambda t, a: put(a, t).at[t + 1].multiply(put(a, t)[t]),
    "one branch": lambda t, a: cond(t % 2 == 0, same, lambda a: put(a, t), a),
    "a branch on an element": lambda t, a: cond(a[t] > 0, same, lambda a: put(a, t), a),
    "each branch": lambda t, a: cond(t > 2, lambda a: put(a, t), lambda a: put(a, t + 1), a),
    "slices": lambda t, a: cond(
        t % 2 == 0, same, lambda a: lax.dynamic_update_slice(a, a[t][None] + 1, (t,)), a
    ),
    "a part of the array": lambda t, a: cond(
        t % 2 == 0, lambda a, b: a, lambda a, b: a.at[t].set(b.sum()), a, a[:3]
    ),
    "closures": lambda t, a: cond(t % 2 == 0, lambda: a, lambda: put(a, t)),
    "three branches": lambda t, a: lax.switch(
        t % 3, [same, lambda a: put(a, t), lambda a: put(a, t + 1)], a
    ),
    "branches in branches": lambda t, a: cond(
        t % 2 == 0,
        lambda a: cond(t % 3 == 0, same, lambda a: put(a, t), a),
        lambda a: put(a, t + 1),
        a,
    ),
    "one branch after the other": lambda t, a: cond(
        t % 3 == 0,
        same,
        lambda a: put(a, t + 1),
        cond(t % 2 == 0, same, lambda a: put(a, t), put(a, 2)),
    ),
    "a loop": lambda t, a: lax.scan(lambda a, s: (put(a, t + s), None), a, tnp.arange(3))[0],
    "a loop with a condition": lambda t, a: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, put(c[1], t + c[0])), (0, a)
    )[1],
    "a loop with a branch": lambda t, a: lax.fori_loop(
        0, 3, lambda s, a: cond(s > 1, same, lambda a: put(a, t + s), a), a
    ),
    "a branch with a loop": lambda t, a: cond(
        t % 2 == 0, same, lambda a: lax.fori_loop(0, 3, lambda s, a: put(a, t + s), a), a
    ),
}
"""Steps of a loop that change some elements of the array that it carries."""

PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "one of two": lambda t, c: cond(t % 2 == 0, lambda c: (put(c[0], t), c[1]), same, c),
    "one by the other": lambda t, c: cond(
        t % 2 == 0,
        lambda c: (c[0].at[t].set(c[1][t]), c[1]),
        lambda c: (c[0], c[1].at[t].set(c[0][t + 1])),
        c,
    ),
}
EXCHANGED: dict[str, Callable[[Any, Any], Any]] = {
    "exchanged in a branch": lambda t, c: cond(t % 2 == 0, lambda c: (c[1], put(c[0], t)), same, c),
    "both old": lambda t, c: (put(c[0], t), c[0]),
    "one twice": lambda t, c: cond(t % 2 == 0, lambda c: (put(c[0], t),) * 2, same, c),
    "turned": lambda t, c: cond(t % 2 == 0, lambda c: (c[1][::-1], c[0][::-1]), same, c),
}
"""Steps with two carries, of which some must be copied."""


def trace(step: Callable[[Any, Any], Any], carries: int, n: int) -> tfn.Jaxpr:
    def f(*arrays: Any) -> Any:
        return lax.fori_loop(0, 6, step, arrays if carries > 1 else arrays[0])

    return tfn.make_jaxpr(f)(*[tfn.ShapeDtypeStruct((n,), "float32")] * carries)


@pytest.mark.parametrize("name", STEPS | PAIRS)
def test_updates_in_loops_copy_no_array(name: str) -> None:
    """What grows with the array is the copy of the first carry, before the loop."""
    step, carries = (STEPS | PAIRS)[name], 1 + (name in PAIRS)
    (small, once), (large, copied) = (
        [
            sum(kernel_times_ns(lower(trace(f, carries, n), SMALL).steps).values())
            for f in (step, turn_all)
        ]
        for n in (1 << 10, 1 << 17)
    )
    assert 0 < large - small < (copied - once) / 6


def turn_all(t: Any, c: Any) -> Any:
    """A step that moves every element."""
    return tfn.tree.map(lambda a: tnp.roll(a, 1), c)


@pytest.mark.parametrize("name", STEPS | PAIRS | EXCHANGED)
def test_updates_in_loops_have_the_values_of_the_oracle(name: str) -> None:
    step = (STEPS | PAIRS | EXCHANGED)[name]
    assert_matches_oracle(trace(step, 1 + (name not in STEPS), 9).outputs)


def update(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    return c[0].at[t + place].set(c[1][t] + 1), c[1]


def exchange(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    a, b = c
    return a.at[place].set(a[t]).at[t].set(a[place]), b


def turn(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    return c[1], c[0]


def sum_up(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    return c[0] + c[1][place], c[1]


def mirror(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    return c[0][::-1], c[1]


def read_old(t: Any, c: tuple[Any, Any], place: int) -> tuple[Any, Any]:
    return put(c[0], place), c[1].at[t].add(c[0][place])


SIMPLE = (update, exchange, turn, sum_up, mirror, read_old)


def run_body(body: list[Any], t: Any, c: tuple[Any, Any]) -> tuple[Any, Any]:
    """Steps one after the other: simple ones, branches and loops."""
    for kind, *rest in body:
        if kind == "branch":
            place, *ways = rest
            branches = [partial(run_body, way, t) for way in ways]
            c = lax.switch((t + place) % len(ways), branches, c)
        elif kind == "loop":
            c = lax.fori_loop(0, 2, lambda s, c, b=rest[0]: run_body(b, t + s, c), c)
        else:
            c = kind(t, c, *rest)
    return c


def draw_body(random: Random, depth: int) -> list[Any]:
    """One to three steps, with branches and loops in each other up to a depth."""
    body: list[Any] = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(("simple", "simple", "branch", "loop") if depth else ("simple",))
        inner = [draw_body(random, depth - 1) for _ in range(3)] if kind != "simple" else []
        if kind == "branch":
            body.append((kind, random.randint(0, 4), *inner[: random.randint(2, 3)]))
        else:
            body.append(
                (kind, inner[0]) if inner else (random.choice(SIMPLE), random.randint(0, 4))
            )
    return body


@pytest.mark.parametrize("seed", range(8))
def test_random_updates_have_the_values_of_the_oracle(seed: int) -> None:
    body = draw_body(Random(seed), 2)

    def step(t: Any, c: tuple[Any, Any]) -> tuple[Any, Any]:
        return run_body(body, t, c)

    with all_shared():
        outputs = trace(step, 2, 8).outputs
        values = inputs(outputs)
        got = run_on_threads(3, outputs, values)
    for x, y in zip(got, run_oracle(outputs, values), strict=True):
        assert_close(x, y, 1e-5, 1e-5)


PUTS: dict[str, Callable[[Any, Any], Any]] = {
    "slice at a number": lambda a, u: lax.dynamic_update_slice(a, u, (0, 0)),
    "slice at a value": lambda a, u: lax.dynamic_update_slice(a, u, (tnp.zeros((), int), 0)),
    "at": lambda a, u: a.at[: len(u)].set(u),
    "rows": lambda a, u: a.at[tnp.arange(len(u))].set(u),
    "sums": lambda a, u: a.at[tnp.arange(len(u))].add(u),
    "branch": lambda a, u: cond(u[0, 0] < 1e9, lambda a: a.at[: len(u)].set(u), same, a),
    "loop": lambda a, u: lax.fori_loop(0, len(u), lambda i, a: a.at[i].set(u[i]), a),
    "parts": lambda a, u: tnp.concatenate([u, a[len(u) :]]),
}
UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x @ x.T @ y,
    "argument": lambda x, y: y,
    "sum": lambda x, y: tnp.cumsum(x, 0),
    "function": lambda x, y: tnp.sin(x) * y,
    "sort": lambda x, y: tnp.sort(x, 1),
}
OPERANDS: dict[str, Callable[[Any], Any]] = {
    "zeros": tnp.zeros_like,
    "argument": same,
    "function": tnp.cos,
    "product": lambda y: y @ y.T @ y,
}
READ: dict[str, Callable[[Any, Any, Any], Any]] = {
    "the new one": lambda a, u, new: new,
    "the update too": lambda a, u, new: (new, u),
    "the old one too": lambda a, u, new: (new, a * 2),
    "both later": lambda a, u, new: (new @ new.T, u + 1),
}


@covering("put, update, operand, read", PUTS, UPDATES, OPERANDS, READ, pairs=[(0, 1), (1, 2)])
def test_updates_are_in_the_memory_of_what_they_update_alone(
    put: str, update: str, operand: str, read: str
) -> None:
    """An update that is a kernel's result was in the memory of the new array, filled after it."""
    x = np.random.default_rng(0).standard_normal((2, 4, 6), np.float32)

    def program(x: Any, y: Any, rows: int) -> Any:
        old, new = OPERANDS[operand](y), UPDATES[update](x, y)[:rows]
        return READ[read](old, new, PUTS[put](old, new))

    for rows in (4, 3):
        want = [np.asarray(z) for z in tfn.tree.leaves(oracle(program, *x, rows))]
        got = tfn.tree.leaves(tfn.jit(program, static_argnums=2)(*x, rows))
        for z, w in zip(got, want, strict=True):
            np.testing.assert_allclose(z, w, 1e-4, 1e-4)


def oracle(program: Callable[..., Any], *args: Any) -> Any:
    """The values of a program, each operation by NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "device", "python")
        return tfn.tree.map(np.asarray, program(*map(tnp.asarray, args[:-1]), args[-1]))
