"""Loops mean what they mean in Python, alone and nested, under every transform."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tests import covering
from tests.covering import in_turn
from tests.growth import NONE, growth
from tests.lax.control import (
    PAIRS,
    WRAPPERS,
    Pair,
    check,
    check_deep,
    check_nested,
    check_transforms,
    scalar,
    step,
)
from tfn import lax
from tfn.config import config
from tfn.errors import ArgumentError, DTypeError, GradientError, ShapeError, TreeError

KINDS = [pair for pair in PAIRS if pair.name != "scan reverse"]
BY_NAME = {pair.name: pair for pair in (*PAIRS, *WRAPPERS)}


@pytest.mark.parametrize("pair", [*PAIRS, *WRAPPERS], ids=lambda pair: pair.name)
def test_transforms(pair: Pair) -> None:
    check_transforms(pair.control(step), pair.plain(step), pair.reverse)


@pytest.mark.parametrize(
    ("outer", "inner"),
    in_turn(3, product(KINDS, KINDS)),
    ids=lambda pair: pair.name.replace(" ", "-"),
)
def test_transforms_of_nested_loops(outer: Pair, inner: Pair) -> None:
    f = outer.control(inner.control(step))
    plain = outer.plain(inner.plain(step))
    batched = covering.exhaustive or (KINDS.index(outer) + KINDS.index(inner)) % 2 == 0
    check_nested(f, plain, outer.reverse and inner.reverse, batched)


def nested(*names: str) -> tuple[Any, Any, bool]:
    """Controls around the step, the last innermost; the same in Python; if it has a gradient."""
    f = plain = step
    pairs = [BY_NAME[name] for name in names]
    for pair in reversed(pairs):
        f, plain = pair.control(f), pair.plain(plain)
    return f, plain, all(pair.reverse for pair in pairs)


AROUND = ("scan", "fori", "while bounded", "cond", "switch", "map", "associative_scan")
ALONE = [pair.name for pair in WRAPPERS]
WITH_WRAPPERS = [
    *((loop, wrapper) for loop, wrapper in product(AROUND, ALONE) if loop != wrapper),
    *((wrapper, loop) for wrapper, loop in product(ALONE, ("scan", "while bounded", "cond"))),
    *product(("checkpoint", "custom_jvp", "custom_vjp", "call"), ("custom_vjp", "checkpoint")),
]
THREE_DEEP = [
    ("scan", "cond", "custom_vjp"),
    ("scan", "while", "custom_jvp"),
    ("cond", "scan", "checkpoint"),
    ("while bounded", "scan", "switch"),
    ("map", "fori", "custom_vjp"),
    ("switch", "map", "scan"),
    ("checkpoint", "scan", "custom_jvp"),
    ("custom_vjp", "fori", "cond"),
    ("scan checkpointed", "scan", "cond"),
    ("fori", "checkpoint", "associative_scan"),
    ("associative_scan", "scan", "call"),
    ("while", "cond", "while"),
    ("scan checkpointed", "while bounded", "scan checkpointed"),
    ("call", "scan", "checkpoint"),
]


@pytest.mark.parametrize("names", in_turn(3, WITH_WRAPPERS), ids=", ".join)
def test_transforms_of_loops_and_functions_with_rules(names: tuple[str, ...]) -> None:
    f, plain, reverse = nested(*names)
    check_deep(f, plain, reverse)


@pytest.mark.parametrize("names", in_turn(2, THREE_DEEP), ids=", ".join)
def test_transforms_of_three_loops(names: tuple[str, ...]) -> None:
    check_nested(*nested(*names))


@contextmanager
def on(device: str) -> Iterator[None]:
    before, config.device = config.device, device
    try:
        yield
    finally:
        config.device = before


@settings(max_examples=12)
@given(st.lists(st.sampled_from(sorted(BY_NAME)), min_size=1, max_size=3), st.integers(0, 99))
def test_drawn_programs_run_alike_everywhere(names: list[str], seed: int) -> None:
    """As Python, op by op, compiled, and by the definition of each op; gradients too."""
    point = np.random.default_rng(seed).normal(size=3).astype("f")
    f, plain, reverse = nested(*names)
    functions = [(f, plain)]
    if reverse:
        functions.append((tfn.grad(scalar(f)), tfn.grad(scalar(plain))))
    for run, reference in functions:
        expected = np.asarray(reference(tnp.asarray(point)))
        check(run(tnp.asarray(point)), tnp.asarray(expected), 1e-3)
        check(tfn.jit(run)(tnp.asarray(point)), tnp.asarray(expected), 1e-3)
        with on("python"):
            actual = np.asarray(tfn.jit(run)(tnp.asarray(point)))
        np.testing.assert_allclose(actual, expected, 1e-3, 1e-3)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_gradients_agree_with_finite_differences(pair: Pair) -> None:
    f = scalar(pair.control(step))
    x = tnp.array([0.4, 0.3, -0.1], dtype="float64")
    slope = tfn.grad(f)(x) if pair.reverse else tfn.jacfwd(f)(x)
    for i in range(3):
        e = np.zeros(3)
        e[i] = 1e-6
        expected = (float(f(x + e)) - float(f(x - e))) / 2e-6
        assert abs(float(slope[i]) - expected) < 1e-6 * (1 + abs(expected))


def second(f: Any) -> Any:
    return tfn.grad(lambda x: (tfn.grad(scalar(f))(x) ** 2).sum())


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.reverse], ids=lambda pair: pair.name)
def test_second_derivatives(pair: Pair) -> None:
    x = tnp.array([0.4, 0.3, -0.1])
    f, plain = pair.control(step), pair.plain(step)
    check(second(f)(x), second(plain)(x), 1e-3)
    check(tfn.hessian(scalar(f))(x), tfn.hessian(scalar(plain))(x), 1e-3)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 9, True, False])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_unroll(length: int, unroll: Any, reverse: bool) -> None:
    xs = tnp.arange(length * 2.0).reshape(length, 2)
    body = lambda c, x: (c * 0.5 + x, (c * x, x[0]))
    expected = lax.scan(body, tnp.ones(2), xs, reverse=reverse)
    check(lax.scan(body, tnp.ones(2), xs, reverse=reverse, unroll=unroll), expected)

    def total(xs: Any, unroll: Any) -> Any:
        actual = lax.scan(body, tnp.ones(2), xs, reverse=reverse, unroll=unroll)
        return sum(y.sum() for y in tfn.tree.leaves(actual))

    slope = tfn.grad(lambda xs: total(xs, unroll))
    check(slope(xs), tfn.grad(lambda xs: total(xs, 1))(xs))


def test_a_loop_of_no_steps() -> None:
    last, ys = lax.scan(lambda c, x: (c + x, (x * 2, None)), tnp.ones(3), tnp.zeros((0, 3)))
    assert last.tolist() == [1, 1, 1] and ys[0].shape == (0, 3) and ys[1] is None
    assert float(lax.fori_loop(5, 2, lambda i, v: v * 2, 3.0)) == 3.0
    slope = tfn.grad(lambda w: lax.scan(lambda c, x: (c * w, c), w, None, length=0)[0])(3.0)
    assert float(slope) == 1.0


def test_trees_and_none() -> None:
    def body(carry: Any, x: Any) -> Any:
        (a, b), n = carry
        return ((a + x["u"], b * x["v"][0]), n + 1), {"y": a, "z": [b, n]}

    xs = {"u": tnp.arange(3.0), "v": (tnp.ones((3, 2)) * 2,)}
    ((a, b), n), ys = lax.scan(body, ((0.0, tnp.ones(2)), 0), xs)
    assert (float(a), b.tolist(), int(n)) == (3.0, [8.0, 8.0], 3)
    assert ys["y"].tolist() == [0, 0, 1] and ys["z"][0].shape == (3, 2)
    assert ys["z"][1].tolist() == [0, 1, 2]


def test_reverse_keeps_the_order_of_slices() -> None:
    _, ys = lax.scan(lambda c, x: (c + x, c + x), 0, tnp.arange(4), reverse=True)
    assert ys.tolist() == [6, 6, 5, 3]


def test_the_trace_does_not_depend_on_the_length() -> None:
    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (tnp.sin(c) + x, c), 0.0, xs)

    texts = [str(tfn.make_jaxpr(tfn.grad(lambda xs: f(xs)[0]))(tnp.ones(n))) for n in (3, 1000)]
    assert texts[0].count("\n") == texts[1].count("\n")


def test_equal_loops_are_one_node() -> None:
    def f(xs: Any) -> Any:
        return [lax.scan(lambda c, x: (c * x, None), xs[0], xs)[0] for _ in range(2)]

    assert str(tfn.make_jaxpr(f)(tnp.ones(3))).count("scan[") == 1


def test_while_with_no_step_and_with_captured_values() -> None:
    limit = tnp.array(100.0)
    f = tfn.jit(lambda x, k: lax.while_loop(lambda v: v < limit, lambda v: v * k, x))
    assert float(f(3.0, 2.0)) == 192.0
    assert float(f(300.0, 2.0)) == 300.0


def test_lanes_stop_when_they_are_done() -> None:
    f = lambda n: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * 2), (n, 1))[1]
    assert tfn.vmap(f)(tnp.array([0, 1, 5, 2])).tolist() == [1, 2, 32, 4]
    shared = tfn.vmap(
        lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))[1]
    )
    assert shared(tnp.array([1.0, 2.0])).tolist() == [1.0, 8.0]
    empty = lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 2, x)
    assert tfn.vmap(empty)(tnp.ones(0)).shape == (0,)


def test_bounds_may_be_traced() -> None:
    f = lambda n, x: lax.fori_loop(0, n, lambda i, v: v + i * x, x)
    assert float(tfn.jit(f)(4, 2.0)) == 14.0 == float(f(4, 2.0))
    assert tfn.vmap(f, in_axes=(0, None))(tnp.array([0, 3]), 2.0).tolist() == [2.0, 8.0]
    check(tfn.jacfwd(lambda x: tfn.jit(f)(4, x))(2.0), tnp.array(7.0))
    check(tfn.grad(lambda x: f(4, x))(2.0), tnp.array(7.0))


def test_map_in_batches() -> None:
    xs = {"a": tnp.arange(7.0), "b": tnp.ones((7, 2))}
    f = lambda x: (x["a"] * x["b"], x["a"])
    expected = lax.map(f, xs)
    for size in (1, 2, 7, 100):
        check(lax.map(f, xs, batch_size=size), expected)


def test_no_reverse_mode_without_a_number_of_steps() -> None:
    f = lambda x: lax.while_loop(lambda v: v < 10.0, lambda v: v * x, x)
    with pytest.raises(GradientError, match="number of steps is not known") as caught:
        tfn.grad(f)(2.0)
    assert "give max_steps, use scan, or fori_loop with static bounds" in str(caught.value)
    assert float(tfn.jacfwd(f)(2.0)) == 32.0


def test_a_bounded_while_has_a_reverse_mode() -> None:
    def f(x: Any, k: Any) -> Any:
        goes_on = lambda s: s[1] < 10.0
        body = lambda s: (s[0] + 1, s[1] * k)
        return lax.while_loop(goes_on, body, (0, x), max_steps=6)[1]

    assert float(f(1.0, 2.0)) == 16.0 and float(f(20.0, 2.0)) == 20.0
    assert float(f(1.0, 1.1)) == pytest.approx(1.1**6)
    check(tfn.grad(f, (0, 1))(1.0, 2.0), (tnp.array(16.0), tnp.array(32.0)))
    xs = tnp.array([1.0, 20.0, 3.0])
    check(tfn.vmap(tfn.grad(f), in_axes=(0, None))(xs, 2.0), tnp.array([16.0, 1.0, 4.0]))
    total = tfn.grad(lambda k: tfn.vmap(f, in_axes=(0, None))(xs, k).sum())
    check(total(2.0), tnp.array(32.0 + 0.0 + 12.0))


def test_numbers_are_constants_of_a_trace() -> None:
    f = lambda xs: lax.scan(lambda c, x: (c * x, None), 2.0, xs)[0]
    assert len(tfn.make_jaxpr(f)(tnp.ones(3)).params) == 1


def test_linear_transpose_of_a_loop() -> None:
    scale = tnp.array([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        body = lambda c, s: ((c[0] + 1, c[1] * s + x * c[0]), c[1] * c[0])
        (_, last), ys = lax.scan(body, (0.0, x), scale)
        return last + ys.sum()

    (back,) = tfn.linear_transpose(f, tnp.array(1.0))(1.0)
    check(back, f(tnp.array(1.0)))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: lax.scan(lambda c, x: (c, x), 0, {"a": tnp.ones(3), "b": tnp.ones(4)}),
            ShapeError,
            r"xs\['a'\]: f32\[3\], xs\['b'\]: f32\[4\]",
        ),
        (lambda: lax.scan(lambda c, x: (c, x), 0, tnp.ones(3), length=4), ShapeError, "length=4"),
        (lambda: lax.scan(lambda c, x: (c, x), 0), ArgumentError, "or a length"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, length=-1), ArgumentError, "not negative"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, 3.0), ShapeError, "a scalar has none"),
        (lambda: lax.scan(lambda c, x: (c, x), 0, length=2, unroll=-1), ArgumentError, "unroll"),
        (lambda: lax.while_loop(lambda v: v, lambda v: v, 1.0), DTypeError, "boolean scalar"),
        (
            lambda: lax.while_loop(lambda v: v > 0, lambda v: v, tnp.ones(2)),
            ShapeError,
            "one boolean scalar",
        ),
        (lambda: lax.while_loop(lambda v: v > 0, lambda v: (v, v), 1.0), TreeError, "structure"),
        (lambda: lax.fori_loop(0, 3.0, lambda i, v: v, 1.0), DTypeError, "as upper"),
        (lambda: lax.fori_loop(0, 3, lambda i, v: v * tnp.ones(2), 1.0), ShapeError, "comes out"),
        (lambda: lax.map(lambda x: x, tnp.ones(2), batch_size=0), ArgumentError, "batch_size"),
    ],
)
def test_wrong_arguments_raise(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


# Memory.


def test_loops_keep_nothing() -> None:
    x = tnp.ones((64, 64))

    def step() -> None:
        c = x + 1
        lax.scan(lambda total, row: (total + (row * c).sum(), None), 0.0, x)
        lax.while_loop(lambda y: y[0, 0] < 100, lambda y: y + c, x)
        lax.fori_loop(0, 3, lambda i, y: y * c, x)
        tfn.grad(lambda x: lax.scan(lambda a, row: (a * (row + c[0]).sum(), None), 1.0, x)[0])(x)

    assert growth(step) == NONE
